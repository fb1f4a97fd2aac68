"""Confidence intervals: Python and the report's R give the same numbers."""

import math
import subprocess

import pytest

from losslab.study import intervals
from losslab.study.intervals import (
    StoppingRule,
    adjusted,
    half_width_percent,
    holm,
    mean_interval,
    metric_interval,
    ratio_interval,
    t_quantile,
    t_tails,
)

WIDE = [10.0, 200.0, 50.0, 400.0, 90.0]
NEAR = [9.41, 9.43, 9.4, 9.44, 9.42, 9.43, 9.39]
ZEROS = [0.0, 2.0, 2.0, 2.0, 4.0]
SAMPLES = [
    WIDE, NEAR, ZEROS, [3.0] * 5, [0.0] * 5, [1.0, 2.0, 3.0, 4.0], [5.0],
    [-1.0, 0.0, 1.0, 2.0, 1.0], [-3.0, -2.0, -1.0, -2.0, -1.0], [1e-9, 3e-9, 2e-9, 2e-9, 5e-9],
    [1e12, 3e12, 2e12, 2e12, 9e12],
    [float(1 + (7 * i) % 40) for i in range(40)],
]  # fmt: skip
LEVELS = (0.95, 0.999)
P_VALUES = [0.01, 0.04, 0.03, 0.2, 0.01, 1.0, 0.0, 0.9]


def r_vector(values):
    return f"c({', '.join(f'{value:.17g}' for value in values)})"


def by_r(root, lines):
    """Evaluate R expressions with the report's functions; return a list of numbers for each."""
    code = [f'source("{root}/analysis/R/intervals.R")']
    code += [f'cat(sprintf("%.17g", as.numeric(unlist({line}))), "\\n")' for line in lines]
    done = subprocess.run(
        ["Rscript", "--vanilla", "-"], input="\n".join(code), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    numbers = [
        [None if word in ("NA", "NaN") else float(word) for word in line.split()]
        for line in done.stdout.splitlines()
    ]
    assert len(numbers) == len(lines)
    return numbers


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None), (ours, theirs)
        assert one is None or one == pytest.approx(other, rel=1e-9, abs=1e-300)


def ends(interval):
    return list(interval) if interval else [None, None]


def test_means_have_the_reports_intervals(root):
    cases = [(sample, level) for sample in SAMPLES for level in LEVELS]
    theirs = by_r(root, [f"mean_interval({r_vector(s)}, {level})" for s, level in cases])
    for (sample, level), numbers in zip(cases, theirs, strict=True):
        same(ends(mean_interval(sample, level)), numbers)


def test_metrics_with_an_upper_limit_have_the_reports_intervals(root):
    cases = [
        (s, name) for s in ([0.7, 0.8, 0.9, 0.99, 1], *SAMPLES) for name in ("jain_index", "x")
    ]
    theirs = by_r(root, [f'mean_interval_of({r_vector(s)}, "{name}")' for s, name in cases])
    for (sample, name), numbers in zip(cases, theirs, strict=True):
        same(ends(metric_interval(sample, name)), numbers)


def test_ratios_have_the_reports_intervals(root):
    cases = [
        (a, b, paired, level)
        for a in SAMPLES
        for b in SAMPLES
        for paired in (True, False)
        for level in LEVELS
        if len(a) == len(b) or not paired
    ]
    theirs = by_r(
        root,
        [
            f"ratio_interval({r_vector(a)}, {r_vector(b)}, {str(paired).upper()}, {level})"
            for a, b, paired, level in cases
        ],
    )
    for (a, b, paired, level), numbers in zip(cases, theirs, strict=True):
        ours = ratio_interval(a, b, paired, level)
        same([ours.value, *ends(ours.interval)], numbers)


def test_p_values_equal_rs_and_agree_with_the_interval(root):
    cases = [(a, b, p) for a in (WIDE, ZEROS) for b in (WIDE, [8.0, 9.0, 7.0, 8.0, 8.5])
             for p in (True, False) if a is not b]  # fmt: skip
    cases = [(a, b, p) for a, b, p in cases if min(a + b) > 0]
    theirs = by_r(
        root,
        [
            f"t.test(log({r_vector(a)}), log({r_vector(b)}), paired = {str(p).upper()})$p.value"
            for a, b, p in cases
        ],
    )
    for (a, b, paired), numbers in zip(cases, theirs, strict=True):
        found = ratio_interval(a, b, paired)
        same([found.p_value], numbers)
        edge = ratio_interval(a, b, paired, 1 - found.p_value).interval
        assert min(abs(end - 1) for end in edge) < 1e-9


