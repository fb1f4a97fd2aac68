"""Cuts: untouched futures, futures as standalone replicates, and causes of a symptom."""

import json
import re
import shlex
from pathlib import Path

import pytest

from bench import golden
from losslab import cli
from losslab.campaign import packets, rerun
from losslab.instrument import image
from losslab.tools.timetravel.symptoms import COUNTER

RECORD = golden.load()
WORDS = shlex.split(
    "--algorithm cubic --loss-percent 2 --rtt-ms 40 --rate-mbit 20 --buffer-packets 66 "
    "--duration-s 3 --warmup-s 0.5 --seed 7"
)
TIMEOUT = shlex.split(
    "--rtt-ms 40 --rate-mbit 2 --buffer-packets 5 --duration-s 6 --seed 3 --drop-list"
)


def losslab(*words):
    return cli.main([*map(str, words)])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cuts") / "run"
    assert losslab("measure", *WORDS, "--out", folder) == 0
    return folder


NIGHT = pytest.mark.nightly
PATH = "--rate-mbit {} --rtt-ms 20 --duration-s 2 --warmup-s 0.5"
OWN = {
    "capture": f"--loss-percent 1 {PATH.format(20)} --buffer-packets 50 --capture r1-r2",
    "quic": f"--app quic --loss-percent 1 {PATH.format(10)}",
}
NO_ENGINE = pytest.mark.skipif(
    image.part(image.ENGINE).existing() is None, reason="image: make setup"
)
NO_QUIC = pytest.mark.skipif(
    image.part("quic").existing() is None, reason="losslab image --variant quic"
)


@pytest.mark.parametrize(
    ("name", "cuts"),
    [
        ("flows", 5), ("video-128x64", 5), ("capture", 5),
        pytest.param("web", 5, marks=NIGHT), pytest.param("changing", 5, marks=NIGHT),
        pytest.param("containers", 3, marks=NO_ENGINE), pytest.param("quic", 3, marks=NO_QUIC),
    ],
)  # fmt: skip
def test_future_of_a_run_that_was_cut_has_the_bytes_of_the_uncut_run(name, cuts, tmp_path):
    words = f"--algorithm bbr {OWN[name]}" if name in OWN else RECORD.conditions[name].measure
    golden.check_cuts(words, tmp_path, cuts)


def test_futures_with_other_losses_are_replicates_that_can_be_measured_from_the_start(
    run, tmp_path, capsys
):
    assert losslab("whatif", run, "--at", 1.5, "--list", "--json") == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert first["direction"] == "data"
    assert first["t_s"] > 1.5
    out = tmp_path / "futures"
    words = ["--spare", first["number"], "--drop", first["number"] + 3, "--set", "loss_percent=0"]
    assert losslab("whatif", run, "--at", 1.5, *words, "--json", "--out", out) == 0
    untouched, dropped, spared, lossless = json.loads(capsys.readouterr().out)
    assert untouched["value"] == rerun.load_manifest(run)["summary"]["goodput_mbit"]
    assert lossless["drops_after_cut"] == 0
    assert lossless["value"] > untouched["value"]
    assert dropped["effect"] == dropped["value"] - untouched["value"]
    assert str(first["number"]) in spared["future"]
    for name in (f"spare-{first['number']}", "loss-0"):
        assert losslab("rerun", out / name) == 0
        assert "same bytes in 9 of 9 files" in capsys.readouterr().out
        assert losslab("plot", out / name) == 0
        capsys.readouterr()


def test_future_with_another_algorithm_is_repeated_by_its_own_command(run, tmp_path, capsys):
    out = tmp_path / "futures"
    words = ["--algorithm", "bbr", "--out", out]
    assert losslab("whatif", run, "--at", 1.5, *words) == 0
    manifest = rerun.load_manifest(out / "algorithm-bbr")
    assert manifest["reasons"] == []
    assert manifest["future"] == {"algorithm": "bbr", "at_s": 1.5}
    assert losslab("rerun", out / "algorithm-bbr") == 1
    assert "repeat the command that made it" in capsys.readouterr().err


def test_effects_over_draws_are_of_pairs_with_the_same_draw(run, capsys):
    words = ["--at", 1.5, "--set", "loss_percent=0", "--set", "loss_percent=2", "--seeds", 5]
    assert losslab("whatif", run, *words, "--json") == 0
    _, redrawn, none, same = json.loads(capsys.readouterr().out)
    assert len({*redrawn["values"]}) > 1
    # Draws at the loss of the replicate are those of the unchanged futures.
    assert same["values"] == redrawn["values"]
    assert same["effect_interval"] == [0.0, 0.0]
    assert none["effect_interval"][0] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--at", 3.5], "must be within the run, 0 to 3 s, found 3.5"),
        (["--at", 1, "--spare", 1], "must name packets that were dropped after the cut"),
        (["--at", 1, "--drop", "5,4"], "must be rising packet numbers"),
        (["--at", 1, "--set", "rate_mbit=5"], "--set must be loss_percent=X"),
        (["--at", 1, "--algorithm", "nobody"], "must be one of the replicate's kernel"),
    ],
)
def test_impossible_futures_are_refused_with_the_reason(run, words, message, capsys):
    assert losslab("whatif", run, *words) == 2
    assert message in capsys.readouterr().err


