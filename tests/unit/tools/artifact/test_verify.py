"""Verification: digests, options, the sample and its reruns without a guest, and the statement."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest

from losslab import cli
from losslab.campaign import rerun
from losslab.errors import LosslabError
from losslab.tools.artifact import verify
from losslab.tools.artifact.remake import Finding, Remade
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


@pytest.mark.parametrize(
    ("made_up", "found"),
    [
        ({}, ""),
        ({"files": FILES | {"tcp.csv": "t_s\n2\n"}}, "tcp.csv: line 2: '2', '1'"),
        ({"files": {"tcp.csv": FILES["tcp.csv"]}}, "sender.log: only in"),
        ({"valid": False, "reasons": ["made up"]}, "manifest.json: line"),
        ({"lost": True}, "manifest.json: line"),
        ({"instrument": {"image": {"hash": "b"}}}, "instrument: image: hash was b, is a"),
    ],
)
def test_only_made_up_files_are_named(archived, made_up, found):
    said = verify.run_again(archived(**made_up), trust=False)
    assert found in said
    assert bool(said) == bool(made_up)


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
    assert lines[2].startswith("The appendix and the experiments made again")
    assert "20 of 20 replicates, drawn from 100 with --sample 20 --seed 7" in lines[3]
    assert "  raw files of 90 of 110 replicates, not run again" in lines
    assert lines[-1] == "VERIFIED"
    found = verdict(findings=[Finding("files", "a", "missing")])
    assert "  files: a: missing" in verify.statement(found).splitlines()
    assert verify.statement(found).endswith("\nNOT VERIFIED")
    assert not verdict(same=[], cannot={"cell/1": "no kernel"}).good


def test_integrity_finds_changed_missing_and_extra_files(campaign):
    digests = verify.read_digests(campaign)
    assert len(digests) == 6
    for name in (".venv/bin", "src/losslab.egg-info", "src/losslab/__pycache__"):
        (campaign / name).mkdir(parents=True)
        (campaign / name / "file").write_text("made by the set-up")
    assert verify.wrong_files(campaign, digests) == {}
    for name in ("results/.venv", "src/other.egg-info"):
        (campaign / name).mkdir(parents=True)
        (campaign / name / "file").write_text("added")
    changed = campaign / "results/cells/loss/cell/1/tcp.csv"
    changed.write_text(changed.read_text().replace("1", "2"))
    (campaign / "results/claims.csv").unlink()
    (campaign / "results/.more").write_text("more")
    (campaign / "results/more").symlink_to("/etc")
    os.mkfifo(campaign / "results/fifo")  # opening it would block
    assert verify.wrong_files(campaign, digests) == {
        "results/.more": "not listed",
        "results/.venv/file": "not listed",
        "results/cells/loss/cell/1/tcp.csv": "changed",
        "results/claims.csv": "missing",
        "results/fifo": "not a regular file",
        "results/more": "not a regular file",
        "src/other.egg-info/file": "not listed",
    }


@pytest.mark.parametrize(
    "names",
    [["../x"], ["/etc/passwd"], ["a/../b"], ["a//b"], ["./a"], ["a", "a"], ["."]],
)
def test_malformed_file_list_is_refused(tmp_path, names):
    with pytest.raises(LosslabError, match=r"the artifact's files, found: No such file"):
        verify.read_digests(tmp_path)
    rows = "".join(f"{'0' * 64}  {name}\n" for name in names)
    for text in ("name\n", rows):
        (tmp_path / verify.DIGESTS).write_text(text)
        with pytest.raises(LosslabError, match="must list each file once"):
            verify.read_digests(tmp_path)


def test_seed_of_the_sample_is_drawn_at_the_verification(monkeypatch, tmp_path):
    """C2: the author of an archive could try days and lists until nothing forged is drawn."""
    seen = []

    def record(_, options):
        seen.append(options.seed)
        return verify.Verdict(options.seed, 20)

    monkeypatch.setattr(verify, "verify", record)
    for words in ([], [], ["--seed", "7"]):
        cli.main(["artifact", "verify", str(tmp_path), *words])
    assert len({*seen}) == 3
    assert seen[2] == 7


@pytest.mark.parametrize(
    "option",
    [
        *(f"--seed={seed}" for seed in ("2026-01-31", "-1", "1.5", "")),
        *(f"--sample={count}" for count in ("-3", "1.5", "some", "\u0661", "")),
        "--processors=0",
    ],
)
def test_malformed_number_is_refused(capsys, option):
    assert cli.main(["artifact", "verify", option]) == 2
    assert option.strip("-").partition("=")[0] in capsys.readouterr().err


def test_folder_without_results_is_a_usage_error(tmp_path, capsys):
    assert cli.main(["verify", str(tmp_path / "none")]) == 2
    assert "must be a campaign's results folder" in capsys.readouterr().err
    assert cli.main(["verify", str(tmp_path)]) == 2
    assert "must name the campaign" in capsys.readouterr().err
    assert cli.main(["artifact", "verify", str(tmp_path)]) == 2
