"""RO-Crate of an archive, checked by its validator."""

import json
from pathlib import Path

import pytest

from losslab.artifact import crate
from tests.unit.artifact.conftest import RUNS


def issues(folder, monkeypatch):
    """Return the validator's findings; it reads the JSON-LD context from the package."""
    import rocrate
    from rocrate_validator import models, services
    from rocrate_validator.utils import http

    class Context:
        status_code, headers = 200, {"Content-Type": "application/ld+json"}
        text = (Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text()
        content, ok, url = text.encode(), True, "https://w3id.org/ro/crate/1.3/context"

        def json(self):
            return json.loads(self.text)

    monkeypatch.setattr(http.HttpRequester, "get", lambda *_, **__: Context(), raising=False)
    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier="ro-crate-1.3",
        requirement_severity=models.Severity.REQUIRED,
    )
    return [issue.message for issue in services.validate(settings).get_issues()]


def test_crate_is_valid_and_missing_files_are_found(campaign, root, monkeypatch):
    # `make test` installs the validator.
    pytest.importorskip("rocrate_validator", reason="scripts/group.sh artifact")
    (campaign / "Snakefile").write_text((root / "Snakefile").read_text())
    crate.describe(campaign, "config/quick.yaml", RUNS, "2026-01-31")
    assert issues(campaign, monkeypatch) == []
    described = campaign / "ro-crate-metadata.json"
    named = {each["@id"] for each in json.loads(described.read_text())["@graph"]}
    assert {"Snakefile", "results/claims.csv", "results/cells/", "#kernel-0123"} <= named
    # The validator finds missing entities and files.
    described.write_text(described.read_text().replace('"https://www.kernel.org"', '""'))
    (campaign / "results/claims.csv").unlink()
    assert issues(campaign, monkeypatch) != []
