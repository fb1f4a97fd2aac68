"""`losslab explain`: the search and its verdicts, on a made-up world whose truth is known."""

import functools
import json
import math
import operator
import random
import re
from dataclasses import replace

import pytest
import yaml

from losslab import cellspec
from losslab.tools.explain import case as case_file
from losslab.tools.explain import page, verdict
from losslab.tools.explain.agreement import Agreement
from losslab.tools.explain.candidates import REPORTED, Setting, built_in
from losslab.tools.explain.case import Number, read
from losslab.tools.explain.search import FRESH_SEED, Result, Search
from losslab.tools.explain.verdict import Verdict

BASE = {"algorithm": "cubic", "rate_mbit": 100, "rtt_ms": 20, "duration_s": 5}
CONDITIONS = ({"loss_percent": 1}, {"loss_percent": 0.25}, {"loss_percent": 1, "rtt_ms": 40})
# Standard deviation of a run / mean, and its degrees of freedom.
SCATTER, FREEDOM = 0.03, 20
ONLY = ["offloads on", "no SACK", "RTT x1.1", "buffer x2", "writes of 8 KiB", "MiB are MB",
        "1 of 4 ACKs"]  # fmt: skip


@pytest.fixture(autouse=True)
def _unbuilt(monkeypatch):
    """The made-up world needs neither kernel nor image."""
    monkeypatch.setattr(case_file, "require_built", lambda conditions: None)


def means(condition):
    """Return a made-up path's goodput, retransmissions and RTT."""
    c = condition
    goodput = 100 / c.rtt_ms / math.sqrt(c.loss_percent)
    goodput *= 1.6 if c.offloads == "on" else 1
    goodput *= 0.7 if c.sysctl != "none" else 1
    # 1 of 4 ACKs looks like offloads in the goodput only.
    goodput *= 1.6 if c.ack_thinning > 1 else 1
    srtt = c.rtt_ms * (1.5 if c.ack_thinning > 1 else 1)
    goodput *= 0.4 if c.policer_mbit else 1
    return {"goodput_mbit": goodput, "retransmits": 50 * c.loss_percent * goodput,
            "srtt_mean_ms": srtt}  # fmt: skip


class World:
    """A measurer: the made-up path with noise of 2 %, and a list of what was asked."""

    def __init__(self, violations=lambda condition: (), limited=lambda condition: False):
        self.asked, self.violations, self.limited = [], violations, limited

    def __call__(self, runs):
        self.asked += runs
        return {(c, seed): self.result(c, seed) for c, seed in runs}

    def result(self, condition, seed):
        noise = random.Random(f"{seed} {condition.rtt_ms} {condition.loss_percent}")
        values = {k: v * math.exp(noise.gauss(0, 0.02)) for k, v in means(condition).items()}
        limited = self.limited(condition)
        return Result(values, tuple(self.violations(condition)), limited)


def case_of(tmp_path, truth=None, metrics=("goodput_mbit", "retransmits"), held_out=True, **more):
    """Write and read the report of a path with hidden settings."""
    published = []
    for number, own in enumerate(CONDITIONS):
        point = (truth or REPORTED).condition(condition(BASE | own))
        numbers = {name: means(point)[name] for name in metrics}
        entry = {"condition": own, "numbers": numbers, "runs": 3}
        published.append(entry | ({"held_out": True} if held_out and number == 2 else {}))
    data = {"reported": BASE, "published": published, "only": ONLY} | more
    file = tmp_path / "report.yaml"
    file.write_text(yaml.safe_dump(data))
    return read(file)


def condition(point):
    return cellspec.condition(point)


def hidden(*labels):
    known = {each.label: each for each in built_in()}
    return functools.reduce(operator.add, (known[label] for label in labels))


def searched(case, world=None, budget_s=1e6):
    search = Search(case, world or World(), budget_s)
    search.run()
    return search


