"""Drawing replicates of an archive and running them again, without a guest."""

import json
import math
import shutil
from itertools import combinations
from types import SimpleNamespace

import pytest

from losslab.artifact import sampling
from losslab.campaign import rerun
from tests import sealed
from tests.unit.study.test_condition import CONDITION

MANIFEST = {
    "cell": CONDITION.to_json(), "seed": 1, "backend": "virtual", "instrument": {"image": "a"},
    "valid": True, "reasons": [], "summary": {"goodput_mbit": 1},
}  # fmt: skip

FILES = {"tcp.csv": "t_s\n1\n", "sender.log": "done\n"}


@pytest.fixture
def archived(tmp_path, monkeypatch):
    """Return a function that writes a replicate; every rerun returns the honest one."""
    honest = sealed.replicate(tmp_path / "honest", MANIFEST, FILES)

    def run(condition, seed, out, *_, **__):
        shutil.copytree(honest, out)
        return json.loads((out / "manifest.json").read_text())

    monkeypatch.setattr(rerun, "run", run)
    monkeypatch.setattr(rerun, "instrument", lambda *_: SimpleNamespace())
    return lambda files=FILES, **changes: sealed.replicate(
        tmp_path / "archived", MANIFEST | changes, files
    )


def test_sample_depends_on_the_seed_only():
    """C2: a seed from the archive lets its author choose the sample."""
    paths = [f"cell/{number}" for number in range(100)]
    first = sampling.sample(paths, 20, 7)
    assert first == sampling.sample(paths[::-1], 20, 7)
    assert len(set(first)) == 20
    assert first != sampling.sample(paths, 20, 8)
    assert sampling.sample(paths[:3], 20, 7) == paths[:3]
    assert sampling.sample(paths, None, 7) == sorted(paths)


def test_printed_probability_is_the_share_of_seeds_that_miss():
    paths = [f"cell/{number}" for number in range(20)]
    wrong, tries = set(paths[:3]), 2000
    missed = sum(wrong.isdisjoint(sampling.sample(paths, 5, seed)) for seed in range(tries))
    expected = sampling.unnoticed(20, 3, 5)
    assert missed / tries == pytest.approx(expected, abs=5 * math.sqrt(0.25 / tries))


@pytest.mark.parametrize(("population", "wrong", "count"), [(6, 2, 3), (5, 1, 4), (4, 0, 2)])
def test_detection_probability_equals_exhaustive_counting(population, wrong, count):
    samples = list(combinations(range(population), count))
    missed = sum(all(each >= wrong for each in drawn) for drawn in samples)
    assert math.isclose(sampling.unnoticed(population, wrong, count), missed / len(samples))


def test_user_programs_of_others_run_only_with_trust(tmp_path):
    programs = {"app": "command", "sender_command": "./a", "receiver_command": "./b"}
    condition = CONDITION.to_json() | programs
    manifest = {"cell": condition, "instrument": {}, "backend": "virtual", "seed": 1}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(sampling.CannotRunError, match="--trust"):
        sampling.run_again(tmp_path, trust=False)


def test_same_bytes_agree_with_a_raw_files_digest(archived):
    folder = archived()
    assert sampling.run_again(folder, trust=False) == ""
    (folder / "tcp.csv").unlink()
    assert sampling.run_again(folder, trust=False) == ""
    keep = folder.parent / "kept"
    assert sampling.run_again(folder, trust=False, keep=keep) == ""
    assert (keep / "tcp.csv").read_text() == FILES["tcp.csv"]


@pytest.mark.parametrize(
    ("made_up", "found"),
    [
        ({"files": FILES | {"tcp.csv": "t_s\n2\n"}}, "tcp.csv: another file"),
        ({"files": {"tcp.csv": FILES["tcp.csv"]}}, "sender.log: on one side only"),
        ({"valid": False, "reasons": ["made up"]}, "manifest.json: another reasons"),
        ({"lost": True}, "manifest.json: another lost"),
        (
            {"instrument": {"image": "b"}},
            "manifest.json: another instrument; another instrument: instrument: image was b, is a",
        ),
    ],
)
def test_made_up_files_are_named(archived, made_up, found):
    assert sampling.run_again(archived(**made_up), trust=False) == found


def test_digest_of_a_removed_file_must_match_the_second_run(archived):
    folder = archived(FILES | {"tcp.csv": "t_s\n2\n"})
    (folder / "tcp.csv").unlink()
    assert sampling.run_again(folder, trust=False) == "tcp.csv: another file"