def test_run_without_a_stall_is_refused(tmp_path, capsys):
    words = ["--algorithm", "bbr", "--rtt-ms", 20, "--rate-mbit", 20, "--duration-s", 1]
    assert losslab("measure", *words, "--warmup-s", 0.2, "--out", tmp_path / "run") == 0
    capsys.readouterr()
    assert losslab("why", tmp_path / "run", "--stall", "--out", tmp_path / "why") == 2
    assert "must have a stall of at least 0.1 s, 3 RTTs" in capsys.readouterr().err
    assert losslab("why", tmp_path / "run", "--timeout", "--out", tmp_path / "why") == 2
    assert "must have a retransmission timeout, found none" in capsys.readouterr().err


def test_replicate_whose_bytes_do_not_repeat_is_refused(run, tmp_path, capsys):
    for path in run.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    table = tmp_path / "queue.csv"
    table.write_text(table.read_text().replace(",0\n", ",1\n", 1))
    assert losslab("whatif", tmp_path, "--at", 1.5) == 1
    assert "must equal the recorded replicate, found: queue.csv: line" in capsys.readouterr().err


# The algorithm and the first packet of a lost window, with single losses around it.
PLANTED = [
    pytest.param(algorithm, begin, marks=[] if (algorithm, begin) == ("cubic", 300) else NIGHT)
    for algorithm in ("cubic", "reno", "westwood", "htcp")
    for begin in (300, 380, 460)
]


@pytest.mark.parametrize(("algorithm", "begin"), PLANTED)
def test_planted_cause_of_a_timeout_is_found(algorithm, begin, tmp_path, capsys):
    window = range(begin, begin + 16)
    # A flow recovers from a single loss within 62 packets, 0.4 s.
    single = [at for at in range(100, 900, 60) if not begin - 62 <= at < begin + 78]
    numbers = ",".join(map(str, sorted((*single, *window))))
    words = ["measure", "--algorithm", algorithm, *TIMEOUT, f"data {numbers}"]
    assert losslab(*words, "--out", tmp_path / "run") == 0
    late = ["--timeout", "--at", 5.9, "--out", tmp_path / "late"]
    assert losslab("why", tmp_path / "run", *late) == 1
    assert "found that it also occurs without them" in capsys.readouterr().err
    assert losslab("why", tmp_path / "run", "--timeout", "--out", tmp_path / "why") == 0
    said = capsys.readouterr().out
    cause = {int(number) for number in re.findall(r"^  data packet (\d+)", said, re.MULTILINE)}
    assert cause
    assert cause <= {*window}  # the others came long before or after it
    assert timeouts(tmp_path / "why" / "cause") == 1
    # Of a later window, other packets cause a timeout without these, too.
    assert timeouts(tmp_path / "why" / "without") == 0 or begin > 300
    assert losslab("rerun", tmp_path / "why" / "cause") == 0
    # Each packet is named by its bytes, and the captures are part of the run.
    assert len(re.findall(r"dropped at [0-9.]+ s: bytes \d+ to \d+", said)) == len(cause)
    capsys.readouterr()
    pcap = tmp_path / "cause.pcap"
    assert losslab("export", tmp_path / "why" / "cause", "--pcap", "--out", pcap) == 0
    assert pcap.read_bytes() == (tmp_path / "why" / "cause" / "capture-sender-r1.pcap").read_bytes()
    assert resent(pcap.read_bytes(), said)


def resent(capture, said):
    """Return whether the flow under test sends the bytes of each dropped packet at least twice."""
    _, segments = packets.segments(capture)
    data = [each for each in segments if each.sent and each.port == 40001 and each.octets]
    sent = [range(at, at + each.octets) for each in data if (at := each.begin - data[0].begin) >= 0]
    dropped = [int(begin) for begin in re.findall(r": bytes (\d+) to ", said)]
    return bool(dropped) and all(sum(at in each for each in sent) >= 2 for at in dropped)


def test_cause_of_a_bad_metric_is_found(run, tmp_path, capsys):
    assert losslab("why", run, "--metric", "goodput_mbit", "--out", tmp_path / "why") == 0
    said = capsys.readouterr().out
    recorded, cause = (
        rerun.load_manifest(folder)["summary"]["goodput_mbit"]
        for folder in (run, tmp_path / "why" / "cause")
    )
    words = re.match(r"Goodput \(Mbit/s\) ([0-9.]+), without any drop ([0-9.]+): caused by", said)
    assert float(words[1]) == pytest.approx(recorded, rel=1e-3)
    assert cause <= 1.001 * (float(words[2]) - 0.8 * (float(words[2]) - recorded))


def timeouts(folder: Path) -> int:
    return rerun.load_manifest(folder)["observed"]["state"]["sender"]["counters"][COUNTER]


def test_future_parts_from_its_run_at_the_first_packet_after_the_change(run, tmp_path, capsys):
    words = ["--at", 1.5, "--set", "loss_percent=0", "--out", tmp_path / "futures"]
    assert losslab("whatif", run, *words) == 0
    capsys.readouterr()
    assert losslab("divergence", run, tmp_path / "futures" / "untouched") == 0
    assert losslab("divergence", run, tmp_path / "futures" / "loss-0") == 1
    said = capsys.readouterr().out
    first_s = float(re.search(r"^  A +([0-9.]+) s ", said, re.MULTILINE)[1])
    assert 1.5 < first_s < 3
    assert "  both  " in said
