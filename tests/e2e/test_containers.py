"""The containernet backend in a guest, byte by byte; test_realtime covers the host's engine."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from losslab.instrument import image

pytestmark = pytest.mark.usefixtures("shared_guests")

ROOT = Path(__file__).resolve().parents[2]
HOST_FILE = "host.json"


def python(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        capture_output=True, text=True, check=False, cwd=ROOT, **options,
    )  # fmt: skip


def measure(out, *words, **options):
    common = ["--duration-s", 2, "--warmup-s", 0.5, "--seed", 7, "--loss-percent", 1]
    return python("losslab.cli", "measure", "--out", out, *common, *words, **options)


def contents(folder):
    return {p.name: p.read_bytes() for p in sorted(Path(folder).iterdir()) if p.name != HOST_FILE}


needs_guest = pytest.mark.skipif(
    image.existing(image.ENGINE) is None, reason="the engine image: run `make containernet`"
)


@needs_guest
def test_containers_in_a_guest_repeat_their_bytes(tmp_path):
    """Other conditions in containers: tests/e2e/test_forks.py."""
    words = ["--algorithm", "bbr", "--path", "asymmetric", "--backend", "containernet"]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda n: measure(tmp_path / n, *words), ("a", "b")))
    assert [d.returncode for d in done] == [0, 0], done[0].stderr + done[1].stderr
    first, second = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert first.keys() == second.keys()
    assert [n for n in first if first[n] != second[n]] == []
    manifest = json.loads(first["manifest.json"])
    assert manifest["backend"] == "containernet"
    assert manifest["summary"]["rtt_ms"] == pytest.approx(0.44, abs=0.003)
    assert manifest["machine"]["docker"]
    assert len(manifest["instrument"]["engine"]["containernet"]) == 40
