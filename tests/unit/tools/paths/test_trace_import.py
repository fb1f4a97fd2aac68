"""Import of traces: each public form has its rates, and whatever is unclear needs an option."""

import bisect
import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab import cli
from losslab.emulation.link import tracelink
from losslab.reading import UsageError
from losslab.tools.paths import traces
from losslab.tools.paths.traces import Choices, Period

PACKET_BITS = 12_000
COOKED = "0.0\t1.5\n1.0\t0\n2.0\t2\n"
OSLO = "1289406399 549 59.8 10.7 150000 1000\n1289406400 1549 59.8 10.7 0 1001\n"
CORK = (
    "Timestamp,Speed,State,DL_bitrate,UL_bitrate,PINGAVG\n"
    "2017.11.30_16.48.26,0,I,12000,7,40\n2017.11.30_16.48.27,0,I,0,7,40\n"
    "2017.11.30_16.48.27,0,I,6000,7,44\n2017.11.30_16.48.29,0,I,24000,7,40\n"
)
SABRE = """[{"duration_ms": 1000, "bandwidth_kbps": 1200, "latency_ms": 20},
            {"duration_ms": 500, "bandwidth_kbps": 0, "latency_ms": 30}]"""
MBIT, SECOND = Choices(unit="mbit"), Choices(unit="mbit", interval_ms=1000)


@pytest.mark.parametrize(
    ("text", "choices", "lengths_ms", "mbit"),
    [
        ("5.5\n0\n3.25\n", SECOND, [1000] * 3, [5.5, 0, 3.25]),
        ("# one column\nmbps\n5\n0.5\n", Choices(interval_ms=500), [500] * 2, [5, 0.5]),
        (COOKED, MBIT, [1000] * 3, [1.5, 0, 2]),
        ("time,rate_kbps\n0,500\n250,1500\n", Choices(), [250] * 2, [0.5, 1.5]),
        ("time_s;Mbit/s\n0;2\n5;4\n", Choices(), [5000] * 2, [2, 4]),
        ("time_us,mbps\n0,2\n5000,4\n", Choices(), [5] * 2, [2, 4]),
        ("time_min,mbps\n0,2\n1,4\n", Choices(), [60_000] * 2, [2, 4]),
        # Bytes since the row before.
        ("t,bytes\n1,125000\n1.5,250000\n", Choices(), [500] * 2, [2, 4]),
        ("t,kBytes\n1,125\n1.5,250\n", Choices(), [500] * 2, [2, 4]),
        ("t,KBytes/s\n1,125\n1.5,250\n", Choices(), [500] * 2, [1, 2]),
        (
            "t, 'DL, megabits per second'\n1,1\n1.5,2\n".replace("'", '"'),
            Choices(),
            [500] * 2,
            [1, 2],
        ),
        ("t,mbps,mbps\n1,8,1\n2,8,2\n", Choices("3"), [1000] * 2, [1, 2]),
        ("0 125000\n1 250000\n", Choices(unit="bytes"), [1000] * 2, [1, 2]),
        ("seconds,bytes_sec\n0,125000\n1,250000\n", Choices(), [1000] * 2, [1, 2]),
        (OSLO, Choices(), [1000, 1001], [1.2, 0]),
        # Two rows of one second are one, and a rate holds until the next row.
        (CORK, Choices("DL_bitrate"), [1000, 2000, 1000], [12, 3, 24]),
        (SABRE, Choices(), [1000, 500], [1.2, 0]),
        ("[1, 2.5]", SECOND, [1000] * 2, [1, 2.5]),
        ('{"info": "x", "mbps": [1, 2], "ts": [0, 1]}', Choices(), [1000] * 2, [1, 2]),
        ('{"trace": [{"ms": 100, "mbit": 8}]}', Choices(), [100], [8]),
        ("a,b\n1,2\n3,4\n", Choices("b", "gbit", 10.0), [10] * 2, [2000, 4000]),
        ("9 1 2\n9 2 4\n", Choices("3", "mbit", time_column="2"), [1000] * 2, [2, 4]),
        # Times of the day, over midnight, and decimal commas.
        (
            "Zeit;Mbps\n23:59:59,5;45,2\n0:00:00;50\n",
            Choices(time_column="Zeit"),
            [500] * 2,
            [45.2, 50],
        ),
        ("time\tMbps\n12:00:00\t1,25\n12:00:02\t2,125\n", Choices(), [2000] * 2, [1.25, 2.125]),
        (
            "Time,mbps\nWed Dec 15 16:05:11 UTC 2021,5\nWed Dec 15 16:05:14 UTC 2021,6\n",
            Choices(),
            [3000] * 2,
            [5, 6],
        ),
        (
            "time,mbps\n2023-04-28 23:59:59 CDT,5\n2023-04-29 00:00:01 CDT,6\n",
            Choices(),
            [2000] * 2,
            [5, 6],
        ),
        (
            "t,bytes\n" + "".join(f"{n},{n * 125_000}\n" for n in range(6)),
            Choices(amounts="total"),
            [1000] * 6,
            [0, *[1] * 5],
        ),
        (
            "t,bytes\n" + "".join(f"{n},{n * 125_000}\n" for n in range(6)),
            Choices(amounts="row"),
            [1000] * 6,
            range(6),
        ),
        # Objects one level down, and Starlink's ring of samples, whose oldest is not the first.
        ('{"a": {"mbps": [1, 2], "ts": [0, 1]}, "b": 1}', Choices(), [1000] * 2, [1, 2]),
        (
            '{"dishGetHistory": {"current": "5", "mbps": [3, 1, 2]}}',
            SECOND,
            [1000] * 3,
            [2, 3, 1],
        ),
        (
            '{"dishGetHistory": {"current": 2, "mbps": [3, 1, 0]}}',
            SECOND,
            [1000] * 2,
            [3, 1],
        ),
    ],
)
def test_every_form_has_its_rates(text, choices, lengths_ms, mbit):
    found, _ = traces.read(text, "file", choices)
    assert [each.length_ms for each in found] == lengths_ms
    assert [each.mbit for each in found] == pytest.approx(mbit)


