"""Names of conditions: different conditions have different names, which are safe as file names.

The values include pairs that a name could confuse: numbers that differ in the seventh digit, and
texts whose separators a name replaces.
"""

import math
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from losslab.emulation import droplist
from losslab.emulation.apps import stream
from losslab.emulation.path import pauses
from losslab.emulation.schemes import SCHEMES, make_scheme
from losslab.errors import LosslabError
from losslab.study import background, parameters, schedule
from losslab.study.axes import limited
from losslab.study.condition import AXES, Condition
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule

PLAIN = Condition(algorithm="cubic")
# Values of some axes are slow to draw, on a busy machine even more so.
SLOW = [HealthCheck.filter_too_much, HealthCheck.too_slow]
PARSERS = {
    "flows": background.parse,
    "changes": schedule.parse,
    "pauses": pauses.parse,
    "drop_list": droplist.parse,
    "parameters": parameters.parse,
    "scheme": make_scheme,
}
ALGORITHM = r"[a-z0-9][a-z0-9_]{0,14}"  # as in algorithms.schema.yaml
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True) | st.sampled_from(
    ["a_b", "and", "a_and_b", "same_count9", "count9", "bbr2", "same"]
)
NUMBERS = st.sampled_from(["1", "1.0", "01", "2.5", "1e3", "100000000", "0.000000001"])
SETTINGS = st.builds(
    "{}={}".format, st.sampled_from([*background.KEYS][1:8]), NUMBERS
) | st.sampled_from(["over=first", "over=second", "sizes=pareto"])  # fmt: skip
FLOW = st.builds(lambda name, its: ",".join([name, *its]), NAMES, st.lists(SETTINGS, max_size=3))
CHANGE = st.builds("at_s={},{}={}".format, NUMBERS, st.sampled_from(schedule.SET), NUMBERS)
PARAMETER = st.builds(
    "{}.{}={}".format, st.sampled_from(["a", "b2"]), st.sampled_from(["g", "g1", "g_1", "gY"]),
    st.sampled_from(["1", "11", "-1", "Y1", "1,1", "1-1", "0.1"]),
)  # fmt: skip
STEP = st.builds("{}={}".format, NUMBERS, NUMBERS | st.just(stream.UNLIMITED))
TEXTS = {
    "app_pattern": st.lists(STEP, min_size=1, max_size=4).map(",".join),
    "testcase": st.from_regex(AXES["testcase"].pattern, fullmatch=True),
    "parameters": st.lists(
        PARAMETER, min_size=1, max_size=3, unique_by=lambda p: p.split("=")[0]
    ).map("+".join),
    "algorithm": NAMES,
    "competitor": NAMES,
    "trace": st.from_regex(AXES["trace"].pattern, fullmatch=True),
    "trace_back": st.from_regex(AXES["trace_back"].pattern, fullmatch=True),
    "kernel": st.from_regex(AXES["kernel"].pattern, fullmatch=True),
    "image": st.from_regex(AXES["image"].pattern, fullmatch=True),
    "flows": st.lists(FLOW, min_size=1, max_size=6).map("+".join),
    "changes": st.lists(CHANGE, min_size=1, max_size=5).map("+".join),
    "pauses": st.just("per_s=0.6,min_ms=0.8,max_ms=8"),
    "drop_list": st.lists(st.integers(1, 10**9), min_size=1, max_size=40).map(
        lambda numbers: f"data {','.join(map(str, sorted(set(numbers))))} ack 3"
    ),
    "scheme": st.builds("aimd,{}={}".format, st.sampled_from(["alpha", "rtt_gain"]), NUMBERS)
    | st.sampled_from([*SCHEMES]),
}


def accepted(name, value):
    if name in ("algorithm", "competitor") and not re.fullmatch(ALGORITHM, value):
        return False
    if AXES[name].problems(value):
        return False
    try:
        PARSERS.get(name, str)(value)
    except LosslabError:
        return False
    return True


def numbers(its):
    whole = st.floats(its.span.minimum, its.span.maximum)
    if its.kind == "int":
        return st.integers(int(its.span.minimum), int(its.span.maximum))
    return whole | whole.map(lambda x: float(f"{x:g}")) | st.sampled_from([0.0, -0.0, 1e-7])


def values(name):
    its = AXES[name]
    if its.kind != "str":
        found = numbers(its)
    elif its.choices:
        found = st.sampled_from([*its.choices])
    else:
        found = TEXTS.get(name, st.text(min_size=1))
    return found.filter(lambda value: accepted(name, value))


@st.composite
def alike(draw, name):
    """Draw two values of an axis that a careless name would not distinguish."""
    value = draw(values(name))
    if isinstance(value, float):
        steps = [math.nextafter(value, math.inf), value + 1e-7, value * (1 + 1e-7)]
        other = draw(st.sampled_from(steps) | values(name))
    elif isinstance(value, str) and re.search("[-_,+= ]", value):
        at = draw(st.sampled_from([m.start() for m in re.finditer("[-_,+= ]", value)]))
        instead = draw(st.sampled_from(["-", "_", ",", "", "=", "+", "-and-", "_and_"]))
        other = draw(st.just(value[:at] + instead + value[at + 1 :]) | values(name))
    else:
        other = draw(values(name))
    return value, other if accepted(name, other) else draw(values(name))


@st.composite
def pairs(draw):
    """Draw two conditions that differ in up to three axes."""
    names = draw(st.lists(st.sampled_from([*AXES]), min_size=1, max_size=3, unique=True))
    drawn = {name: draw(alike(name)) for name in names}
    return tuple(
        Condition(**{"algorithm": "cubic"} | {name: pair[side] for name, pair in drawn.items()})
        for side in (0, 1)
    )


@pytest.mark.parametrize("name", [name for name, its in AXES.items() if not its.choices])
def test_different_values_of_an_axis_have_different_names(name):
    """Row A1: RTTs of 20.000001 and 20.000002, `a_b` and `a-b`, shared a folder."""

    @settings(max_examples=40, suppress_health_check=SLOW)
    @given(alike(name))
    def check(drawn):
        one, other = (Condition(**{"algorithm": "cubic", name: value}) for value in drawn)
        assert (one == other) == (one.full_name() == other.full_name())

    check()


@settings(max_examples=200, suppress_health_check=SLOW)
@given(pairs())
def test_different_conditions_have_different_safe_names(drawn):
    one, other = drawn
    assert (one == other) == (one.full_name() == other.full_name())
    for name in (one.full_name(), one.slug()):
        # Not every file system distinguishes upper and lower case.
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name)
        assert len(name.encode()) <= 255


def test_plus_zero_and_minus_zero_are_one_condition():
    one, other = (Condition(algorithm="cubic", warmup_s=value) for value in (0.0, -0.0))
    assert str(one) == str(other)
    assert one.full_name() == other.full_name()


def test_campaigns_lengths_are_in_full_names_only():
    long = Condition(algorithm="cubic", duration_s=3, warmup_s=0.5)
    assert long.slug() == PLAIN.slug() == PLAIN.full_name()
    assert long.full_name() == f"{PLAIN.slug()}_duration3_warmup0.5"


def test_long_name_of_a_cell_fits_in_a_file_system():
    cells = [
        Cell("s", f"{'b' * 300}{end}", PLAIN, StoppingRule(1, 1), "containernet") for end in "xy"
    ]
    assert len({cell.name for cell in cells}) == 2
    assert all(len(cell.name) <= 255 for cell in cells)
    assert limited("short") == "short"
