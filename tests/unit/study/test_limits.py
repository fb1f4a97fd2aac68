"""The history of the claims' limits, which freezes them."""

import json
import shutil

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study import files, limits

LOOSENED = "calibration/never-faster-than-the-link"


@pytest.fixture
def copy(root, tmp_path):
    """Return a copy of the claims with their history."""
    for folder in ("config/studies", "report/claims"):
        shutil.copytree(root / folder, tmp_path / folder)
    return tmp_path


def differing(copy):
    present = limits.present(copy, files.study_names(copy))
    return limits.problems(limits.read_history(limits.path_of(copy)), present)


def test_every_limit_is_the_last_of_its_history(root):
    assert differing(root) == []


def test_every_claim_of_the_history_exists(root):
    present = limits.present(root, files.study_names(root))
    history = limits.read_history(limits.path_of(root))
    assert {(row["study"], row["claim"]) for row in history} == set(present)


def test_no_limit_is_looser_than_its_first_version_with_the_same_number(root):
    """Limits that were made looser after results had been seen are set back."""
    versions = {}
    for row in limits.read_history(limits.path_of(root)):
        versions.setdefault((row["study"], row["claim"]), []).append(row["limit"].split())
    looser = []
    for name, found in versions.items():
        first, last = found[0], found[-1]
        old, new = (float(limit[2 if limit[0] == "at" else 1]) for limit in (first, last))
        if first[:2] == last[:2] == ["at", "least"]:
            looser += [name] * (new < old)
        elif first[0] == last[0]:
            looser += [name] * (new > old)
    # The frame in transmission, which the first version had forgotten.
    assert looser == [("calibration", "never-faster-than-the-link")]


def test_a_changed_limit_is_refused_until_it_is_recorded_with_a_reason(copy):
    path = files.claims(copy, "loss")
    before, claim, after = path.read_text().partition("  - id: cubic-2\n")
    assert "within: 21.4\n" in after
    path.write_text(before + claim + after.replace("within: 21.4\n", "within: 50\n", 1))
    assert differing(copy) == [
        "loss, cubic-2 has the limit within 50 of 175.19, but its last recorded limit is within "
        "21.4 of 175.19"
    ]
    with pytest.raises(LosslabError, match="found none for loss/cubic-2\n"):
        limits.freeze(copy, None, "yes")
    [row] = limits.freeze(copy, 'Someone said "more".', "yes")
    assert row["limit"] == "within 50 of 175.19"
    assert row["results_seen"] == "yes"
    assert differing(copy) == []
    assert limits.read_history(limits.path_of(copy))[-1] == row


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ({"at_most": 1.2}, "at most 1.2"),
        ({"at_least": -8.5, "published": 9}, "at least -8.5"),
        ({"within": 13.57, "published": 235.51}, "within 13.57 of 235.51"),
    ],
)
def test_a_limit_is_written_with_the_number_it_is_compared_with(limit, text):
    assert limits.limit_text(limit) == text


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("loss\tcubic-2\t2020-01-01\tat most 1\tyes\t\t\tSo.", "must not be before 2026"),
        ("loss\tcubic-2\t2026-12-01\tat most 1\tmaybe\t\t\tSo.", "maybe"),
        ("loss\tcubic-2\t2026-12-01\tabout 1\tyes\t\t\tSo.", "about 1"),
        ("loss\tcubic-2\t2026-12-01\tat most 1\tyes\t\t\t", "why"),
    ],
)
def test_an_invalid_version_is_refused(copy, row, match):
    path = limits.path_of(copy)
    path.write_text(f"{path.read_text()}{row}\n")
    with pytest.raises(UsageError, match=match):
        limits.read_history(path)


def test_the_history_of_a_claim_is_printed(capsys):
    assert cli.main(["claims", "--history", LOOSENED]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == LOOSENED
    assert lines[1].startswith("  2026-11-21 a38cead  at most 100 (results seen: unknown")
    assert "at most 101 (results seen: yes" in lines[5]
    assert "  at most 100.02 (results seen: yes" in lines[-2]


def test_the_history_of_a_study_is_json(capsys):
    assert cli.main(["claims", "--history", "map", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["study"] for row in rows} == {"map"}


def test_an_unknown_claim_has_no_history(capsys):
    assert cli.main(["claims", "--history", "nothing"]) == 2
    assert "found nothing" in capsys.readouterr().err
