"""Artifacts of a small campaign: verification accepts the original and refuses every forgery."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from losslab.campaign import plan, rerun
from losslab.campaign.results import FILES, HOST_FILE, MANIFEST_FILE, SELF, write_json
from losslab.errors import LosslabError
from losslab.tools.artifact import pack, remake, verify
from tests import sealed
from tests.e2e.conftest import AUTHOR

# These tests and those of a new study share the campaign.
pytestmark = pytest.mark.xdist_group("tiny campaign")
CUBIC = "cubic_loss0_symmetric_iperf3_rtt10_offloads-off_rate10_buffer20"
BBR = CUBIC.replace("cubic", "bbr")


@pytest.fixture(scope="module")
def archive(work, repository, tmp_path_factory):
    """Return the campaign's anonymous artifact, unpacked in another folder."""
    # `make test` installs the packages.
    pytest.importorskip("rocrate", reason="scripts/group.sh artifact")
    folder = tmp_path_factory.mktemp("elsewhere")
    packed = pack.pack(
        work, pack.campaign_file(repository / "config/tiny.yaml", repository),
        folder / "a.tar.gz", False, anonymous=True, processors=2, repository=repository,
    )  # fmt: skip
    subprocess.run(["tar", "-xzf", packed, "-C", folder], check=True)
    return folder / pack.NAME


