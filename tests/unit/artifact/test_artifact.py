"""Artifacts: what is drawn, what a sample is worth, what the description and the appendix say."""

import json
import math
from itertools import combinations
from pathlib import Path

import pytest

from losslab.artifact import appendix, crate, pack, results, verify
from losslab.errors import LosslabError

CLAIMS = """\
study,claim,sentence,source,published,measured,low,high,n,unit,tolerance,limit_is,limit_because,\
verdict,reason,unsupported,absent
loss,one,CUBIC loses | much.,slide 1,70,76.15,74.2,77.9,10,%,at least 70,theirs,,reproduced,,,
loss,two,BBR loses little.,slide 2,8,,NA,NA,0,%,at most 8,theirs,,not measured,,,
"""


@pytest.fixture
def campaign(tmp_path):
    """A campaign's folder as the workflow leaves it, with made-up files."""
    kernel = {"version": "6.12.1", "hash": "0123", "pinned": True}
    manifest = {"backend": "virtual", "instrument": {"kernel": kernel, "source": "s"}}
    rows = [{"valid": number != 2} for number in range(4)]
    cell = tmp_path / "results/cells/loss/cell"
    for number in range(4):
        (cell / str(number)).mkdir(parents=True)
        (cell / str(number) / "manifest.json").write_text(json.dumps(manifest))
        (cell / str(number) / "host.json").write_text('{"wall_s": 30.0, "format": "1.0"}')
        (cell / str(number) / "tcp.csv").write_text(f"t_s\n{number}\n")
    (cell / "cell.json").write_text(json.dumps({"replicates": rows}))
    (cell / ".losslab-killed").mkdir()
    (cell / ".losslab-killed" / "tcp.csv").write_text("half")
    (tmp_path / "results/claims.csv").write_text(CLAIMS)
    (tmp_path / "results/tables").mkdir()
    (tmp_path / "results/tables/origin.csv").write_text("part,what,cells\nmachine,A box,1\n")
    return tmp_path


def test_leftovers_are_no_results_and_invalid_replicates_are_not_drawn(campaign):
    found = results.files(campaign)
    assert not [path for path in found if "killed" in str(path)]
    assert len(found) == 4 * 3 + 3
    assert [Path(r.path).name for r in results.replicates(campaign)] == ["0", "1", "3"]


def test_every_changed_or_missing_file_is_found(campaign):
    results.write_digests(campaign, results.files(campaign), campaign / results.DIGESTS)
    digests = results.read_digests(campaign)
    assert verify.wrong_files(campaign, digests) == []
    changed = campaign / "results/cells/loss/cell/1/tcp.csv"
    changed.write_text(changed.read_text().replace("1", "2"))
    (campaign / "results/claims.csv").unlink()
    wrong = ["results/cells/loss/cell/1/tcp.csv", "results/claims.csv"]
    assert verify.wrong_files(campaign, digests) == wrong


def test_a_list_that_is_none_is_refused(campaign):
    with pytest.raises(LosslabError, match=r"must list the artifact's files"):
        results.read_digests(campaign)
    (campaign / results.DIGESTS).write_text("name\nx\ty\n")
    with pytest.raises(LosslabError, match=r"must list the artifact's files"):
        results.read_digests(campaign)


def test_the_sample_is_the_days_and_the_results(tmp_path):
    paths = [f"cell/{number}" for number in range(100)]
    digests = tmp_path / "digests.tsv"
    digests.write_text("a")
    first = verify.sample(paths, 20, "2026-01-31", digests)
    assert first == verify.sample(paths[::-1], 20, "2026-01-31", digests)
    assert len(set(first)) == 20
    assert first != verify.sample(paths, 20, "2026-02-01", digests)
    digests.write_text("b")
    assert first != verify.sample(paths, 20, "2026-01-31", digests)
    assert verify.sample(paths[:3], 20, "2026-01-31", digests) == paths[:3]


