"""`losslab decide`: its questions, plans, refused requests, and its page."""

import argparse
import json
import re

import pytest

from losslab import cli
from losslab.instrument import packed
from losslab.reading import UsageError
from losslab.tools.decide import decide, page
from losslab.tools.decide.question import Question
from losslab.tools.paths import linux


@pytest.fixture(autouse=True)
def unjudged(monkeypatch):
    """Linux judges in a guest, which tests of units do not have."""
    monkeypatch.setattr(linux, "judge", lambda source: None)


PATH = [
    "--rate-mbit", "200M", "--rtt-ms", "40ms", "--loss-percent", "0.5%", "--loss-burst-packets",
    "5", "--buffer-packets", "2MB",
]  # fmt: skip


def options(*words):
    parser = argparse.ArgumentParser()
    decide.add_commands(parser.add_subparsers())
    return parser.parse_args(["decide", *words, "--cores", "2", "--out", "out"])


def plan(*words):
    given = options("cubic", "bbr", *words)
    question = decide.asked(given)
    variants = [decide.Variant("", 0.0, question), *decide.others(question, given.uncertain)]
    return decide.Plan.of(variants, 600.0, given)


def test_operators_question_becomes_flows_of_the_others_and_of_the_choice_or_none():
    found = decide.asked(options(
        "cubic", "bbr", *PATH, "--share", "cubic=30%", "--use", "bulk", "--use", "pages=300kB",
        "--use", "video",
    ))  # fmt: skip
    assert found.path["buffer_packets"] == 1321
    assert found.apps == ["iperf3", "ffmpeg"]
    # 10 % of 200 Mbit/s are 8.33 pages of 300 kB per second.
    assert found.point("bbr", "iperf3")["flows"] == (
        "cubic,count=3+same,count=6+same,size_kb=300,arrivals_per_s=8.33"
    )
    found = decide.asked(options("cubic", "bbr"))
    assert found.point("bbr", "iperf3")["flows"] == "none"


def test_path_comes_from_lines_of_tc(tmp_path, capsys):
    (tmp_path / "path.sh").write_text(
        "tc qdisc add dev eth0 root handle 1: netem delay 20ms loss 1%\n"
        "tc qdisc add dev eth0 parent 1: tbf rate 8mbit burst 2k limit 90k\n"
    )
    found = decide.asked(
        options("cubic", "bbr", "--from-tc", str(tmp_path / "path.sh"), "--loss-percent", "2")
    )
    assert (found.path["rtt_ms"], found.path["rate_mbit"]) == (20, 8)
    assert found.path["loss_percent"] == 2
    assert "beware" in capsys.readouterr().err


LEFT_OUT = (
    "tc qdisc add dev eth0 root handle 1: netem delay 20ms corrupt 1%\n"
    "tc qdisc add dev eth0 parent 1: tbf rate ${RATE}mbit burst 2k limit 90k\n"
)


def test_w3_path_of_which_words_are_left_out_is_refused(tmp_path):
    (tmp_path / "path.sh").write_text(LEFT_OUT)
    words = ["cubic", "bbr", "--from-tc", str(tmp_path / "path.sh")]
    with pytest.raises(UsageError, match=r"4 left out: .*corrupt 1%.*rate_mbit is unknown"):
        decide.asked(options(*words))
    with pytest.raises(UsageError, match="2 left out"):
        decide.asked(options(*words, "--rate-mbit", "5"))


def test_w3_left_out_words_stand_on_every_form_of_the_decision(tmp_path):
    (tmp_path / "path.sh").write_text(LEFT_OUT)
    words = ["cubic", "bbr", "--from-tc", str(tmp_path / "path.sh"), "--accept-left-out"]
    given = options(*words, "--rate-mbit", "5", "--uncertain", "none")
    question = decide.asked(given)
    variant = decide.Variant("", 0.0, question)
    made = decide.Plan((variant,), 10.0, 5, 5, 1.0)
    found = decide.decision([decide.Outcome(variant)], made)
    found["command"] = decide.again(given, made)
    assert "--accept-left-out" in found["command"]
    assert any("corrupt 1%" in line for line in found["question"]["left_out_of_path"])
    assert "netem corrupt 1%" in page.text(found)
    assert "netem corrupt 1%" in page.html(found)