@pytest.mark.nightly
def test_experiment_of_the_appendix_gives_the_same_bytes_and_verdict_twice(archive, tmp_path):
    """Run the script of E2 as an evaluator does, with this environment instead of .venv."""
    copy = tmp_path / pack.NAME
    shutil.copytree(archive, copy, symlinks=True)
    (copy / ".venv").symlink_to(Path(sys.executable).parents[1])
    for _ in range(2):
        done = subprocess.run(
            ["sh", "experiments/E2.sh"],
            cwd=copy, env=os.environ | {"PYTHONPATH": str(copy / "src")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count(" same bytes\n") == 1
        assert "INCONCLUSIVE    tiny/tiny-cubic" in done.stdout


def test_anonymous_archive_names_no_author(archive):
    pattern = re.compile("|".join(map(re.escape, AUTHOR)).encode(), re.IGNORECASE)
    files = [path for path in archive.rglob("*") if path.is_file()]
    named = [path.relative_to(archive) for path in files if pattern.search(path.read_bytes())]
    assert named == []
    assert "Ask Anonymous, Anonymous, Anonymous." in (archive / "README.md").read_text()
    agent = json.loads((archive / "ro-crate-metadata.json").read_text())["@graph"]
    assert {each["name"] for each in agent if each["@id"] == "#agent"} == {"Anonymous"}


def test_unchanged_artifact_is_verified(archive, repository):
    """Uses the real workflow and real guests."""
    verdict = verify.verify(archive, verify.Options(7, 2, processors=2, repository=repository))
    words = verify.statement(verdict)
    assert verdict.good, words
    assert len(verdict.drawn) == len(verdict.same) == 2
    assert re.search(r"raw files of \d+ of 1\d replicates, not run again", words)
    assert words.endswith("\nVERIFIED")
    subprocess.run(["sha256sum", "--check", "--quiet", verify.DIGESTS], cwd=archive, check=True)


class Forger:
    """Editor of an unpacked archive, who also computes the digests again."""

    def __init__(self, root):
        self.root, self.results = root, root / "results"

    def cell(self, name=CUBIC):
        return self.results / "cells/tiny" / name

    def substitute(self, path, pattern, text):
        """Replace the first match in a file."""
        old = (self.root / path).read_bytes()
        new = re.sub(pattern.encode(), text.encode(), old, count=1, flags=re.MULTILINE)
        assert new != old, f"{path} has no {pattern}"
        (self.root / path).write_bytes(new)

    def manifest(self, **changes):
        """Change the first replicate's manifest and all digests that depend on it."""
        path = self.cell() / "0" / MANIFEST_FILE
        write_json(json.loads(path.read_text()) | changes, path)
        self.seal()

    def raw(self, name, pattern, text):
        """Change a raw file of the first replicate and all digests that depend on it."""
        self.substitute(self.cell() / "0" / name, pattern, text)
        self.seal()

    def seal(self):
        """Write all digests of the cell again."""
        for folder in sorted(path.parent for path in self.cell().glob(f"*/{HOST_FILE}")):
            host = json.loads((folder / HOST_FILE).read_text())
            plain = {k: v for k, v in host.items() if k not in (FILES, SELF)}
            sealed.reseal(folder, **plain)
        content = json.loads((self.cell() / "cell.json").read_text())
        count = len(list(self.cell().glob(f"*/{HOST_FILE}")))
        sealed.cell(self.cell(), content["condition"], count, "tiny", content["block"])


def swap_cells(f):
    """Put BBR's replicates into the cell of CUBIC."""
    shutil.rmtree(f.cell())
    shutil.copytree(f.cell(BBR), f.cell())
    f.substitute(f.cell() / "cell.json", BBR, CUBIC)


def without_replicate(f):
    shutil.rmtree(max(path for path in f.cell().iterdir() if path.name.isdigit()))
    f.seal()


def smaller_campaign(f):
    """Drop a block from the recorded campaign."""
    path = f.results / "plan.json"
    content = json.loads(path.read_text())
    del content["config"]["studies"]["tiny"]["slow"]
    write_json(content, path)


REPLICATE, CELL = f"cells/tiny/{CUBIC}/0", f"cells/tiny/{CUBIC}"
# What is forged, how, whether SHA256SUMS is written again, and the stage and path of the finding.
FORGERIES = (
    ("a raw file", lambda f: f.substitute(f.cell() / "0/tcp.csv", "40001", "40002"), False,
     "files", f"results/{REPLICATE}/tcp.csv"),
    ("a missing file", lambda f: (f.results / "claims.csv").unlink(), False,
     "files", "results/claims.csv"),
    ("a listed additional file", lambda f: (f.results / "more.csv").write_text("x"), True,
     "cells", "results/more.csv"),
    ("swapped cells", swap_cells, True, "cells", CELL),
    ("a dropped replicate", without_replicate, True, "cells", CELL),
    ("another seed", lambda f: f.manifest(seed=7), True, "cells", CELL),
    ("a smaller campaign", smaller_campaign, True, "cells", "plan.json"),
    ("a table", lambda f: f.substitute(f.results / "tables/tiny/goodput.csv", r",9\.\d", ",8.8"),
     True, "tables", "tables/tiny/goodput.csv"),
    ("claims", lambda f: f.substitute(f.results / "claims.csv", "tiny-cubic", "tiny-bbr"), True,
     "tables", "claims.csv"),
    ("a raw file and its digests",
     lambda f: f.raw("sender.log", r'"cookie":\s*"\w', '"cookie": "0'), True,
     "rerun", REPLICATE),
    ("a valid replicate made invalid",
     lambda f: f.manifest(valid=False, reasons=["RTT must be 10 ms"]), True,
     "appendix", "APPENDIX.tex"),
)  # fmt: skip


@pytest.fixture
def forger(archive, tmp_path):
    """Return a forger of a copy of the archive."""
    shutil.copytree(archive, tmp_path / "copy", symlinks=True)
    return Forger(tmp_path / "copy")


@pytest.fixture
def without_guests(archive, monkeypatch):
    """Replace reruns and the workflow: they return the original results."""
    found = {}
    for path in archive.glob("results/cells/*/*/*/manifest.json"):
        manifest = json.loads(path.read_text())
        found[json.dumps(manifest["cell"], sort_keys=True), manifest["seed"]] = path.parent

    def run(condition, seed, out, *_, **__):
        shutil.copytree(found[json.dumps(condition.to_json(), sort_keys=True), seed], out)
        return json.loads((out / "manifest.json").read_text())

    def run_workflow(campaign, repository, folder, processors):
        for part in remake.MADE:
            source = archive / "results" / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / "results" / part)

    monkeypatch.setattr(rerun, "run", run)
    monkeypatch.setattr(rerun, "instrument", lambda *_: None)
    monkeypatch.setattr(remake, "run_workflow", run_workflow)


def everything(repository):
    return verify.Options(7, None, repository=repository)


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda each: each[0])
def test_forgery_is_found(forger, repository, without_guests, forgery):
    _, edit, listed, stage, path = forgery
    edit(forger)
    if listed:
        (forger.root / verify.DIGESTS).unlink()
        verify.write_digests(forger.root, verify.contents(forger.root))
    verdict = verify.verify(forger.root, everything(repository))
    assert (stage, path) in [(each.stage, each.path) for each in verdict.findings]
    assert verify.statement(verdict).endswith("\nNOT VERIFIED")


def test_changed_raw_file_without_its_digest_stops_the_workflow(forger, repository):
    """A new SHA256SUMS does not hide a file that differs from its manifest."""
    forger.substitute(forger.cell() / "0/tcp.csv", "40001", "40002")
    campaign = plan.read_campaign(forger.results, repository)
    options = verify.Options(7, 0, processors=2, repository=repository)
    [finding] = verify.verify_results(forger.results, campaign, options).findings
    assert "tcp.csv has changed since it was measured" in finding.what


def test_changed_results_are_not_packed(work, repository, tmp_path, monkeypatch, without_guests):
    shutil.copytree(work / "results", tmp_path / "results")
    Forger(tmp_path).substitute("results/claims.csv", r",9\.55\d*", ",9.65")
    for name, words in (
        ("tiny", r"verified before(.|\n)*claims.csv"),
        ("campaigns/quick", "must have the"),
    ):
        with pytest.raises(LosslabError, match=words):
            pack.pack(
                tmp_path, Path(f"config/{name}.yaml"), tmp_path / "a.tar.gz", False,
                repository=repository,
            )  # fmt: skip
