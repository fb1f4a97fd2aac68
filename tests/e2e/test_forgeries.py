"""Artifacts of a small campaign: verification accepts the original and refuses every forgery."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from losslab.artifact import pack, results, sampling, signing, statement, verify
from losslab.campaign import made, recorded, rerun, verification
from losslab.errors import LosslabError
from tests import forgeries

# These tests and those of a new study share the campaign.
pytestmark = pytest.mark.xdist_group("tiny campaign")
SEED = 7


@pytest.fixture(scope="module")
def archive(work, repository, tmp_path_factory):
    """Return the campaign's artifact, unpacked in another folder."""
    # `make test` installs the packages.
    pytest.importorskip("rocrate", reason="scripts/group.sh artifact")
    folder = tmp_path_factory.mktemp("elsewhere")
    packed = pack.pack(
        work, pack.campaign_file(repository / "config/tiny.yaml", repository),
        folder / "a.tar.gz", 100, False, processors=2, repository=repository,
    )  # fmt: skip
    subprocess.run(["tar", "-xzf", packed, "-C", folder], check=True)
    return folder / pack.NAME


def test_experiment_of_the_appendix_gives_the_same_bytes_and_verdicts(archive):
    """Run the commands of E2 as an evaluator does, with this environment instead of .venv."""
    appendix = (archive / "APPENDIX.md").read_text()
    section = appendix.partition("#### E2: the study tiny")[2]
    commands = section.partition("```sh\n")[2].partition("```")[0]
    done = subprocess.run(
        ["sh", "-ec", commands.replace(".venv/bin/", f"{Path(sys.executable).parent}/")],
        cwd=archive, env=os.environ | {"PYTHONPATH": str(archive / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" same bytes\n") == 5
    claims = [
        f"again-tiny/{results.RESULTS}/claims.csv",
        f"{pack.NAME}/{results.RESULTS}/claims.csv",
    ]
    assert len({(archive.parent / path).read_bytes() for path in claims}) == 1


@pytest.fixture
def forger(archive, tmp_path):
    """Return a forger of a copy of the archive."""
    shutil.copytree(archive, tmp_path / "copy", symlinks=True)
    return forgeries.Forger(tmp_path / "copy")


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
        for part in verification.MADE:
            source = archive / "results" / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, folder / "results" / part)

    monkeypatch.setattr(rerun, "run", run)
    monkeypatch.setattr(rerun, "instrument", lambda *_: None)
    monkeypatch.setattr(verification, "run_workflow", run_workflow)


def wish(repository, count=None, **more):
    return verify.Options(SEED, count, repository=repository, **more)


def test_unchanged_artifact_is_verified(archive, repository):
    """Uses the real workflow and real guests."""
    verdict = verify.verify(archive, wish(repository, 2, processors=2))
    words = statement.statement(verdict)
    assert verdict.good, words
    assert len(verdict.drawn) == 2
    # No raw file has curl's exit status, so the invalid replicate is always run again.
    assert [path.split("/")[2] for path in verdict.suspect] == [forgeries.SLOW]
    assert set(verdict.same) == {*verdict.drawn, *verdict.suspect}
    assert {"goodput_mbit", "srtt_mean_ms", "queue_p95_packets"} <= verdict.audit.metrics
    assert "identity (--signer checks a signature)" in words
    assert re.search(r"bytes of the \d+ of 1\d replicates not run again", words)
    assert words.endswith("\nVERIFIED")


@pytest.mark.parametrize("forgery", forgeries.FORGERIES, ids=lambda each: each.words)
def test_forgery_is_found(forger, repository, without_guests, forgery):
    forgery.edit(forger)
    if forgery.lists_anew:
        forger.list_files()
    verdict = verify.verify(forger.root, wish(repository))
    assert not verdict.good
    found = [
        each
        for each in verdict.findings
        if each.stage == forgery.stage
        and re.fullmatch(forgery.path, each.path)
        and re.search(forgery.what, each.what)
    ]
    assert found, verdict.findings
    assert statement.statement(verdict).endswith("\nNOT VERIFIED")


def test_unchanged_artifact_is_verified_without_guests(forger, repository, without_guests):
    """Digests that are computed again are accepted: other tests find the edit itself."""
    forger.list_files()
    for name in forger.cell().parent.iterdir():
        forger.seal(0, name.name)
    forger.list_files()
    verdict = verify.verify(forger.root, wish(repository))
    assert verdict.good, verdict.findings
    assert len(verdict.same) == len(verdict.population)


def test_sample_may_miss_a_forgery_that_only_reruns_find(forger, repository, without_guests):
    """A sampled verification therefore states the probability of missing a forgery."""
    forger.substitute(forger.replicate() / "sender.log", r'"cookie":\s*"\w', '"cookie": "0')
    forger.seal()
    forger.list_files()
    paths = [
        str(path.parent.relative_to(forger.results))
        for path in forger.results.glob("cells/*/*/*/manifest.json")
    ]
    forged = str(forger.replicate().relative_to(forger.results))
    drawn = {forged in sampling.sample(paths, 2, seed): seed for seed in range(300)}
    for is_drawn in (False, True):
        verdict = verify.verify(
            forger.root, verify.Options(drawn[is_drawn], 2, repository=repository)
        )
        assert verdict.good != is_drawn


def test_artifact_without_raw_files_needs_all_replicates(forger, repository, without_guests):
    for name in list(results.read_digests(forger.root)):
        if results.is_raw(results.Path(name)):
            (forger.root / name).unlink()
    some = verify.verify(forger.root, wish(repository, 5))
    assert [(each.stage, each.path) for each in some.findings] == [("files", "results/cells")]
    everything = verify.verify(forger.root, wish(repository))
    assert everything.good, everything.findings


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen: openssh-client")
class TestSignature:
    @pytest.fixture
    def keys(self, tmp_path):
        for name in ("author", "forger"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", tmp_path / name],
                check=True,
            )
        public = (tmp_path / "author.pub").read_text()
        (tmp_path / "allowed").write_text(f"author@example.org {public}")
        return tmp_path

    def findings(self, forger, repository, keys):
        verdict = verify.verify(forger.root, wish(repository, 1, allowed_signers=keys / "allowed"))
        return verdict, [each.stage for each in verdict.findings]

    def test_signature_of_an_allowed_signer_is_accepted(
        self, forger, repository, keys, without_guests
    ):
        signing.sign(forger.root, keys / "author")
        verdict, found = self.findings(forger, repository, keys)
        assert (verdict.signer, found) == ("author@example.org", [])
        assert "Signed by author@example.org" in statement.statement(verdict)

    def test_missing_or_other_signature_is_refused(self, forger, repository, keys, without_guests):
        assert self.findings(forger, repository, keys)[1] == ["signature"]
        signing.sign(forger.root, keys / "forger")
        assert self.findings(forger, repository, keys)[1] == ["signature"]

    def test_signature_of_another_list_is_refused(self, forger, repository, keys, without_guests):
        signing.sign(forger.root, keys / "author")
        forger.substitute("results/claims.csv", "tiny-cubic", "tiny-bbr")
        forger.list_files()
        assert self.findings(forger, repository, keys)[1] == ["signature"]

    def test_signature_for_another_purpose_is_refused(self, forger, repository, keys, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(signing, "NAMESPACE", "file")
            signing.sign(forger.root, keys / "author")
        assert self.findings(forger, repository, keys)[1] == ["signature"]

    def test_missing_ssh_keygen_is_an_error_with_its_package(self, forger, keys, monkeypatch):
        monkeypatch.setattr(signing, "PROGRAM", "no-such-program")
        with pytest.raises(LosslabError, match="must be installed") as error:
            signing.sign(forger.root, keys / "author")
        assert "signing" in error.value.hint


class TestInPlace:
    """`losslab verify` of results outside an archive."""

    def found(self, forger, repository):
        campaign = recorded.read(forger.results, repository)
        return verification.verify_results(forger.results, campaign, repository, 1)

    def test_workflow_measures_damaged_cells_again(self, forger, repository, without_guests):
        (forger.replicate() / "tcp.csv").write_bytes(b"")
        (forger.replicate(0, forgeries.BBR) / "queue.csv").unlink()
        found = self.found(forger, repository)
        assert {(each.stage, each.what) for each in found.findings} == {
            ("damage", "replicate 0: queue.csv is missing"),
            ("damage", "replicate 0: tcp.csv has changed since it was measured"),
        }
        words = verification.statement(found)
        assert "measures only the damaged replicates again" in words
        assert words.endswith("\nNOT VERIFIED")

    def test_workflow_makes_an_edited_table_again(self, forger, repository, without_guests):
        forger.substitute("results/tables/tiny_goodput.csv", r",9\.\d", ",8.8")
        found = self.found(forger, repository)
        assert [each.path for each in found.findings] == ["tables/tiny_goodput.csv"]
        assert "Remove the other files" in verification.statement(found)

    def test_changed_results_are_not_packed(self, work, repository, tmp_path, without_guests):
        shutil.copytree(work / "results", tmp_path / "results")
        forger = forgeries.Forger(tmp_path)
        forger.substitute("results/claims.csv", "tiny-cubic", "tiny-bbr")
        with pytest.raises(LosslabError, match=r"verified before.*\n.*claims.csv"):
            pack.pack(
                tmp_path, pack.Path("config/tiny.yaml"), tmp_path / "a.tar.gz", 1, False,
                repository=repository,
            )  # fmt: skip
        with pytest.raises(LosslabError, match="must have the campaign"):
            pack.pack(
                tmp_path, pack.Path("config/quick.yaml"), tmp_path / "a.tar.gz", 1, False,
                repository=repository,
            )  # fmt: skip

    def test_files_that_the_workflow_recorded_are_not_made_again(
        self, work, repository, tmp_path, monkeypatch
    ):
        pytest.importorskip("rocrate", reason="scripts/group.sh artifact")

        def packed():
            lines = []
            pack.pack(
                tmp_path, pack.Path("config/tiny.yaml"), tmp_path / "a.tar.gz", 1, False,
                repository=repository, say=lines.append,
            )  # fmt: skip
            return lines

        class MadeAgainError(Exception):
            """Marks that packing makes tables and report again."""

        def run_workflow(*_):
            raise MadeAgainError

        monkeypatch.setattr(verification, "run_workflow", run_workflow)
        shutil.copytree(work / "results", tmp_path / "results")
        with pytest.raises(MadeAgainError):
            packed()
        (tmp_path / ".snakemake").mkdir()
        shutil.copy(work / made.FILE, tmp_path / made.FILE)
        assert (
            "tables, figures and report are as the workflow made them from these cells" in packed()
        )
        forger = forgeries.Forger(tmp_path)
        page = tmp_path / "results/report/report.html"
        for edit in (
            lambda: forger.substitute("results/claims.csv", "tiny-cubic", "tiny-bbr"),
            lambda: (tmp_path / "results/tables/more.csv").write_text("a\n"),
            lambda: page.unlink(),
        ):
            edit()
            with pytest.raises(MadeAgainError):
                packed()
            shutil.rmtree(tmp_path / "results")
            shutil.copytree(work / "results", tmp_path / "results")
        # Raw files are always read again.
        (forger.replicate() / "tcp.csv").write_bytes(b"")
        with pytest.raises(LosslabError, match=r"tcp.csv has changed since it was measured"):
            packed()


def test_artifact_page_lists_every_forgery(root):
    page = (root / "docs/how-to/artifact.md").read_text()
    assert forgeries.table() in page