def test_question_of_the_file_names_the_command_that_answers_it(tmp_path):
    lines = "".join(f"tc qdisc add dev eth{n} root netem delay {n}ms\n" for n in (1, 2, 3))
    (tmp_path / "path.sh").write_text(lines)
    with pytest.raises(UsageError, match="two interfaces") as refused:
        decide.asked(options("cubic", "bbr", "--from-tc", str(tmp_path / "path.sh")))
    assert "losslab path from-tc" in refused.value.hint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bbr"], "between two"),
        (["bbr", "bbr"], "between two"),
        (["cubic", "bbrr"], "did you mean bbr"),
        (["cubic", "bbr", "--share", "nobody=30%"], "found nobody"),
        (["cubic", "bbr", "--share", "cubic=3%"], "found 0 of cubic of 10 flows"),
        (["cubic", "bbr", "--share", "cubic=99%"], "found 10 of cubic of 10 flows"),
        (["cubic", "bbr", "--share", "cubic=100%"], "found 10 of cubic of 10 flows"),
        (["cubic", "bbr", "--share", "cubic=101%"], "at most 100 %"),
        (["cubic", "bbr", "--link-flows", "0"], "--use bulk must have a long flow of yours"),
        (["cubic", "bbr", "--link-flows", "0", "--share", "cubic=30%", "--use", "video"],
         "--share must be of long flows"),
        (["cubic", "bbr", "--rtt-ms", "unknown"], "--uncertain rtt_ms=LOW..HIGH"),
        (["cubic", "bbr", "--share", "cubic=30ms"], "must be in %"),
        (["cubic", "bbr", "--share", "cubic"], "percentage of --share"),
        (["cubic", "bbr", "--share", "cubic=30%", "--share", "cubic=20%"], "found one twice"),
        (["cubic", "bbr", "--use", "pages=3kB", "--use", "pages=2MB"], "must have one SIZE"),
        (["cubic", "bbr", "--uncertain", "duration_s=5..10"], "found duration_s"),
        (["cubic", "bbr", "--use", "pages"], "pages=SIZE"),
        (["cubic", "bbr", "--use", "games"], "bulk, pages=SIZE or video"),
        (["cubic", "bbr", "--use", "pages=0"], "must be above 0"),
        (["cubic", "bbr", "--use", "pages=3ms"], "must be in kB"),
        (["cubic", "bbr", "--rtt-ms", "40Mbit"], "rtt_ms must be in ms"),
        (["cubic", "bbr", "--rtt-ms", "0", "--loss-percent", "1"], "rate_mbit must be at most 50"),
        (["cubic", "bbr", "--uncertain", "queue"], "queue must have the other values"),
        (["cubic", "bbr", "--uncertain", "queue=fifo"], "another value than your path's"),
        (["cubic", "bbr", "--uncertain", "queue=none"], "queue must be one of"),
        (["cubic", "bbr", "--uncertain", "app=web"], "found app"),
        (["cubic", "bbr", "--uncertain", "share"], "found share"),
        (["cubic", "bbr", "--uncertain", "loss_percent=1"], "LOW..HIGH"),
        (["cubic", "bbr", "--uncertain", "loss_percent"], "the path has loss_percent 0"),
        (["cubic", "bbr", "--uncertain", "loss_percent=1..200"], "loss_percent=1..200"),
        (["cubic", "bbr", "--uncertain", "loss_percent=1..x"], "a bound of loss_percent"),
        (["cubic", "bbr", "--rate-mbit", "5", "--uncertain", "rate_mbit=10..20"],
         "must have bounds around 5, the value of your path, found 10..20"),
        (["cubic", "bbr", "--budget", "1"], "cores, found 1 s\n"),
        (["cubic", "bbr", *PATH, "--uncertain", "rtt=20..80"], "rtt; did you mean rtt_ms?"),
        (["cubic", "bbr", "--budget", "soon"], "--budget"),
        (["cubic", "bbr", "--trace", "cellular", "--use", "video", "--share", "cubic=50%"],
         "--trace"),
        (["cubic", "bbr", "--trace", "cellular", "--use", "pages=9"], "--trace"),
        (["cubic", "bbr", "--from-tc", "absent.sh"], "absent.sh does not exist"),
    ],
)  # fmt: skip
def test_question_that_cannot_be_measured_is_refused_by_the_name_of_its_option(
    words, said, capsys, tmp_path
):
    out = tmp_path / "out"
    assert cli.main(["decide", *words, "--estimate", "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_estimate_measures_nothing(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(decide, "require_built", lambda conditions: None)
    out = tmp_path / "out"
    assert cli.main(["decide", "cubic", "bbr", *PATH, "--estimate", "--out", str(out)]) == 0
    assert "idle cores" in capsys.readouterr().err
    assert not out.exists()


def test_missing_kernel_stops_an_estimate_with_the_command_that_builds_it(
    capsys, tmp_path, monkeypatch
):
    """F3: decide measured two of three algorithms before it found no kernel for the third."""
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(packed.PLACE, raising=False)
    words = ["decide", "cubic", "bbr", "bbr3", *PATH, "--out", str(tmp_path / "out")]
    for more in (["--estimate"], []):
        assert cli.main([*words, *more]) == 1
        assert "losslab kernel --name 6.12-bbr3" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_uncertain_values_are_halved_and_doubled_or_at_the_users_bounds():
    given = options("cubic", "bbr", *PATH)
    question = decide.asked(given)
    found = [(each.name, each.value) for each in decide.others(question, [])]
    assert found[:4] == [("loss_percent", 0.25), ("loss_percent", 1.0),
                         ("buffer_packets", 660), ("buffer_packets", 2642)]  # fmt: skip
    assert {name for name, _ in found} == {"loss_percent", "buffer_packets", "rtt_ms", "rate_mbit"}
    bounds = ["loss_percent=0.1..2%", "rtt_ms=20ms..0.1s"]
    assert [(each.name, each.value) for each in decide.others(question, bounds)] == [
        ("loss_percent", 0.1), ("loss_percent", 2), ("rtt_ms", 20), ("rtt_ms", 100),
    ]  # fmt: skip
    assert list(decide.others(question, ["none"])) == []


def test_text_is_uncertain_too_and_measured_at_other_values():
    question = decide.asked(options("cubic", "bbr", *PATH))
    found = list(decide.others(question, ["queue=fifo,fq_codel,pie", "sender_queue=fq_codel"]))
    assert [each.label for each in found] == [
        "queue fq_codel",
        "queue pie",
        "sender queue fq_codel",
    ]
    assert [each.question.path["queue"] for each in found[:2]] == ["fq_codel", "pie"]
    assert found[0].named


def test_plan_stays_within_the_budget_and_leaves_out_the_last_paths():
    question = [*PATH, "--share", "cubic=30%", "--use", "bulk", "--use", "video"]
    large, small = plan(*question), plan("--rate-mbit", "2M", "--rtt-ms", "40ms")
    assert large.core_s <= 600
    assert small.core_s <= 600
    assert small.runs == decide.RUNS_MAX
    assert large.runs >= decide.PRECISE_RUNS
    assert large.left_out[-1:] == ("rate 400 Mbit/s",)


def test_number_and_length_of_runs_are_given_or_follow_from_the_path():
    found = plan(*PATH, "--replicates", "7", "--duration-s", "6s")
    assert (found.runs, found.duration_s) == (7, 6)
    assert plan("--rtt-ms", "600ms", "--rate-mbit", "2M").duration_s >= 30
    with pytest.raises(UsageError, match="10 of 3000 kB take"):
        plan("--rate-mbit", "0.01", "--use", "pages=3MB")


def test_long_flows_of_the_others_are_told_from_those_of_the_choice():
    question = Question(("a", "b"), {}, {"cubic": 30.0}, 10, ("bulk", "pages"), 300.0, 200.0)
    flows = [
        {"name": "1-1", "goodput_mbit": "4"}, {"name": "1-2", "goodput_mbit": "6"},
        {"name": "2-1", "goodput_mbit": "20"}, {"name": "3-1", "goodput_mbit": ""},
    ]  # fmt: skip
    found = decide.of_run({"goodput_mbit": 30.0, "fct_median_s": 0.2}, flows, question)
    assert found == {"own_goodput_mbit": 25, "others_goodput_mbit": 5, "fct_median_s": 0.2}


def decided(lost=False):
    """Return a decision on made-up values: b is faster, and the loss decides."""
    question = Question(("a", "b"), {"loss_percent": 0.5}, {"cubic": 30.0}, 10, ("bulk",))
    base = decide.Outcome(decide.Variant("", 0.0, question))
    other = decide.Outcome(decide.Variant("loss_percent", 0.25, question))
    low = {seed: 10.0 + seed for seed in range(3 if lost else 6)}
    high = {seed: 3 * value for seed, value in low.items()}
    base.values = {"own_goodput_mbit": {"a": low, "b": high},
                   "rtt_loaded_ms": {"a": low, "b": high}}  # fmt: skip
    base.violations = ["idle RTT must be <40 ms>"] * 3 if lost else []
    more = {seed: 10.0 + seed for seed in range(6)}
    other.values = {"own_goodput_mbit": {"a": more, "b": more}}
    made = decide.Plan((base.variant, other.variant), 10.0, 6, 5, 1.0, ("rtt_ms 80 ms",))
    return decide.decision([base, other], made) | {"command": "losslab decide a b"}


def test_decision_for_todays_choice_says_in_what_another_is_better():
    """The page said "Use cubic for pages", and hid that BBR's slow pages were 36 % faster."""
    question = Question(("a", "b", "c"), {}, {}, 0, ("pages",), 300.0, 200.0)
    base = decide.Outcome(decide.Variant("", 0.0, question))
    quick, slow = ({seed: mean + seed / 100 for seed in range(6)} for mean in (1.0, 24.0))
    base.values = {
        "fct_median_s": {"a": quick, "b": slow, "c": slow},
        "fct_p95_s": {"a": slow, "b": quick, "c": slow},
        "rtt_loaded_ms": {"a": slow, "b": quick, "c": quick},
    }
    plan = decide.Plan((base.variant,), 10.0, 6, 5, 1.0)
    found = decide.decision([base], plan) | {"command": "losslab decide a b c"}
    assert found["headline"] == "Use a for pages."
    against = "Against a: 95th percentile of the load time 0.043 times with b."
    assert page.costs(found) == [against]
    assert against in page.text(found)
    # A choice other than today's has it as a cost.
    base.values["fct_median_s"] = {"a": slow, "b": slow, "c": quick}
    base.values["fct_p95_s"] = {"a": quick, "b": slow, "c": slow}
    found = decide.decision([base], plan)
    assert found["headline"] == "Use c for pages."
    assert page.costs(found) == ["Cost of c: 95th percentile of the load time 23 times."]


def test_base_path_has_no_label_and_own_long_flows_are_named_as_yours():
    found = decided()
    assert decide.Variant("", 0.0, Question(("a", "b"), {}, {}, 1, ("bulk",))).label == ""
    assert "Long flows: 10; of the others: 3 cubic; the rest are yours" in page.text(found)
    found["question"] |= {"others": {}, "flows": 1}
    assert "Long flows: 1, yours\n" in page.text(found)


def test_b5_decision_says_what_limited_the_flows_instead_of_the_path():
    found = decided()
    assert found["warnings"] == []
    line = "in 3 of 5 runs, the receive window limited the first flow 12 to 30 % of the time <a>"
    text, html = (make(found | {"warnings": [line]}) for make in (page.text, page.html))
    assert f"warning: {line}" in text
    assert b"<h2>Warnings</h2>" in html.encode()
    assert "of the time &lt;a&gt;</li>" in html


def test_decision_says_choice_cost_and_what_flips_it():
    found = decided()
    assert found["headline"] == "Use b for bulk."
    assert [(row["part"], row["verdict"]) for row in found["comparisons"]] == [
        ("bulk", "better"), ("cost", "worse"),
    ]  # fmt: skip
    assert page.costs(found) == ["Cost of b: mean RTT during the traffic 3 times."]
    assert page.changes(found) == [
        'loss 0.25 %: bulk: the answer changes to "does not matter"',
        "0 of 1 paths with another value of loss do not change it",
    ]
    text = page.text(found)
    for part in ("Use b", "3 times", "worse", "answer changes", "too small for rtt_ms 80 ms"):
        assert part in text
    json.dumps(found, allow_nan=False)


def test_use_without_valid_runs_says_why_and_on_which_path_it_can_be_measured():
    found = decided(lost=True)
    assert found["answers"]["bulk"]["verdict"] == "not measured"
    assert page.invalid(found) == [
        "idle RTT must be <40 ms> (runs: 3)",
        "bulk can be measured with one of: loss 0.25 %",
    ]


@pytest.mark.parametrize("lost", [False, True])
def test_page_needs_no_other_file_and_escapes_what_it_quotes(lost):
    text = page.html(decided(lost))
    assert re.search(r"<script|https?:|@import|url\(", text) is None
    assert "<40" not in text
    assert ("Cost of b" in text) != lost
    assert "prefers-color-scheme: dark" in text


def test_command_measures_the_same_again_with_more_runs():
    given = options("cubic", "bbr", *PATH, "--share", "cubic=30%", "--use", "bulk")
    question = decide.asked(given)
    made = decide.Plan((decide.Variant("", 0.0, question),), 20.0, 8, 5, 1.0)
    words = decide.again(given, made, 4).split()
    repeated = options(*words[2:])
    assert (repeated.replicates, repeated.duration_s) == (12, "20")
    assert decide.asked(repeated).path == {**question.path, "duration_s": 20}


PAGES = ["--use", "pages=300kB"]


@pytest.mark.parametrize(
    ("words", "flows"),
    [
        (["--link-flows", "0"], "same,size_kb=300,arrivals_per_s=8.33"),
        (["--link-flows", "3", "--share", "cubic=100%"],
         "cubic,count=3+same,size_kb=300,arrivals_per_s=8.33"),
    ],
)  # fmt: skip
def test_f2_pages_need_no_long_flow_of_the_choice(words, flows):
    """An edge of a CDN has none; two of its own turned the answer round."""
    found = decide.asked(options("cubic", "bbr", *PATH, *PAGES, *words))
    assert found.alone
    assert found.apps == ["stream"]
    point = found.point("bbr", "stream")
    assert (point["flows"], point["size_kb"]) == (flows, 300)
    assert {c.condition.algorithm for _, c in decide.cells(found, 10.0)} == {"cubic", "bbr"}
    rows = [{"name": "1-1", "goodput_mbit": "4"}, {"name": "2-1", "goodput_mbit": ""}]
    measures = decide.of_run({"goodput_mbit": 30.0, "fct_median_s": 0.2}, rows, found)
    others = {"others_goodput_mbit": 4.0} if found.shares else {"own_goodput_mbit": 4.0}
    assert measures == {"fct_median_s": 0.2} | others
    names = {each.name for each in decide.others(found, [])}
    assert "share" not in names
    assert ("link_flows" in names) == bool(found.shares)


def test_f2_own_long_flows_have_a_row_if_they_do_not_decide():
    """The page said "use cubic for pages" and hid that long flows lose a factor of 24."""
    question = Question(("a", "b"), {}, {}, 2, ("pages",), 300.0, 200.0)
    base = decide.Outcome(decide.Variant("", 0.0, question))
    quick, slow = ({seed: mean + seed / 100 for seed in range(6)} for mean in (1.0, 24.0))
    base.values = {
        "fct_median_s": {"a": slow, "b": quick},
        "own_goodput_mbit": {"a": slow, "b": quick},
    }
    found = decide.decision([base], decide.Plan((base.variant,), 10.0, 6, 5, 1.0))
    assert found["headline"] == "Use b for pages."
    assert [(row["part"], row["measure"], row["verdict"]) for row in found["comparisons"]] == [
        ("pages", "fct_median_s", "better"), ("cost", "own_goodput_mbit", "worse"),
    ]  # fmt: skip
    assert page.costs(found)[0].startswith("Cost of b: mean goodput of your long flows")


@pytest.mark.parametrize("words", [[], ["--buffer-packets", "unknown"]])
def test_a2_unknown_buffer_is_varied_and_named_as_a_guess(words):
    given = options("cubic", "bbr", "--rate-mbit", "30", "--rtt-ms", "40", *words)
    question = decide.asked(given)
    assert question.unknown_buffer
    variants = list(decide.others(question, ["rtt_ms=20..80"]))
    assert [(each.name, each.value, each.named) for each in variants] == [
        ("buffer_packets", 25, True), ("buffer_packets", 400, True),
        ("rtt_ms", 20, True), ("rtt_ms", 80, True),
    ]  # fmt: skip
    base = decide.Variant("", 0.0, question)
    found = decide.decision([decide.Outcome(base)], decide.Plan((base,), 10.0, 5, 5, 1.0))
    found["command"] = "losslab decide"
    assert found["question"]["assumed"] == {
        "buffer_packets": 100, "loss_percent": 0, "loss_burst_packets": 1, "queue": "fifo",
        "ecn": "off",
    }  # fmt: skip
    text = page.text(found)
    assert "Assumed, because not given: buffer 100 packets (unknown; a guess), loss 0 %" in text
    assert "Path: RTT 40 ms, rate 30 Mbit/s\n" in text


def test_a4_named_values_are_measured_or_the_budget_is_refused():
    named = ["--uncertain", "loss_percent=0.1..2", "--uncertain", "rtt_ms", "--rate-mbit", "2"]
    path = [*PATH, *named]
    given = options("cubic", "bbr", *path)
    question = decide.asked(given)
    variants = [decide.Variant("", 0.0, question), *decide.others(question, given.uncertain)]
    enough = decide.Plan.of(variants, 1e9, given)
    assert enough.left_out == ()
    fewest = decide.Plan._at(tuple(variants), enough.duration_s / 2, 0.0, None, 5)
    kept = decide.Plan.of(variants, fewest.core_s, given)
    assert (kept.runs, kept.left_out) == (5, ())
    with pytest.raises(UsageError, match="each value that --uncertain names"):
        decide.Plan.of(variants, fewest.core_s / 2, given)


def test_a3_page_and_json_say_with_what_it_was_measured():
    found = decided()
    assert found["emulated"]
    assert found["losslab"]
    text = page.text(found | {"measured_with": {"Linux 6.12.1 with 2 patches of ours": ["a", "b"]}})
    assert "Kernel: Linux 6.12.1 with 2 patches of ours (a, b)" in text
    assert "Measured: in an emulated network in virtual time" in text
    assert decide.versions(["cubic", "bbr", "bbr3"]) == {
        "bbr": "BBRv1, as in Linux", "bbr3": "BBRv3",
    }  # fmt: skip


def test_a6_estimate_needs_no_folder_and_an_unknown_option_is_named(capsys, monkeypatch):
    monkeypatch.setattr(decide, "require_built", lambda conditions: None)
    assert cli.main(["decide", "cubic", "bbr", *PATH, "--estimate"]) == 0
    assert cli.main(["decide", "cubic", "bbr", *PATH]) == 2
    assert "--out must name a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["decide", "cubic", "bbr", "--cross-traffic", "3", "--estimate"])
    assert "unrecognized arguments: --cross-traffic" in capsys.readouterr().err
