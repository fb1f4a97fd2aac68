"""QUIC stacks that `make stacks` builds: their runs, and in the nightly lane their build."""

import os
import random
import shutil
import subprocess

import pytest

from bench.random.__main__ import measure as measure_drawn
from bench.random.__main__ import violations
from bench.random.draw import between, command
from losslab.repository import ROOT
from losslab.study.condition import Condition
from tests.e2e.test_measure import measure
from tests.e2e.test_programs import summary
from tests.faults.kit import contents

pytestmark = pytest.mark.usefixtures("shared_guests")

RECIPES = ROOT / "programs" / "quic"
BUILT = RECIPES / "bin"
# Congestion controls of each stack.
STACKS = {
    "quiche": ("cubic", "reno", "bbr"), "quinn": ("cubic", "reno", "bbr"),
    "s2n-quic": ("cubic", "bbr"), "quic-go": ("reno",),
}  # fmt: skip
# Random conditions of each stack.
DRAWN = 3
# Data in a full packet on the link: at most 1,472 of 1,514 bytes.
MOST_MBIT = 10 * 1472 / 1514


def built_or_skip(stack):
    if not (BUILT / stack).exists():
        pytest.skip(f"programs/quic/build.sh {stack}")


@pytest.mark.parametrize(("stack", "name"), [(s, n) for s, names in STACKS.items() for n in names])
def test_stack_uses_the_path_and_repeats_its_bytes(tmp_path, stack, name):
    built_or_skip(stack)
    words = [
        "--app", "command", "--algorithm", "own", "--listens", "sender", "--bring", BUILT,
        "--sender-command", f"./{stack} serve $SENDER:4433 {name}",
        "--receiver-command", f"./{stack} get $SENDER:4433 1000000000000",
        "--rate-mbit", 10, "--rtt-ms", 20, "--buffer-packets", 30, "--loss-percent", 0.1,
        "--duration-s", 4, "--warmup-s", 2,
    ]  # fmt: skip
    for run in ("one", "other"):
        done = measure(tmp_path / run, *words)
        assert done.returncode == 0, done.stderr
    assert 3 < summary(tmp_path / "one")["goodput_mbit"] <= MOST_MBIT
    one, other = contents(tmp_path / "one"), contents(tmp_path / "other")
    assert [file for file in one if one[file] != other[file]] == []


def drawn(stack, rng):
    """Draw a path of 1 to 50 Mbit/s, and a run of at most 40 Mbit."""
    rate, rtt = between(1, 50, rng), between(2, 150, rng)
    bdp_packets = rate * rtt / 12
    return Condition.from_json(
        {
            "app": "command", "algorithm": "own", "listens": "sender",
            "bring": str(BUILT.relative_to(ROOT)),
            "sender_command": f"./{stack} serve $SENDER:4433 {rng.choice(STACKS[stack])}",
            "receiver_command": f"./{stack} get $SENDER:4433 1000000000000",
            "rate_mbit": rate, "rtt_ms": rtt, "duration_s": 2 + 30 / rate, "warmup_s": 1.0,
            "buffer_packets": max(5, round(bdp_packets * between(0.3, 4, rng))),
            "loss_percent": rng.choice((0.0, between(0.02, 5, rng))),
        }
    )  # fmt: skip


@pytest.mark.parametrize("number", range(DRAWN))
@pytest.mark.parametrize("stack", STACKS)
def test_random_conditions_of_a_stack_violate_no_invariant(tmp_path, stack, number):
    built_or_skip(stack)
    its = drawn(stack, random.Random(f"{stack}-{number}"))
    run = measure_drawn(its, number, tmp_path / "run", cells=DRAWN * len(STACKS))
    assert run.valid, f"{command(its, number)}: {run.manifest.get('reasons', run.stderr)}"
    assert [*violations(run)] == [], command(its, number)


@pytest.mark.nightly
def test_stacks_build_from_their_locks(tmp_path):
    needs = ("cargo", "go", "cmake", "c++")
    if missing := [name for name in needs if shutil.which(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    shutil.copytree(RECIPES, tmp_path / "quic", ignore=shutil.ignore_patterns("target"))
    shutil.rmtree(tmp_path / "quic" / "bin", ignore_errors=True)
    done = subprocess.run(
        [tmp_path / "quic" / "build.sh"], env=os.environ | {"LOSSLAB_CACHE": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "quic" / "bin").iterdir()) == sorted(STACKS)
    usage = subprocess.run(
        [tmp_path / "quic" / "bin" / "quic-go"], capture_output=True, text=True, check=False
    )
    assert (usage.returncode, usage.stderr[:6]) == (2, "usage:")
