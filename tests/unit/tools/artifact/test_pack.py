"""Folders and campaigns that cannot be packed, and the RO-Crate, checked by its validator."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.tools.artifact import commands, pack


def test_campaign_to_pack_must_be_a_file_of_the_repository_and_measured(tmp_path, root):
    assert pack.campaign_file(root / "config/campaigns/quick.yaml") == Path(
        "config/campaigns/quick.yaml"
    )
    (tmp_path / "own.yaml").write_text("studies: {}\n")
    for path in (tmp_path / "own.yaml", root / "config/metrics.tsv", tmp_path / "none.yaml"):
        with pytest.raises(UsageError, match=r"own\.yaml|must be YAML|does not exist"):
            pack.campaign_file(path)
    with pytest.raises(LosslabError, match="must record the campaign"):
        pack.pack(tmp_path, Path("config/campaigns/quick.yaml"), tmp_path / "a.tar.gz", False)


def test_default_campaign_can_be_packed():
    parser = argparse.ArgumentParser()
    commands.add_commands(parser.add_subparsers())
    options = parser.parse_args(["artifact", "pack"])
    assert pack.campaign_file(options.campaign) == Path("config/campaigns/quick.yaml")


def test_missing_package_is_named_before_the_verification(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "rocrate.rocrate", None)
    monkeypatch.setattr(pack, "require_committed", lambda *_: None)
    recorded = SimpleNamespace(config={}, software={}, cells=[])
    for name in ("read_campaign", "load_campaign"):
        monkeypatch.setattr(pack.plan, name, lambda *_: recorded)
    with pytest.raises(LosslabError, match="package rocrate must be installed"):
        pack.pack(tmp_path, Path("config/campaigns/quick.yaml"), tmp_path / "a.tar.gz", False)


def test_all_uncommitted_files_are_named_with_what_to_do(tmp_path):
    def git(*words):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    git("init")
    for name in ("kept", "changed"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "first")
    pack.require_committed(tmp_path)
    (tmp_path / ".git/info/exclude").write_text("/build/")
    (tmp_path / "build").mkdir()
    (tmp_path / "build/tram.down").write_text("1")
    pack.require_committed(tmp_path, [tmp_path / "kept", Path("/elsewhere")])
    with pytest.raises(LosslabError, match="git ignores build/") as error:
        pack.require_committed(tmp_path, [tmp_path / "build/tram.down"])
    (tmp_path / "changed").write_text("2")
    for name in ("cubic", "my-run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text("{}")
    with pytest.raises(LosslabError) as error:
        pack.require_committed(tmp_path)
    assert "found 2 new and 1 changed: cubic/, my-run/, changed" in error.value.message
    assert "mv cubic/ my-run/ runs/" in error.value.hint
    assert "commit or undo the changes of changed" in error.value.hint


PROFILE, WORKFLOW = "workflow-run-crate", "ComputationalWorkflow"


def issues(folder, monkeypatch, profile):
    """Return the validator's findings; it reads the JSON-LD context from the package."""
    import rocrate
    from rocrate_validator import models, services
    from rocrate_validator.utils import http

    # The package has the context of RO-Crate 1.3, which gives workflows another IRI than 1.1.
    context = json.loads((Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text())
    context["@context"] |= {WORKFLOW: f"https://bioschemas.org/{WORKFLOW}"}

    class Context:
        status_code, headers = 200, {"Content-Type": "application/ld+json"}
        text = json.dumps(context)
        content, ok, url = text.encode(), True, "https://w3id.org/ro/crate/1.1/context"

        def json(self):
            return context

    monkeypatch.setattr(http.HttpRequester, "get", lambda *_, **__: Context(), raising=False)
    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier=profile,
        requirement_severity=models.Severity.REQUIRED,
    )
    return [issue.message for issue in services.validate(settings).get_issues()]


@pytest.fixture
def described(campaign, root, runs):
    """Return the folder of an archive with its description, and the entities by name."""
    # `make test` installs the validator.
    pytest.importorskip("rocrate_validator", reason="scripts/group.sh artifact")
    for name in ("Snakefile", "config/campaigns/quick.yaml", "studies/loss/study.yaml"):
        (campaign / name).parent.mkdir(parents=True, exist_ok=True)
        (campaign / name).write_text((root / name).read_text())
    pack.describe(campaign, "config/campaigns/quick.yaml", runs, "2026-01-31", "Ada")
    graph = json.loads((campaign / "ro-crate-metadata.json").read_text())["@graph"]
    return campaign, {each["@id"]: each for each in graph}


@pytest.mark.parametrize("profile", ["ro-crate-1.1", PROFILE])
def test_crate_is_valid(described, monkeypatch, profile):
    assert issues(described[0], monkeypatch, profile) == []


def test_missing_files_and_entities_are_found(described, monkeypatch):
    folder, _ = described
    path = folder / "ro-crate-metadata.json"
    path.write_text(path.read_text().replace('"CreateAction"', '"Thing"'))
    (folder / "results/claims.csv").unlink()
    assert len(issues(folder, monkeypatch, PROFILE)) > 1


def test_action_says_who_measured_what_when_and_with_what(described):
    names = {"Snakefile", "config/campaigns/quick.yaml", "results/claims.csv", "results/cells/"}
    assert names | {"#kernel-0123"} <= set(described[1])
    action = described[1]["#measure"]
    assert described[1][action["agent"]["@id"]]["name"] == "Ada"
    # The last of three runs began two minutes after the first, and took 30 s.
    assert action["startTime"] == "2026-01-31T12:00:00+00:00"
    assert action["endTime"] == "2026-01-31T12:02:30+00:00"
    identifiers = {
        key: {each["@id"] for each in action[key]} for key in ("object", "instrument", "result")
    }
    assert identifiers["object"] == {"config/campaigns/quick.yaml", "studies/"}
    assert identifiers["instrument"] == {"Snakefile", "#kernel-0123"}
    assert "results/claims.csv" in identifiers["result"]


def test_claim_that_is_not_measured_is_refused_before_the_verification(tmp_path, monkeypatch):
    """C7: an author's own campaign was verified for 44 s first."""
    recorded = SimpleNamespace(config={"studies": {}}, software={}, cells=[])
    for name in ("read_campaign", "load_campaign"):
        monkeypatch.setattr(pack.plan, name, lambda *_: recorded)
    monkeypatch.setattr(pack, "require_committed", lambda *_: None)
    monkeypatch.setattr(pack, "_crates", lambda: None)

    def begun(*_, **__):
        raise AssertionError("the verification began")

    monkeypatch.setattr(pack.verify, "verify_results", begun)
    with pytest.raises(LosslabError, match="must be one that the campaign measures") as error:
        pack.pack(tmp_path, Path("config/campaigns/quick.yaml"), tmp_path / "a.tar.gz", False)
    assert "--claims FILE" in error.value.hint
