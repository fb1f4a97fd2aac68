"""Rows of tcp.csv, from samples of connections."""

from losslab.emulation import probes
from losslab.emulation.sampling import Samples


def sample(port=40001, acked=0, behind_gap=0):
    mss = 1000
    fields = (mss, 0, behind_gap, *[0] * 6, acked, *[0] * 7)
    return probes.tcp_sample(port, "cubic", fields, accurate_ecn=False)


def written(samples):
    columns = probes.TCP_COLUMNS.split(",")
    return [dict(zip(columns, row.split(","), strict=True)) for row in samples.tcp_rows]


def test_w9_delivered_bytes_never_fall():
    """W9: without SACK, TCP forgets at a timeout what arrived behind a gap: 128,818 to 97,034."""
    samples = Samples()
    for t_s, (acked, behind_gap) in enumerate([(5000, 0), (5000, 8), (5000, 0), (14_000, 0)]):
        samples.add(t_s, sample(acked=acked, behind_gap=behind_gap))
    rows = written(samples)
    assert [row["delivered_bytes"] for row in rows] == ["5000", "13000", "13000", "14000"]
    assert [row["acked_bytes"] for row in rows] == ["5000", "5000", "5000", "14000"]


def test_delivered_bytes_of_the_next_connection_from_a_port_begin_again():
    samples = Samples()
    samples.add(0, sample(acked=9000))
    samples.add(1, sample(acked=1))
    assert [row["delivered_bytes"] for row in written(samples)] == ["9000", "1"]


def test_w9_connections_over_which_the_sender_receives_have_no_rows():
    """W9: 1111 of 1425 rows of a run were of the sender's end of its uploads."""
    samples = Samples(left_out={5300})
    for port in (40001, 5300):
        samples.add(0, sample(port=port))
        samples.note(sample(port=port))
    assert [row["flow"] for row in written(samples)] == ["40001"]
    assert samples.last.keys() == {40001}