def test_hidden_setting_is_found_with_fresh_seeds_and_the_held_out_number(tmp_path):
    world = World()
    search = searched(case_of(tmp_path, hidden("no SACK")), world)
    assert verdict.verdict(search) is Verdict.EXPLAINED
    assert [each.label for each in search.agreed] == ["no SACK"]
    assert verdict.headline(search).startswith("Explained by no SACK: of 7 settings")
    assert {a.number.name for a in search.confirmed[search.agreed[0]].agreements} == {
        "loss_percent 1", "loss_percent 0.25", "loss_percent 1, rtt_ms 40",
    }  # fmt: skip
    # The held-out condition was measured for the finalist only, and with fresh seeds only.
    held = [(c, seed) for c, seed in world.asked if c.rtt_ms == 40]
    assert {c.sysctl for c, _ in held} == {"both:net.ipv4.tcp_sack=0"}
    assert min(seed for _, seed in held) > FRESH_SEED
    assert len({*world.asked}) == len(world.asked)
    # All settings have the same seeds.
    seeds = {seed for c, seed in world.asked if c.rtt_ms == 20 and seed < FRESH_SEED}
    assert seeds == {1, 2, 3, 4, 5}
    outcomes = {s.label: verdict.outcome(search, trial) for s, trial in search.trials.items()}
    assert outcomes["no SACK"] == "fits"
    assert outcomes["offloads on"] == "far off"
    assert "no visible effect" in outcomes["writes of 8 KiB"]
    json.dumps(verdict.result(search), allow_nan=False)


def test_nothing_to_explain_ends_with_the_reported_condition(tmp_path):
    world = World()
    search = searched(case_of(tmp_path), world)
    assert verdict.verdict(search) is Verdict.NOTHING
    assert {c.offloads + c.sysctl + str(c.write_kib) for c, _ in world.asked} == {"offnone0"}


def test_settings_that_goodput_does_not_tell_apart_name_the_number_to_ask_for(tmp_path):
    case = case_of(tmp_path, hidden("offloads on"), metrics=("goodput_mbit",))
    search = searched(case)
    assert verdict.verdict(search) is Verdict.AMBIGUOUS
    assert {each.label for each in search.agreed} == {"offloads on", "1 of 4 ACKs"}
    asked = verdict.questions(search)
    assert asked[0]["metric"] == "srtt_mean_ms"
    assert asked[0]["means"]["1 of 4 ACKs"] > 1.4 * asked[0]["means"]["offloads on"]
    text = page.text(verdict.result(search))
    assert "Cannot be told apart" in text
    assert "Ask the author for Mean smoothed RTT (ms) at loss_percent 1" in text


def test_setting_outside_the_list_is_explained_by_nothing(tmp_path):
    search = searched(case_of(tmp_path, hidden("policer at 0.8 of the rate")))
    assert verdict.verdict(search) is Verdict.NONE
    assert verdict.headline(search).startswith(
        "Nothing here explains it: none of 7 settings and 5 "
    )
    assert any("old kernels" in line for line in verdict.notes(search))


def test_pair_is_found_among_all_pairs_and_never_called_an_explanation(tmp_path):
    case = case_of(tmp_path, hidden("no SACK", "RTT x1.1"))
    search = searched(case)
    assert [each.label for each in search.agreed] == ["RTT x1.1 + no SACK"]
    assert verdict.verdict(search) is Verdict.CONSISTENT
    movers = [setting.label for setting, trial in search.trials.items()
              if not setting.pair and trial.moves]  # fmt: skip
    assert movers == ["offloads on", "RTT x1.1", "no SACK", "1 of 4 ACKs"]
    # Packets are not counted with offloads, so one of the six pairs is impossible.
    assert len(search.pairs) == 5
    assert search.impossible_pairs == 1