@pytest.mark.parametrize("freedom", [1.0, 1.7, 4.0, 29.0, 311.5, 5000.0])
def test_students_distribution_equals_rs(root, freedom):
    values = [0.0, 0.3, 1.0, 2.0, 12.7, 400.0, 1e30]
    levels = [0.5, 0.95, 0.99999]
    theirs = by_r(
        root,
        [f"2 * pt(-{r_vector(values)}, {freedom})", f"qt((1 + {r_vector(levels)}) / 2, {freedom})"],
    )
    same([t_tails(value, freedom) for value in values], theirs[0])
    same([t_quantile(level, freedom) for level in levels], theirs[1])


def test_adjusted_p_values_and_constants_equal_rs(root):
    methods = {"BH": adjusted, "holm": holm}
    calls = [f'p.adjust({r_vector(P_VALUES)}, "{name}")' for name in methods]
    *theirs, [least], [level] = by_r(root, [*calls, "min_runs", "interval_level"])
    assert [least, level] == [intervals.MIN_RUNS, intervals.LEVEL]
    for ours, values in zip(methods.values(), theirs, strict=True):
        same(ours(P_VALUES), values)
        assert ours([]) == []


def test_zero_mean_has_a_p_value_but_no_ratio():
    found = ratio_interval([5.0, 6.0, 7.0, 5.0, 6.0], [0.0] * 5, paired=False)
    assert (found.value, found.interval) == (None, None)
    assert found.p_value < 1e-3
    assert ratio_interval([0.0] * 5, [0.0] * 5, paired=True).p_value == 1.0


@pytest.mark.parametrize("n", range(1, intervals.MIN_RUNS))
def test_fewer_than_five_runs_have_no_interval_and_no_p_value(n):
    a, b = WIDE[:n], ZEROS[:n]
    assert mean_interval(a) is None
    for one, other in ((a, a), (a, b), (b, [0.0] * n)):
        found = ratio_interval(one, other, paired=True)
        assert (found.interval, found.p_value) == (None, None)


def test_half_width_is_that_of_the_confidence_interval():
    values = [9, 10, 11, 12, 10]
    low, high = mean_interval(values)
    assert half_width_percent(values) == pytest.approx(100 * (high - low) / 2 / 10.4)


@pytest.mark.parametrize("values", [[], [5.0], [9.0, 10.0, 11.0, 12.0], [0.0] * 5])
def test_without_an_interval_more_replicates_are_added(values):
    assert half_width_percent(values) == math.inf


@pytest.mark.parametrize(
    ("count", "values", "enough"),
    [
        (4, [10.0] * 4, False),
        (5, [10.0, 10.1, 9.9, 10.0, 10.0], True),
        (5, [10.0, 20.0, 1.0, 5.0, 30.0], False),
        (5, [10.0], False),
        (8, [10.0, 20.0, 1.0, 5.0, 30.0, 2.0, 3.0, 4.0], True),
    ],
)
def test_replicates_are_added_for_wide_intervals(count, values, enough):
    assert StoppingRule(5, 8, 5.0).enough(count, values) is enough


def test_without_a_half_width_the_number_of_replicates_is_fixed():
    rule = StoppingRule(3, 3)
    assert [rule.enough(n, []) for n in (2, 3)] == [False, True]
    assert str(rule) == "3"


def test_looks_of_a_cell_share_the_error():
    rule = StoppingRule(5, 10, 0.5)
    shares = [rule.error_share(count) for count in range(5, 11)]
    assert sum(shares) == pytest.approx(1)
    assert shares[0] == shares[4] < shares[5]
    assert StoppingRule(10, 10).error_share(10) == 1
    # A lost guest can end a cell before its first look.
    assert rule.error_share(3) == shares[0]
