"""Printed claims, and their comparison with recorded verdicts."""

import csv
import re

import pytest

from losslab import cli
from losslab.campaign import verdicts
from losslab.campaign.verdicts import explained, read_recorded, read_verdicts
from losslab.errors import LosslabError
from losslab.reading import UsageError

COLUMNS = (
    "study", "claim", "sentence", "source", "evidence", "published", "measured", "low", "high",
    "n", "unit", "tolerance", "limit_is", "limit_because", "verdict", "reason", "unsupported",
    "absent", "cause",
)  # fmt: skip


def row(claim, verdict="reproduced", **more):
    found = dict.fromkeys(COLUMNS, "NA") | {
        "study": "loss", "claim": claim, "sentence": f"It is {claim}.", "measured": "4.5678",
        "evidence": "order",
        "n": "10", "tolerance": "at least 4", "verdict": verdict, "unsupported": "", "reason": "",
    }  # fmt: skip
    return found | more


def write(path, *rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def claims(tmp_path):
    return lambda *rows: write(tmp_path / "claims.csv", *rows)


@pytest.fixture(autouse=True)
def folder(campaign_folder):
    """Record in a campaign's own folder."""
    return campaign_folder


def test_claims_table_has_number_interval_n_unit_limit_and_reason(claims, capsys):
    path = claims(
        row("fast"),
        row("slow", "not reproduced", low="4.41", high="4.77", unit="times", limit_is="ours",
            limit_because="Half of it.", published="6.4", reason="The hosts' buffers.",
            evidence="not fitted"),
        row("gone", "not measured", measured="NA", n="0", absent="no cell"),
    )  # fmt: skip
    assert cli.main(["claims", "--claims", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert cli.main(["claims", "--claims", str(path), "loss/slwo"]) == 2
    assert "found no loss/slwo; did you mean loss/slow" in capsys.readouterr().err
    assert lines[0] == (
        "NOT REPRODUCED  loss/slow (not fitted): 4.568 [4.41, 4.77] times, n = 10; at least 4 "
        "(ours: Half of it.); published 6.4"
    )
    assert lines[2].strip() == "reason: The hosts' buffers."
    assert "NOT MEASURED    loss/gone (order): no result; at least 4" in lines
    assert lines[-2:] == [
        "not fitted      1 not reproduced",
        "order           1 reproduced, 1 not measured",
    ]


def test_changed_verdict_stops_its_campaign_until_it_is_recorded(claims, folder):
    verdicts.record(claims(row("fast"), row("calm")), "full")
    path = claims(row("fast", "inconclusive"), row("calm"))
    with pytest.raises(
        LosslabError, match=r"fast was reproduced and is inconclusive \(4\.568"
    ) as e:
        verdicts.check(path, "full")
    assert "losslab claims --record full" in e.value.hint
    assert verdicts.record(path, "full") == ["loss, fast: reproduced -> inconclusive"]
    verdicts.check(path, "full")
    assert verdicts.record(path, "full") == []
    # The record is the table itself, so that git shows which numbers changed.
    assert (folder / "recorded/full/claims.csv").read_bytes() == path.read_bytes()
    assert verdicts.read_recorded("other") == {}


def test_causes_are_recorded_with_verdicts(claims):
    verdicts.record(claims(row("slow", "inconclusive", cause="scatter")), "full")
    path = claims(row("slow", "inconclusive", cause="NA"))
    with pytest.raises(LosslabError, match="the cause of loss, slow was scatter and is none"):
        verdicts.check(path, "full")
    changes = ["loss, slow: inconclusive (scatter) -> inconclusive"]
    assert verdicts.record(path, "full") == changes
    verdicts.check(path, "full")


def test_causes_count_only_if_they_hold_with_both_families_of_seeds(claims, capsys):
    names = ("both", "first", "once", "none")
    rows = [row(name, "inconclusive", cause="scatter", evidence="not fitted") for name in names]
    verdicts.record(claims(*rows), "quick")
    rows[1] |= {"cause": "NA"}
    rows[2] |= {"cause": "NA", "verdict": "reproduced"}
    verdicts.record(claims(*rows[:3]), "quick-fresh")
    assert explained() == {("loss", "both"): "scatter", ("loss", "once"): "scatter"}
    path = claims(*(row(n, "inconclusive", cause="scatter", evidence="not fitted") for n in names))
    assert cli.main(["claims", "--claims", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "not fitted      4 inconclusive; runs show the cause of 2 with both recorded families of "
        "seeds (2 more with these seeds only)"
    )


def test_unreproduced_claim_without_a_reason_is_refused(claims):
    verdicts.record(claims(row("slow", "not reproduced", reason="So.")), "full")
    path = claims(row("slow", "not reproduced", unsupported="no reason is given"))
    with pytest.raises(LosslabError, match="no reason is given"):
        verdicts.record(path, "full")
    with pytest.raises(LosslabError, match=r"slow is not reproduced .*: no reason is given"):
        verdicts.check(path, "full")


def test_added_and_removed_claims_are_refused(claims):
    verdicts.record(claims(row("fast"), row("other", study="map")), "full")
    with pytest.raises(LosslabError) as failure:
        verdicts.check(claims(row("calm")), "full")
    words = str(failure.value)
    assert "loss, calm is reproduced" in words and "has no recorded verdict" in words
    assert "loss, fast has a recorded verdict, but does not exist" in words
    # A study outside this campaign is not compared.
    assert "map" not in words
    with pytest.raises(UsageError, match="must have the verdicts of fresh, found no such file"):
        verdicts.check(claims(row("calm")), "fresh")
    with pytest.raises(UsageError, match="must be that of a folder"):
        verdicts.record(claims(row("calm")), "../fresh")


@pytest.mark.parametrize(
    "lines",
    [
        ["loss,fast,reproduced"],
        ["loss,fast,holds,none"],
        ["loss,fast,reproduced,run"],
        ["loss,slow,reproduced,none", "loss,slow,reproduced,none"],
    ],
)
def test_invalid_record_of_verdicts_names_its_line(tmp_path, lines):
    path = tmp_path / "claims.csv"
    path.write_text("\n".join(["study,claim,verdict,cause", *lines]))
    with pytest.raises(LosslabError, match=rf"claims\.csv, line {len(lines) + 1}"):
        read_verdicts(path)


@pytest.mark.parametrize("campaign", ["full", "quick", "quick-fresh"])
def test_recorded_claims_are_readable(root, campaign):
    assert len(read_verdicts(root / "recorded" / campaign / "claims.csv")) > 90


def test_verdicts_of_r_and_of_the_glossary_are_those_of_the_command(root):
    code = (root / "analysis/R/verdicts.R").read_text()
    listed = re.search(r"verdict_signs <- c\((.*?)\n\)", code, re.DOTALL)[1]
    assert sorted(re.findall(r'([a-z][a-z ]+[a-z])"? = ', listed)) == sorted(verdicts.ORDER)
    page = (root / "docs/reference/glossary.md").read_text()
    section = page.partition("## Verdict\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^- \*([a-z ]+)\*:", section, re.MULTILINE)) == sorted(verdicts.ORDER)


@pytest.mark.parametrize(
    ("absent", "status"), [("skipped: cell a without a power", 0), ("cell a without a power", 1)]
)
def test_claim_without_its_public_trace_keeps_its_recorded_verdict(claims, absent, status):
    verdicts.record(claims(row("fast")), "full")
    path = claims(row("fast", "not measured", measured="", n="0", absent=absent))
    found = verdicts.problems(verdicts.read_claims(path), read_recorded("full"))
    assert len(found) == status