def test_single_setting_that_fits_does_not_hide_the_pair_that_is_the_truth(tmp_path):
    """Offloads have the goodput of the pair: 1 / 0.4375 x 0.7 = 1.6."""
    shorter = Setting("RTT x0.4375", {"rtt_ms": "x0.4375"})
    case = case_of(
        tmp_path,
        hidden("no SACK") + shorter,
        metrics=("goodput_mbit",),
        candidates={shorter.label: shorter.changes},
        only=[*ONLY, shorter.label],
    )
    search = searched(case)
    assert {each.label for each in search.agreed} == {
        "offloads on", "1 of 4 ACKs", "no SACK + RTT x0.4375",
    }  # fmt: skip
    assert verdict.verdict(search) is Verdict.AMBIGUOUS
    # At the same distance, a pair is (8 - 1) / 2 times less probable than each of 8 settings.
    for setting, trial in search.confirmed.items():
        search.confirmed[setting] = replace(trial, deviations=(1.0,))
    assert {s.label: odds for s, odds in search.odds().items()} == {
        "offloads on": 1, "1 of 4 ACKs": 1, "no SACK + RTT x0.4375": pytest.approx(3.5),
    }  # fmt: skip
    # With a setting that agrees alone, a second one is no simpler.
    assert not [t for t in search.pairs if "offloads on" in t.label]
    assert any("without offloads on | 1 of 4 ACKs: what agrees alone" in line
               for line in verdict.notes(search))  # fmt: skip


def test_setting_that_scatters_more_than_others_is_not_far_off_by_their_scatter(tmp_path):
    case = case_of(tmp_path, metrics=("goodput_mbit",))
    noisy = next(each for each in case.settings if each.label == "no SACK")

    def results(runs):
        """Return 6 or 20 with the noisy setting, and 10 or 5 without; 11.5 is published."""
        values = {
            (c, seed): (6, 20)[seed % 2] if c.sysctl != "none" else 10 if c.offloads == "off" else 5
            for c, seed in runs
        }
        return {run: Result({"goodput_mbit": value}) for run, value in values.items()}

    numbers = tuple(replace(each, mean=11.5, runs=3) for each in case.numbers)
    search = searched(replace(case, numbers=numbers), results)
    assert search.trials[REPORTED].far
    assert not search.trials[noisy].far
    # Its scatter is known from its own runs only.
    freedom = {each: search.trials[each].agreements[0].freedom for each in (REPORTED, noisy)}
    assert freedom[noisy] < 15 < freedom[REPORTED]
    pair = noisy + hidden("offloads on")
    search.request([pair], search.numbers, 1)
    assert not search.judged([pair], search.numbers)[pair].far


def test_held_out_number_that_scatters_does_not_refute_the_truth(tmp_path):
    """The held-out condition, of 40 ms, has runs of 0.6 and 1.4 times the mean."""
    world, truth = World(), hidden("no SACK")

    def results(runs):
        return {
            (c, seed): Result({name: value * ((0.6, 1.4)[seed % 2] if c.rtt_ms == 40 else 1)
                               for name, value in world.result(c, seed).summary.items()})
            for c, seed in runs
        }  # fmt: skip

    case = case_of(tmp_path, truth)
    numbers = [replace(n, mean=1.3 * n.mean) if n.held_out else n for n in case.numbers]
    search = searched(replace(case, numbers=tuple(numbers)), results)
    assert [each.label for each in search.agreed] == ["no SACK"]


def test_pair_that_is_far_off_in_one_condition_is_not_measured_in_the_next(tmp_path):
    world = World()
    search = searched(case_of(tmp_path, hidden("no SACK", "RTT x1.1")), world)
    far = next(t for s, t in search.trials.items() if s.label == "offloads on + no SACK")
    assert far.far
    assert len({each.number.condition for each in far.agreements}) == 1
    asked = {c for c, _ in world.asked if c.offloads == "on" and c.sysctl != "none"}
    assert len(asked) == 1