@pytest.mark.parametrize(
    ("text", "choices", "option"),
    [
        ("5.5\n0\n", Choices(), "--unit"),
        ("5.5\n0\n", MBIT, "--interval-ms"),
        (COOKED, Choices(), "--unit"),
        (CORK, Choices(), "--column"),
        ("time,Throughput\n0,1\n1,2\n", Choices(), "--unit"),
        ("time,MBps\n0,1\n1,2\n", Choices("MBps"), "--unit"),
        ("time,Mibit/s\n0,1\n1,2\n", Choices("Mibit/s"), "--unit"),
        ("1 2 3\n2 3 4\n", Choices(), "--column"),
        ("time,mbps\n0,1\n50,2\n", Choices(), "--interval-ms"),
        ("time,mbps\n1,1\n0,2\n", Choices(), "--interval-ms"),
    ],
)
def test_unclear_file_is_refused_with_the_option_that_settles_it(text, choices, option):
    with pytest.raises(UsageError) as error:
        traces.read(text, "file", choices)
    assert option in error.value.hint


@pytest.mark.parametrize(
    ("name", "losses", "unit", "percent"),
    [
        ("loss_rate", "0.02 0.03", "fraction", 3),
        ("loss", "0.02 0.03", "percent", 0.03),
        ("loss_percent", "0.02 0.03", None, 0.03),
        ("lost [%]", "0.02 0.03", None, 0.03),
        ("loss", "0.5 2", None, 2),
        ("loss", "0 0", None, 0),
    ],
)
def test_w9_losses_have_the_unit_of_their_name_their_size_or_the_option(
    name, losses, unit, percent
):
    text = "".join(f"{its},5\n" for its in [name, *losses.split()]).replace(",5", ",mbps", 1)
    choices = Choices(interval_ms=2000, loss_column=name, loss_unit=unit)
    periods, _ = traces.read(text, "file", choices)
    assert periods[-1].axes["loss_percent"] == pytest.approx(percent)


