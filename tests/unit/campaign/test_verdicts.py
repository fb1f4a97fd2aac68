"""Claims are printed, compared with what was recorded, and recorded anew only with a reason."""

import csv

import pytest

from losslab import cli
from losslab.campaign import verdicts
from losslab.errors import LosslabError

COLUMNS = (
    "study", "claim", "sentence", "source", "published", "measured", "low", "high", "n", "unit",
    "tolerance", "limit_is", "limit_because", "verdict", "reason", "unsupported", "absent",
)  # fmt: skip


def row(claim, verdict="reproduced", **more):
    found = dict.fromkeys(COLUMNS, "NA") | {
        "study": "loss", "claim": claim, "sentence": f"It is {claim}.", "measured": "4.5678",
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


@pytest.fixture
def recorded(tmp_path):
    return tmp_path / "verdicts" / "quick.tsv"


def test_the_table_has_number_interval_n_unit_limit_and_reason(claims, capsys):
    path = claims(
        row("fast"),
        row("slow", "differs", low="4.41", high="4.77", unit="times", limit_is="ours",
            limit_because="Half of it.", published="6.4", reason="The hosts' buffers."),
        row("gone", "not measured", measured="NA", n="0", absent="no cell"),
    )  # fmt: skip
    assert cli.main(["claims", "--claims", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "DIFFERS         loss/slow: 4.568 [4.41, 4.77] times, n = 10; at least 4 "
        "(ours: Half of it.); published 6.4"
    )
    assert lines[2].strip() == "reason: The hosts' buffers."
    assert "NOT MEASURED    loss/gone: no number; at least 4" in lines
    assert lines[-1] == "1 differs, 1 not measured, 1 reproduced"


def test_of_one_study(claims, capsys):
    path = claims(row("fast"), row("calm", study="cloud"))
    assert cli.main(["claims", "cloud", "--claims", str(path)]) == 0
    assert "loss" not in capsys.readouterr().out


def test_what_was_recorded_passes(claims, recorded):
    path = claims(row("fast"), row("slow", "differs", reason="So."))
    assert verdicts.record(path, recorded, None) == [
        "loss, fast: reproduced", "loss, slow: differs",
    ]  # fmt: skip
    verdicts.check(path, recorded)
    assert verdicts.record(path, recorded, None) == []


def test_a_changed_verdict_is_refused_until_somebody_says_why(claims, recorded):
    verdicts.record(claims(row("fast"), row("calm")), recorded, None)
    path = claims(row("fast", "undecided"), row("calm"))
    with pytest.raises(LosslabError, match=r"loss, fast was reproduced and is undecided \(4\.568"):
        verdicts.check(path, recorded)
    with pytest.raises(LosslabError, match="must say why, found loss, fast: reproduced -> und"):
        verdicts.record(path, recorded, None)
    assert verdicts.record(path, recorded, "n is 10 now") == ["loss, fast: reproduced -> undecided"]
    verdicts.check(path, recorded)
    assert verdicts.read_recorded(recorded) == {
        ("loss", "fast"): verdicts.Recorded("undecided", "n is 10 now"),
        ("loss", "calm"): verdicts.Recorded("reproduced", verdicts.FIRST),
    }


def test_a_claim_that_differs_without_a_reason_is_refused(claims, recorded):
    verdicts.record(claims(row("slow", "differs", reason="So.")), recorded, None)
    path = claims(row("slow", "differs", unsupported="no reason is given"))
    with pytest.raises(LosslabError, match="no reason is given"):
        verdicts.record(path, recorded, "as it is")
    with pytest.raises(LosslabError, match=r"slow differs .*: no reason is given"):
        verdicts.check(path, recorded)


def test_claims_that_come_and_go_are_refused(claims, recorded):
    verdicts.record(claims(row("fast"), row("other", study="map")), recorded, None)
    with pytest.raises(LosslabError) as failure:
        verdicts.check(claims(row("calm")), recorded)
    words = str(failure.value)
    assert "loss, calm is reproduced" in words and "never recorded" in words
    assert "loss, fast was recorded, and there is no such claim" in words
    # A study that this campaign does not have says nothing.
    assert "map" not in words


@pytest.mark.parametrize(
    "line", ["loss\tfast\treproduced", "loss\tfast\tholds\twhy", "loss\tfast\tdiffers\tso\tmore"]
)
def test_a_record_that_is_not_whole_names_its_line(tmp_path, line):
    path = tmp_path / "quick.tsv"
    path.write_text(f"study\tclaim\tverdict\twhy\n{line}\n")
    with pytest.raises(LosslabError, match=r"quick\.tsv, line 2"):
        verdicts.read_recorded(path)


def test_nothing_judged_yet(tmp_path):
    with pytest.raises(LosslabError, match="make claims"):
        verdicts.check(tmp_path / "claims.csv", tmp_path / "quick.tsv")