def test_pairs_are_all_tried_or_none(tmp_path):
    case = case_of(tmp_path, hidden("no SACK", "RTT x1.1"))
    world = World()
    search = searched(case)
    search = searched(case, world, budget_s=search.spent_s / 2)
    assert search.pairs == []
    assert verdict.verdict(search) is Verdict.NONE
    assert any(line.startswith("Pairs were not tried") for line in verdict.notes(search))
    assert re.search(r"pairs of the \d settings that move a number take", search.pairs_left_out)
    assert not [c for c, _ in world.asked if c.sysctl != "none" and c.rtt_ms == 22]


def test_held_out_number_that_alone_differs_joins_the_search_and_the_page_says_so(tmp_path):
    """A setting that acts only in the held-out condition: loss of 1 % at 40 ms."""
    case = case_of(tmp_path, hidden("no SACK"))
    plain = case_of(tmp_path)
    mixed = [h if h.held_out else p for h, p in zip(case.numbers, plain.numbers, strict=True)]
    joined = type(case)("", tuple(mixed), case.settings, case.tolerance, {})
    search = searched(joined)
    assert search.joined
    assert search.held_out == []
    assert verdict.verdict(search) is Verdict.NONE
    assert any("joined the search" in line for line in verdict.notes(search))


def test_setting_is_not_called_an_explanation_if_the_budget_leaves_out_pairs(tmp_path):
    search = searched(case_of(tmp_path, hidden("no SACK")), budget_s=0.0)
    assert [each.label for each in search.agreed] == ["no SACK"]
    assert search.pairs_left_out
    assert verdict.verdict(search) is Verdict.CONSISTENT


def test_setting_is_not_called_an_explanation_without_a_held_out_number(tmp_path):
    search = searched(case_of(tmp_path, hidden("no SACK"), held_out=False))
    assert [each.label for each in search.agreed] == ["no SACK"]
    assert verdict.verdict(search) is Verdict.CONSISTENT
    assert any("No number was held out" in line for line in verdict.notes(search))


def test_rivals_that_are_not_excluded_are_named_and_forbid_an_explanation(tmp_path):
    search = searched(case_of(tmp_path, hidden("no SACK")))
    assert verdict.verdict(search) is Verdict.EXPLAINED
    rival = next(trial for s, trial in search.trials.items() if s.label == "offloads on")
    search.trials[rival.setting] = replace(rival, deviations=(), agreements=())
    assert verdict.verdict(search) is Verdict.CONSISTENT
    assert "no proof" in verdict.headline(search)
    assert "Not excluded, nearest first: offloads on." in [*verdict.notes(search)]
    search.trials[rival.setting] = rival
    assert verdict.verdict(search) is Verdict.EXPLAINED


def test_much_less_probable_finalist_is_not_named_but_forbids_an_explanation(tmp_path):
    case = case_of(tmp_path, hidden("offloads on"), metrics=("goodput_mbit",))
    search = searched(case)
    likely, unlikely = search.agreed
    search.confirmed[likely] = replace(search.confirmed[likely], deviations=(1.0,))
    # The ratio of two normal densities.
    for deviation, named in ((2.0, [likely, unlikely]), (3.0, [likely])):
        search.confirmed[unlikely] = replace(search.confirmed[unlikely], deviations=(deviation,))
        assert search.odds()[likely] == 1
        assert search.odds()[unlikely] == pytest.approx(math.exp((deviation**2 - 1) / 2))
        assert search.agreed == named
    assert verdict.verdict(search) is Verdict.CONSISTENT
    assert "Not excluded, nearest first: 1 of 4 ACKs" in "".join(verdict.notes(search))
    assert (
        "1 of 4 ACKs, with fresh seeds and the held-out numbers: agrees, but 55 times"
        in page.text(verdict.result(search))
    )


def test_runs_that_only_a_buffer_limits_count_and_others_do_not(tmp_path):
    case = case_of(tmp_path, hidden("no SACK"))
    world = World(
        violations=lambda c: ["goodput must be 1"] if c.write_kib == 8 else [],
        limited=lambda c: c.sysctl != "none",
    )
    search = searched(case, world)
    assert search.agreed
    assert search.limited() == {"no SACK": 5 * 2 + 8 * 3}
    assert "goodput must be 1" in search.not_tried["writes of 8 KiB"]
    assert "A buffer limited a flow in 34 runs (no SACK); these runs count." in verdict.notes(
        search
    )