@pytest.mark.parametrize(
    ("text", "choices", "said"),
    [
        ("".join(f"{n} {900 + n}\n" for n in range(6)), Choices(unit="bytes"), "is a counter"),
        ("0 9\n1 8\n", Choices(unit="bytes", amounts="total"), "must not decrease"),
        ("t,mbps\n2023-04-28 01:59:59 CDT,5\n2023-04-28 01:00:00 CST,6\n", Choices(),
         "must have one time zone, found CDT, CST"),
    ],
)  # fmt: skip
def test_counters_and_changes_of_the_clock_are_a_question(text, choices, said):
    with pytest.raises(UsageError, match=said):
        traces.read(text, "file", choices)


@given(st.lists(st.floats(0, 1), min_size=1).filter(any))
def test_w9_losses_that_may_be_fractions_are_a_question(losses):
    text = "loss_rate,mbps\n" + "".join(f"{its!r},5\n" for its in losses)
    with pytest.raises(UsageError) as error:
        traces.read(text, "file", Choices(interval_ms=1000, loss_column="loss_rate"))
    assert "--loss-unit" in (error.value.hint or "")


def test_log_of_mahimahi_has_the_trace_of_its_link(tmp_path, capsys):
    log = "# mahimahi mm-link (uplink) [a.up] > log\n# base timestamp: 7\n7 # 1504\n8 + 1504\n"
    (tmp_path / "log").write_text(log + "9 # 1504\n9 - 1504 1\n9 # 1504\n")
    out = tmp_path / "out.trace"
    assert cli.main(["trace", "import", str(tmp_path / "log"), "--out", str(out)]) == 0
    assert tracelink.parse(out.read_text(), "out") == [0, 2, 2]
    assert "log: mahimahi mm-link (uplink) [a.up]" in capsys.readouterr().out
    (tmp_path / "log").write_text(log.replace("7 # 1504\n", ""))
    assert cli.main(["trace", "import", str(tmp_path / "log"), "--out", str(tmp_path / "b")]) == 2
    assert "must have opportunities" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "choices", "said"),
    [
        ("", Choices(), "file must have rows, found none"),
        ("mbps\n", SECOND, "must have 1 columns in each row, found no row"),
        ("1,2\n3\n", SECOND, "must have 2 columns in each row, found 1 in row 2"),
        ("mbps\n1\n-\n", SECOND, "mbps in row 2 must be a finite number, found -"),
        ("mbps\n1\n-5\n", SECOND, "mbps in row 2 must not be negative, found -5"),
        ("mbps,t\n1,x\n2,y\n", Choices(), "t in row 1 must be a number or a date, found x"),
        ("mbps\n1\n", Choices("kbps"), "--column must be one of mbps, found kbps"),
        ("mbps\n1\n", Choices("2"), "--column must be one of mbps, found 2"),
        (
            "mbps,rtt\n1,2\n",
            Choices(interval_ms=9, rtt_column="rtt", delay_column="rtt"),
            "--rtt-column and --delay-column exclude each other",
        ),
        ('{"a": 1}', Choices(), "must be a list of rates"),
        ("[[1], [2]]", Choices(), "must be a list of rates"),
        ("[1,", Choices(), "file must be JSON"),
    ],
)
def test_file_without_rates_is_refused(text, choices, said):
    with pytest.raises(UsageError) as error:
        traces.read(text, "file", choices)
    assert said in error.value.message


PERIODS = st.lists(
    st.tuples(st.integers(1, 300), st.sampled_from([0, 0, 1, 8, 500, 12_000, 33_333])),
    min_size=1, max_size=8,
).filter(lambda periods: any(rate for _, rate in periods))  # fmt: skip


