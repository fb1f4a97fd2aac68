"""Drawing replicates and running them again, without a guest; statement of the outcome."""

import json
import shutil
from types import SimpleNamespace

import pytest

from losslab.campaign import rerun
from losslab_artifact import verify
from losslab_artifact.remake import Finding, Remade
from tests import sealed
from tests.unit.study.test_condition import CONDITION

MANIFEST = {
    "format": "1.2", "cell": CONDITION.to_json(), "seed": 1, "backend": "virtual",
    "instrument": {"image": {"hash": "a"}}, "valid": True, "reasons": [],
    "summary": {"goodput_mbit": 1},
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
    first = verify.sample(paths, 20, 7)
    assert first == verify.sample(paths[::-1], 20, 7)
    assert len(set(first)) == 20
    assert first != verify.sample(paths, 20, 8)
    assert verify.sample(paths[:3], 20, 7) == paths[:3]
    assert verify.sample(paths, None, 7) == sorted(paths)


def test_same_bytes_agree(archived):
    folder = archived()
    assert verify.run_again(folder, trust=False) == ""


@pytest.mark.parametrize(
    ("made_up", "found"),
    [
        ({"files": FILES | {"tcp.csv": "t_s\n2\n"}}, "tcp.csv: line 2: '2', '1'"),
        ({"files": {"tcp.csv": FILES["tcp.csv"]}}, "sender.log: only in"),
        ({"valid": False, "reasons": ["made up"]}, "manifest.json: line"),
        ({"lost": True}, "manifest.json: line"),
        ({"instrument": {"image": {"hash": "b"}}}, "instrument: image: hash was b, is a"),
    ],
)
def test_made_up_files_are_named(archived, made_up, found):
    assert found in verify.run_again(archived(**made_up), trust=False)


def verdict(**more):
    every = [f"cell/{n}" for n in range(100)]
    facts = {
        "files": 400, "remade": Remade(files=50), "replicates": 110, "population": every,
        "drawn": every[:20], "same": every[:20],
    } | more  # fmt: skip
    return verify.Verdict(7, 20, **facts)


def test_statement_says_what_was_verified_and_what_was_not():
    lines = verify.statement(verdict()).splitlines()
    assert lines[0] == "400 files have the digests of SHA256SUMS."
    assert lines[1].startswith("50 tables, figures and pages")
    assert "20 of 20 replicates, drawn from 100 with --sample 20 --seed 7" in lines[2]
    assert "  raw files of 90 of 110 replicates, not run again" in lines
    assert lines[-1] == "VERIFIED"


def test_finding_prevents_verification():
    found = verdict(findings=[Finding("files", "a", "missing")])
    assert "  files: a: missing" in verify.statement(found).splitlines()
    assert verify.statement(found).endswith("\nNOT VERIFIED")


def test_verification_needs_at_least_one_rerun():
    assert not verdict(same=[], cannot={"cell/1": "no kernel"}).good