def test_published_rate_in_another_unit_is_found_without_a_run(tmp_path):
    case = case_of(tmp_path, metrics=("goodput_mbit", "retransmits"), tolerance_percent=0)
    numbers = [
        type(n)(n.name, n.condition, n.metric, n.mean * (1.048576 if n.metric[0] == "g" else 1), 20,
                0.02, n.held_out)
        for n in case.numbers
    ]  # fmt: skip
    world = World()
    scaled = type(case)("", tuple(numbers), case.settings, math.log1p(0.01), {})
    search = searched(scaled, world)
    assert "MiB are MB" in [each.label for each in search.agreed]


def test_number_is_contradicted_if_the_whole_interval_is_beyond_the_tolerance():
    number = Number("x", condition(BASE), "goodput_mbit", 10.0, runs=5)
    near = Agreement(number, (10.1, 9.9, 10.3, 10.0, 9.8), SCATTER, FREEDOM)
    assert math.exp(near.difference) == pytest.approx(1.002)
    low, high = near.interval()
    assert low < near.difference < high
    assert not near.contradicts(0.0, 1)
    far = Agreement(number, (20.1, 19.9, 20.3, 20.0, 19.8), SCATTER, FREEDOM)
    assert far.contradicts(math.log1p(0.05), 1)
    assert not far.contradicts(math.log(2.2), 1)
    # More intervals share the error, so each is wider.
    edge = Agreement(number, (11.6, 10.9, 12.1, 11.3, 11.8), SCATTER, FREEDOM)
    assert edge.contradicts(math.log1p(0.05), 1)
    assert not edge.contradicts(math.log1p(0.05), 1000)
    assert Agreement(number, (20.0,) * 4, SCATTER, FREEDOM).interval() is None
    zero = Number("x", condition(BASE), "retransmits", 0.0, runs=5)
    assert Agreement(zero, (0.0,) * 5, SCATTER, FREEDOM).difference == 0


def test_published_scatter_widens_the_interval():
    values = (10.1, 9.9, 10.3, 10.0, 9.8)
    tight, loose = (
        Agreement(Number("x", condition(BASE), "goodput_mbit", 12, 5, cv), values, SCATTER, FREEDOM)
        for cv in (0.01, 0.3)
    )
    assert tight.contradicts(0.0, 1)
    assert not loose.contradicts(0.0, 1)


def test_equal_runs_do_not_contradict_a_published_mean_within_the_scatter_of_other_settings():
    # A path without loss often gives the same in every run; the published runs may differ.
    number = Number("x", condition(BASE), "goodput_mbit", 10.0, runs=5)
    values = (11.2,) * 5
    assert Agreement(number, values, 0.0, FREEDOM).contradicts(math.log1p(0.05), 1)
    assert not Agreement(number, values, 0.06, FREEDOM).contradicts(math.log1p(0.05), 1)
    # The scatter that the report gives is used instead.
    told = replace(number, cv=0.001)
    assert Agreement(told, values, 0.001, FREEDOM).contradicts(math.log1p(0.05), 1)


@pytest.mark.parametrize(
    ("metric", "mean", "scatter"),
    [("retransmits", 100, 10 / 105), ("retransmits", 0, 1 / 5), ("bottleneck_drops", 4, 2 / 9),
     ("cwnd_median_packets", 100, 0), ("goodput_mbit", 100, 0)],
)  # fmt: skip
def test_count_scatters_at_least_as_in_a_poisson_process(metric, mean, scatter):
    assert Number("x", condition(BASE), metric, mean).count_scatter == pytest.approx(scatter)