@given(PERIODS)
def test_trace_has_the_capacity_of_its_rates_to_the_packet_and_the_millisecond(periods):
    """Rates are in kbit/s, which are bits per ms; a rate of 0 is an outage."""
    times = traces.times_of([Period(Fraction(ms), Fraction(ms * rate)) for ms, rate in periods])
    end = sum(ms for ms, _ in periods)
    capacity, carried = [0], 0
    for ms, rate in periods:
        capacity += [carried + rate * at for at in range(1, ms + 1)]
        carried = capacity[-1]
    for at in range(end):
        assert bisect.bisect_right(times, at) == capacity[at] // PACKET_BITS
    # The last line is the trace's end, where it repeats.
    assert times[-1] == end
    assert len(times) - carried // PACKET_BITS in (0, 1)
    assert tracelink.parse(tracelink.write(times), "it") == times


@pytest.mark.parametrize(
    ("name", "rtts_ms"),
    [("rtt", [40, 50]), ("rtt_ms", [40, 50]), ("rtt_min", [40, 50]), ("rtt_s", [40_000, 50_000]),
     ("rtt_us", [0.04, 0.05])],
)  # fmt: skip
def test_delay_has_the_unit_in_its_columns_name(name, rtts_ms):
    text = f"time_s,mbps,{name}\n0,1,40\n1,1,50\n"
    periods, _ = traces.read(text, "file", Choices(rtt_column=name))
    assert [each.axes["rtt_ms"] for each in periods] == rtts_ms


def test_outage_has_no_opportunity():
    periods, _ = traces.read("12\n0\n0\n12\n", "file", SECOND)
    times = traces.times_of(periods)
    assert [(a, b) for a, b in itertools.pairwise(times) if b - a > 1] == [(1000, 3001)]
    assert traces.longest_outage_s(periods) == (2, 1)


