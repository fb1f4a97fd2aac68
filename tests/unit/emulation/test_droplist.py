"""Drop lists: their syntax, the kernel's record, and the table."""

import pytest

from losslab.emulation import droplist
from losslab.emulation.droplist import Drop, Record, parse, records, rows, to_text
from losslab.emulation.plan import make_plan
from losslab.errors import LosslabError
from losslab.study.condition import Condition

RECORD = """\
netem r2-receiver 900 only
drop 12
drop 57
dropped 12 1514 1500000000
netem r1-sender 450 random
dropped 3 66 2000000256
netem other-end 7 random
dropped 1 66 5
"""


def condition(**more):
    return Condition(algorithm="cubic", rtt_ms=20.0, rate_mbit=20.0, **more)


LISTS = {
    "none": {}, "data 12,57 ack 3": {"data": (12, 57), "ack": (3,)}, "ack 1": {"ack": (1,)},
    "data none ack 2147483647": {"data": (), "ack": (2**31 - 1,)},
}  # fmt: skip


def test_lists_are_read_and_written():
    assert {text: parse(text) for text in LISTS} == LISTS
    assert [to_text(lists) for lists in LISTS.values()] == [*LISTS]
    numbers = ",".join(map(str, range(1, droplist.MAX_PACKETS + 2)))
    with pytest.raises(LosslabError, match="at most 10000 packets, found 10001"):
        parse(f"data {numbers}")


def test_lists_change_neither_seeds_nor_netems_arguments():
    random, listed = condition(loss_percent=1.0), condition(loss_percent=1.0, drop_list="data 5")
    commands = [
        [q.command() for host in make_plan(each, 7).hosts.values() for q in host.qdiscs]
        for each in (random, listed)
    ]
    assert commands[0] == commands[1]


def test_record_has_the_netem_links_of_the_plan():
    plan = make_plan(condition(), 1)
    text = RECORD.replace("r1-sender", droplist.device("ack", plan.back_router))
    assert records(plan, text) == {
        "data": Record(900, (Drop(12, 1514, 1_500_000_000),)),
        "ack": Record(450, (Drop(3, 66, 2_000_000_256),)),
    }


@pytest.mark.parametrize(
    "drops",
    [
        ["12 1514 1500000000", "12 1514 1500000100"],
        ["12 1514 1500000000", "11 1514 1500000100"],
        ["12 1514 1500000000", "13 1514 1499999999"],
        ["12 1514 1500000000", "901 1514 1500000100"],
        ["0 0 0"],
    ],
)
def test_record_that_is_not_in_the_order_of_arrival_is_refused(drops):
    lines = ["netem r2-receiver 900 random", *(f"dropped {drop}" for drop in drops)]
    with pytest.raises(LosslabError, match="in the order of their arrival"):
        records(make_plan(condition(), 1), "\n".join(lines) + "\n")


def test_table_says_what_happened_to_each_packet():
    recorded = {"data": Record(100, (Drop(12, 1514, 1_500_000_000), Drop(20, 66, 1_600_000_000)))}
    lines = rows(recorded, {"data": (12, 57, 200)}, 1_000_000_000)
    assert [*lines][1:] == [
        "data,12,1,dropped,0.500000000,1514",
        "data,20,0,dropped,0.600000000,66",
        "data,57,1,passed,,",
        "data,200,1,absent,,",
    ]


def test_kernel_without_lists_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(droplist, "KERNEL_FILE", tmp_path / "netem_drops")
    with pytest.raises(LosslabError, match="takes lists of packets"):
        droplist.order("count r2-receiver")