def test_equal_runs_with_few_losses_do_not_exclude_one_loss_more(tmp_path):
    class Equal(World):
        """Every run of a setting is the same."""

        def result(self, condition, seed):
            return Result(means(condition))

    case = case_of(tmp_path, only=["offloads on", "buffer x2"])
    published = {"retransmits": 1.1, "goodput_mbit": 1.0}
    numbers = tuple(replace(n, mean=n.mean * published[n.metric]) for n in case.numbers)
    search = searched(replace(case, numbers=numbers), Equal())
    assert verdict.verdict(search) is Verdict.NOTHING
    published = {"retransmits": 1.6, "goodput_mbit": 1.0}
    numbers = tuple(replace(n, mean=n.mean * published[n.metric]) for n in case.numbers)
    search = searched(replace(case, numbers=numbers), Equal())
    assert verdict.verdict(search) is Verdict.NONE


class PartlyNoisy(World):
    """A measurer: without loss and as reported, all runs are the same."""

    def result(self, condition, seed):
        noisy = condition.offloads == "on" or condition.sysctl != "none"
        noise = random.Random(seed).gauss(0, 0.1) if noisy else 0.0
        return Result({k: v * math.exp(noise) for k, v in means(condition).items()})


def test_reported_condition_fits_once_other_settings_show_the_usual_scatter(tmp_path):
    case = case_of(tmp_path, only=["offloads on", "no SACK", "buffer x2"])
    numbers = tuple(
        each if each.held_out else replace(each, mean=1.07 * each.mean) for each in case.numbers
    )
    search = searched(replace(case, numbers=numbers), PartlyNoisy())
    assert verdict.verdict(search) is Verdict.NOTHING
    assert search.agreed[0] is REPORTED
    assert not search.pairs


def test_everything_that_was_tried_counts_in_what_is_excluded(tmp_path):
    search = searched(case_of(tmp_path, hidden("no SACK")))
    edge = Agreement(search.case.numbers[0], tuple(
        search.case.numbers[0].mean * factor for factor in (1.16, 1.09, 1.21, 1.13, 1.18)
    ), 0.05, FREEDOM)  # fmt: skip
    trial = replace(search.trials[REPORTED], agreements=[edge])
    assert edge.contradicts(search.case.tolerance, 1)
    assert not search.excluded(trial)
    search.trials = {REPORTED: trial}
    assert search.excluded(trial)


@pytest.mark.parametrize("truth", [(), ("no SACK",), ("policer at 0.8 of the rate",)])
def test_page_needs_no_other_file_and_escapes_what_it_quotes(tmp_path, truth):
    case = case_of(tmp_path, hidden(*truth) if truth else None, source="<b>a report</b>")
    search = searched(case)
    text = page.html(verdict.result(search))
    assert re.search(r"<script|https?:|@import|url\(|<b>", text) is None
    assert verdict.headline(search).split(":")[0] in text
    finalists = verdict.result(search)["finalists"]
    assert all(
        c.startswith("losslab measure --algorithm") for f in finalists for c in f["commands"]
    )
    assert len(finalists) == (truth != ("policer at 0.8 of the rate",))


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([0.9, 1.1], "0.90 to 1.10"),
        ([0.5, 1e7], "above 0.50"),
        ([1e-8, 1e7], "any ratio"),
        (None, "too few runs"),
    ],
)
def test_interval_that_too_few_published_runs_leave_open_is_said_in_words(tmp_path, ends, said):
    result = verdict.result(searched(case_of(tmp_path, hidden("no SACK"))))
    [finalist] = result["finalists"]
    finalist["numbers"][0]["interval"] = ends
    assert said in page.text(result)
    assert said in page.html(result)


def test_reported_condition_without_valid_runs_says_why(tmp_path):
    with pytest.raises(Exception, match=r"no valid run \(goodput_mbit, loss_percent 1\): broken"):
        searched(case_of(tmp_path), World(violations=lambda condition: ["broken"]))
    assert REPORTED.label == "as reported"