def test_command_says_what_it_read_and_writes_a_trace(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tram 1.csv").write_text("mbps,latency\n12,20\n0,30\n24,40\n")
    assert cli.main(["trace", "import", "tram 1.csv", "--interval-ms", "1000"]) == 0
    said = capsys.readouterr().out
    for line in (
        "length     3 s in 3 rows", "Mbit/s     mean 12, min 0, max 24",
        "outage     longest 1 s, from 1 s", "rate       mbps in mbit: the column's name",
        "not used   latency, mean 30: use --rtt-column, --delay-column or --rtt-ms",
        "--trace './tram 1.trace'",
    ):  # fmt: skip
        assert line in said
    times = tracelink.parse((tmp_path / "tram 1.trace").read_text(), "it")
    assert (len(times), times[-1]) == (3000, 3000)
    # The file's own RTT is proposed.
    (tmp_path / "rtt.csv").write_text("mbps,rtt_ms\n12,40\n12,44.1\n")
    assert cli.main(["trace", "import", "rtt.csv", "--interval-ms", "1000"]) == 0
    assert "--trace ./rtt.trace --rtt-ms 42.05 --out run" in capsys.readouterr().out
    (tmp_path / "eth.pcap").write_bytes(b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00")
    assert cli.main(["trace", "import", "eth.pcap"]) == 2
    assert "must be text, found a capture of packets" in capsys.readouterr().err
    # A packet-delivery trace passes through, and nothing is overwritten.
    again = ["trace", "import", "tram 1.trace", "--out"]
    assert cli.main([*again, "same"]) == 0
    assert (tmp_path / "same").read_text() == (tmp_path / "tram 1.trace").read_text()
    assert cli.main([*again, "same"]) == 2
    assert "must name a new file, found that same exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("30\n", "--unit bit --interval-ms 4e6", "an opportunity every 300000 ms"),
        ("90\n", "--unit mbit --interval-ms 1000", "convert a part of it, with"),
        ("9e99\n", "--unit mbit --interval-ms 1000", "check the unit, or convert"),
        ("1e-99999999\n", "--unit bit --interval-ms 1000", "must have a rate above 0"),
        ("5\n5\n", "--unit mbit --interval-ms 1000 --from-s 3", "a length above 0"),
        ("mbps,lost\n5,0\n5,0\n5,100\n", "--interval-ms 1000 --loss-column lost",
         "from 1 s: loss_percent must be in [0, 100), found 100"),
        ("mbps,rtt\n" + "5,10\n5,20\n" * 600, "--interval-ms 10 --rtt-column rtt",
         "at most 1000 changes in more than 2 s, found 1099"),
    ],
)  # fmt: skip
def test_trace_that_cannot_be_used_is_refused(tmp_path, monkeypatch, capsys, text, options, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(traces, "MAX_TRACE_BYTES", 20_000)
    (tmp_path / "rates").write_text(text)
    assert cli.main(["trace", "import", "rates", *options.split()]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "rates.trace").exists()


@pytest.mark.parametrize(
    ("part", "first", "count", "end_ms"),
    [
        (["--from-s", "0.5", "--to-s", "1.5"], 500, 1500, 1000),
        (["--from-s", "0", "--to-s", "1"], 500, 1000, 1000),
        (["--from-s", "0"], 500, 4000, 3000),
    ],
)
def test_part_of_a_file_is_converted(tmp_path, monkeypatch, part, first, count, end_ms):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates").write_text("12\n24\n12\n")
    options = ["--unit", "mbit", "--interval-ms", "1000", *part]
    assert cli.main(["trace", "import", "rates", *options]) == 0
    times = tracelink.parse((tmp_path / "rates.trace").read_text(), "it")
    assert (sum(ms <= 500 for ms in times), len(times), times[-1]) == (first, count, end_ms)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ([], [0, 2, 2, 5, 9]),
        (["--from-s", "0.002"], [0, 0, 3, 7]),
        (["--from-s", "0.002", "--to-s", "0.008"], [0, 0, 3, 6]),
        (["--to-s", "0.005"], [0, 2, 2, 5]),
        (["--to-s", "99"], [0, 2, 2, 5, 9]),
    ],
)
def test_part_of_a_packet_delivery_trace_with_any_line_ends(tmp_path, monkeypatch, part, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it").write_bytes(b"0\r\n2\r\n2\r\n5\r\n9\r\n")
    assert cli.main(["trace", "import", "it", *part]) == 0
    assert tracelink.parse((tmp_path / "it.trace").read_text(), "it") == expected


PATH = """[{"duration_ms": 900, "bandwidth_kbps": 9000, "latency_ms": 10, "loss": 0},
          {"duration_ms": 600, "bandwidth_kbps": 9000, "latency_ms": 20, "loss": 0.5},
          {"duration_ms": 500, "bandwidth_kbps": 0, "latency_ms": 20, "loss": 0.5},
          {"duration_ms": 1000, "bandwidth_kbps": 9000, "latency_ms": 20, "loss": 0}]"""


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (["--rtt-column", "latency_ms"], "--rtt-ms 20 --duration-s 2"),
        (["--delay-column", "latency_ms", "--loss-column", "loss", "--loss-unit", "percent"],
         "--rtt-ms 40 --loss-percent 0.5 --changes at_s=1,loss_percent=0 --duration-s 2"),
        (["--delay-column", "latency_ms", "--from-s", "0", "--to-s", "2.5"],
         "--rtt-ms 40 --duration-s 1.5"),
    ],
)  # fmt: skip
def test_delay_and_loss_beside_the_rate_are_a_path_schedule(
    tmp_path, monkeypatch, capsys, columns, options
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "path.json").write_text(PATH)
    assert cli.main(["trace", "import", "path.json", *columns]) == 0
    said = capsys.readouterr().out
    assert f"--trace ./path.trace {options} --out run" in said
    assert "latency_ms, mean" not in said
    assert ("not used   loss, mean 0.25: use --loss-column" in said) == (
        "--loss-column" not in columns
    )


def test_rates_for_less_than_some_packets_are_refused(tmp_path, capsys):
    """The line at a trace's end would be most of its capacity: 0.004 Mbit/s instead of 1e-9."""
    (tmp_path / "a.csv").write_text("time_s,mbps\n0,1e-9\n1,1e-9\n2,1e-9\n")
    words = ["trace", "import", str(tmp_path / "a.csv"), "--out", str(tmp_path / "a.trace")]
    assert cli.main(words) == 2
    assert "found rates for 0 in 3 s" in capsys.readouterr().err
    assert not (tmp_path / "a.trace").exists()