@pytest.mark.parametrize(("population", "wrong", "count"), [(6, 2, 3), (5, 1, 4), (4, 0, 2)])
def test_the_probability_is_that_of_counting_all_samples(population, wrong, count):
    samples = list(combinations(range(population), count))
    missed = sum(all(each >= wrong for each in drawn) for drawn in samples)
    assert math.isclose(verify.unnoticed(population, wrong, count), missed / len(samples))


def verdict(**more):
    return verify.Verdict("2026-01-31", 100, 400, same=[f"cell/{n}" for n in range(20)], **more)


def test_the_statement_says_what_it_is_worth():
    text = verify.statement(verdict())
    assert "20 of 20 replicates, drawn on 2026-01-31 from 100" in text
    assert "10 % wrong (10): probability 0.0951" in text
    assert text.endswith("\nVERIFIED")


def test_where_all_are_run_again_nothing_goes_unnoticed():
    every = verify.Verdict("2026-01-31", 8, 9, same=[f"cell/{n}" for n in range(8)])
    words = verify.statement(every)
    assert "1 % wrong (1): probability 0\n" in words
    assert "20 % wrong (2): probability 0\n" in words


@pytest.mark.parametrize(
    "more",
    [{"wrong_files": ["a"]}, {"different": {"cell/9": "tcp.csv: another file"}}],
)
def test_a_finding_is_no_verification(more):
    found = verdict(**more)
    assert not found.good
    assert verify.statement(found).endswith("\nNOT VERIFIED")
    assert "probability" not in verify.statement(found)


def test_nothing_run_is_no_verification():
    assert not verify.Verdict("2026-01-31", 3, 9, cannot={"cell/1": "no kernel"}).good


def test_the_appendix_is_made_of_the_data(campaign):
    text = appendix.text(campaign, list(results.replicates(campaign)), "config/quick.yaml", "all")
    assert "3 valid replicates of 1 cells" in text
    assert "measured on A box" in text
    assert "2 claims: 1 reproduced, 1 not measured" in text
    row = next(line for line in text.splitlines() if "loss/one" in line)
    assert row == (
        "| loss/one: CUBIC loses \\| much. | 70 | 76.15 [74.2, 77.9] % | 10 | reproduced | "
        "`losslab claims loss` |"
    )


def issues(folder, monkeypatch):
    """Validate; the JSON-LD context is the package's own instead of the network's."""
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


def test_the_crate_is_valid(campaign, root, monkeypatch):
    # `make test` installs it.
    pytest.importorskip("rocrate_validator", reason="scripts/group.sh artifact")
    (campaign / "Snakefile").write_text((root / "Snakefile").read_text())
    crate.describe(campaign, "config/quick.yaml", list(results.replicates(campaign)), "2026-01-31")
    assert issues(campaign, monkeypatch) == []
    described = campaign / "ro-crate-metadata.json"
    named = {each["@id"] for each in json.loads(described.read_text())["@graph"]}
    assert {"Snakefile", "results/claims.csv", "results/cells/", "#kernel-0123"} <= named
    # The validator sees what is missing.
    described.write_text(described.read_text().replace('"https://www.kernel.org"', '""'))
    (campaign / "results/claims.csv").unlink()
    assert issues(campaign, monkeypatch) != []


def test_a_campaign_is_a_file_of_the_repository(tmp_path, root):
    assert pack.campaign_file(root / "config/quick.yaml") == Path("config/quick.yaml")
    for path in (tmp_path / "none.yaml", root / "pyproject.toml"):
        with pytest.raises(LosslabError, match="must be a configuration file"):
            pack.campaign_file(path)


def test_nothing_measured_is_nothing_to_pack(tmp_path):
    with pytest.raises(LosslabError, match="found no valid replicate"):
        pack.pack(tmp_path, Path("config/quick.yaml"), tmp_path / "a.tar.gz", 1, False)
