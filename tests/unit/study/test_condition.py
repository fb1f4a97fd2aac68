import dataclasses
import json
import re

import pytest

from losslab.errors import LosslabError
from losslab.study import design
from losslab.study.axes import derived_seed
from losslab.study.condition import Condition, replicate_seed, seed_of

CONDITION = Condition(
    algorithm="cubic",
    loss_percent=1,
    path="symmetric",
    app="iperf3",
    rtt_ms=0.44,
    rate_mbit=1000,
    buffer_packets=1000,
)
# A path that a kernel without netem supports, too.
BARE = dataclasses.replace(CONDITION, rtt_ms=0, rate_mbit=10, loss_percent=0, buffer_packets=50)


def test_seeds_are_shared_between_algorithms_only_also_against_themselves():
    other = dataclasses.replace(CONDITION, algorithm="bbr")
    assert replicate_seed(CONDITION, 0) == replicate_seed(other, 0)
    assert replicate_seed(CONDITION, 0) != replicate_seed(CONDITION, 1)
    harder = dataclasses.replace(CONDITION, loss_percent=2)
    assert replicate_seed(CONDITION, 0) != replicate_seed(harder, 0)
    at_sender = dataclasses.replace(CONDITION, sender_delay_ms=0.4)
    assert replicate_seed(CONDITION, 0) != replicate_seed(at_sender, 0)
    cubic = dataclasses.replace(CONDITION, competitor="cubic")
    bbr = dataclasses.replace(CONDITION, algorithm="bbr", competitor="bbr")
    assert replicate_seed(cubic, 0) == replicate_seed(bbr, 0)
    assert replicate_seed(cubic, 0) != replicate_seed(CONDITION, 0)


def test_seeds_do_not_change():
    # A change of these values changes every published number.
    assert replicate_seed(CONDITION, 0) == 736078600


def test_algorithms_share_the_drawn_trace():
    kernel = dataclasses.replace(CONDITION, trace="cellular", app="iperf3", queue="codel")
    scheme = dataclasses.replace(
        CONDITION, trace="cellular", app="datagram", scheme="timely", queue="fifo"
    )
    assert replicate_seed(kernel, 3) == replicate_seed(scheme, 3)
    assert replicate_seed(kernel, 3) != replicate_seed(kernel, 4)
    assert derived_seed(7, "kernel") == 1435303113


def test_earlier_condition_may_have_a_removed_axis_at_its_default():
    assert Condition.from_json(CONDITION.to_json() | {"sender_root": "none"}) == CONDITION
    with pytest.raises(LosslabError, match="unknown condition keys: 'sender_root'"):
        Condition.from_json(CONDITION.to_json() | {"sender_root": "image.tar"})


def test_whole_numbers_are_equal_in_every_notation():
    data = CONDITION.to_json()
    as_floats = {k: float(v) if isinstance(v, int) else v for k, v in data.items()}
    as_ints = {k: int(v) if isinstance(v, float) and v == int(v) else v for k, v in data.items()}
    one, other = Condition.from_json(as_floats), Condition.from_json(as_ints)
    assert json.dumps(one.to_json()) == json.dumps(other.to_json()) == json.dumps(data)
    assert replicate_seed(one, 0) == replicate_seed(other, 0) == replicate_seed(CONDITION, 0)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("rtt_ms", "20", "rtt_ms must be a finite number, found '20'"),
        ("rtt_ms", float("nan"), "finite number, found nan"),
        ("rate_mbit", float("inf"), "finite number, found inf"),
        ("loss_percent", True, "finite number, found True"),
        ("duration_s", None, "finite number, found None"),
        ("buffer_packets", 20.5, "buffer_packets must be a whole number, found 20.5"),
        ("offloads", False, "offloads must be text, found False"),
    ],
)
def test_value_of_another_type_is_refused(field, value, words):
    with pytest.raises(LosslabError, match=re.escape(words)):
        Condition.from_json(CONDITION.to_json() | {field: value})


def test_json_round_trip_refuses_unknown_keys():
    assert Condition.from_json(CONDITION.to_json()) == CONDITION
    with pytest.raises(LosslabError, match="rtt"):
        Condition.from_json(CONDITION.to_json() | {"rtt": 3})


SMALL = {"loss": {"main": {"replicates": 5, "duration_s": 2, "warmup_s": 1}}}


def test_families_share_no_seed_and_the_first_has_those_of_earlier_versions():
    seeds = [seed_of(BARE, number, family) for family in (1, 2, 3) for number in range(100)]
    assert len(set(seeds)) == 300
    assert all(0 < seed < 2**31 for seed in seeds)
    assert seeds[:100] == [replicate_seed(BARE, number) for number in range(100)]
    # Algorithms share the seeds of a family.
    assert seed_of(BARE, 3, 2) == seed_of(dataclasses.replace(BARE, algorithm="bbr"), 3, 2)


def test_every_cell_of_a_campaign_has_its_family(root):
    cells = design.load_cells({"studies": SMALL}, root)
    fresh = design.load_cells({"studies": SMALL, "seed_family": 2}, root)
    assert {cell.seed_family for cell in cells} == {1}
    assert {cell.seed_family for cell in fresh} == {2}
    assert [cell.name for cell in cells] == [cell.name for cell in fresh]
