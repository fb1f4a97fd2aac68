"""`losslab exercise`: drawn conditions, predictions before commands, and grading by bytes."""

import csv
import html
import json
import re
import shlex
import shutil

import pytest

from losslab import cli, sweeps
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import fingerprint
from losslab.study.condition import Condition
from losslab.tools.exercise.exercise import LESSONS, Exercise
from tests import sealed

LOSS = Exercise("loss", "17")
VALUES = {"cubic": 3.0, "bbr": 20.0}


def measured(folder, condition, seed):
    """Write a run whose bytes and goodput depend on condition and seed."""
    manifest = {
        "cell": condition.to_json(), "seed": seed, "instrument": {}, "valid": True, "reasons": [],
        "summary": {"goodput_mbit": VALUES[condition.algorithm]},
        "fingerprint": fingerprint.of(condition, VIRTUAL, GUEST).to_json(),
    }  # fmt: skip
    sealed.replicate(folder, manifest, {"tcp.csv": f"{condition.slug()},{seed}\n"})
    return manifest


@pytest.fixture
def teacher(monkeypatch):
    """Replace measuring; return the list of the conditions that the teacher's machine measured."""
    found = []

    def run(condition, seed, folder, *_, **__):
        found.append(condition)
        return measured(folder, condition, seed)

    monkeypatch.setattr(sweeps.replicate, "run", run)
    monkeypatch.setattr(sweeps, "instrument", lambda condition: None)
    monkeypatch.setattr(sweeps, "at_first_use", lambda condition: None)
    return found


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """Return the folder with the submission of a student who measured the drawn conditions."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["exercise", "start", "loss", "--student", "17", "--predict", "3.5,18"]) == 0
    for run, condition in LOSS.conditions.items():
        measured(tmp_path / "loss-17" / run, condition, LOSS.seed)
    assert cli.main(["exercise", "submit", "loss-17", "--because", "=1+1"]) == 0
    folder = tmp_path / "submissions"
    folder.mkdir()
    shutil.copy("loss-17/loss-17.json", folder)
    return folder


def grade(folder, *words):
    status = cli.main(["exercise", "grade", str(folder), "--out", "grades.csv", *words])
    with open("grades.csv", newline="") as file:
        return status, list(csv.DictReader(file))


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_lesson_is_possible_for_every_student_and_varies(lesson):
    drawn = [Exercise(lesson, str(student)) for student in range(1, 41)]
    assert all(isinstance(c, Condition) for each in drawn for c in each.conditions.values())
    assert len({each.conditions[run] for each in drawn for run in each.conditions}) > 60
    its = LESSONS[lesson]["drawn"]
    for name, (low, high) in its.items():
        assert {low <= each.drawn[name] <= high for each in drawn} == {True}
    assert Exercise(lesson, "7").drawn == Exercise(lesson, "7").drawn


def test_every_lesson_is_a_section_of_the_page(root):
    page = (root / "docs/how-to/teach.md").read_text()
    assert [lesson for lesson, its in LESSONS.items() if f"\n## {its['title']}\n" not in page] == []


def test_handout_has_questions_and_commands_and_no_solutions(root, tmp_path, capsys):
    page, out = root / "docs/how-to/teach.md", tmp_path / "handout.html"
    assert cli.main(["exercise", "handout", str(page), "--out", str(out)]) == 0
    text = html.unescape(out.read_text())
    for lesson, its in LESSONS.items():
        assert f"<h2>{its['title']}</h2>" in text
        assert f"losslab exercise start {lesson} --student NUMBER" in text
    assert text.count("My prediction") == len(LESSONS)
    assert "--loss-percent 0,1,5 --rate-mbit 20" in text and "square-root law" in text
    # A number of each table, and words of an explanation.
    for solution in ("0.4667", "5.197", "86.55", "0.6888", "187.3", "0.9592", "timeout"):
        assert solution in page.read_text() and solution not in text
    assert re.search(r"<script|https?:", text) is None


def test_prediction_is_recorded_before_the_commands_are_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["exercise", "start", "loss", "--student", f"{10**12}", "--out", "my loss"]
    monkeypatch.setattr("builtins.input", lambda question: "x" if "bbr" in question else "3")
    assert cli.main(words) == 2
    assert "losslab measure" not in capsys.readouterr().out
    assert not (tmp_path / "my loss").exists()
    assert cli.main([*words, "--predict", "3"]) == 2
    assert "2 numbers (cubic, bbr), found 1" in capsys.readouterr().err
    assert cli.main([*words, "--predict", "3,18"]) == 0
    printed = [shlex.split(line) for line in capsys.readouterr().out.splitlines()
               if "  losslab " in line]  # fmt: skip
    assert len(printed) == 3
    for line in printed:
        cli.parser().parse_args(line[1:])
    # It cannot be changed.
    assert cli.main([*words, "--predict", "4,19"]) == 2
    assert cli.main(words) == 0
    assert "cubic 3, bbr 18" in capsys.readouterr().out


def test_own_runs_have_the_key_s_bytes(submitted, teacher):
    status, rows = grade(submitted)
    assert status == 0
    assert [(r["run"], r["predicted"], r["measured"], r["same_bytes"]) for r in rows] == [
        ("cubic", "3.5", "3.0", "TRUE"), ("bbr", "18.0", "20.0", "TRUE"),
    ]  # fmt: skip
    assert {row["because"] for row in rows} == {"'=1+1"}
    assert sorted(teacher, key=str) == sorted(LOSS.conditions.values(), key=str)


def edited(folder, change):
    file = folder / "loss-17.json"
    data = json.loads(file.read_text())
    change(data)
    sealed.write_json(data, file)


def copied(data):
    data["student"] = 18


def without_runs(data):
    data["runs"], data["because"] = None, "\ud800"


def other_digest(data):
    data["runs"]["bbr"] |= {"digest": "0" * 64, "value": 18}


@pytest.mark.parametrize("change", [copied, without_runs, other_digest])
def test_invented_runs_are_found_and_their_values_ignored(submitted, teacher, change, capsys):
    edited(submitted, change)
    status, rows = grade(submitted)
    assert status == 1
    bbr = next(row for row in rows if row["run"] == "bbr")
    assert (bbr["measured"], bbr["same_bytes"]) == ("20.0", "FALSE")
    assert bbr["problem"] in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{", '{"lesson": "loss", "student": true}',
                                  '{"lesson": "loss", "student": 5, "predicted": {"cubic": 1}}',
                                  '{"lesson": "none", "student": 5}',
                                  '{"lesson": "loss", "student": 5, "predicted": {"cubic": 1,'
                                  f' "bbr": {10**400}}}}}'])  # fmt: skip
def test_files_that_are_no_submission_are_rows_with_a_problem(submitted, teacher, text):
    (submitted / "a.json").write_text(text)
    shutil.copy(submitted / "loss-17.json", submitted / "zcopy.json")
    status, rows = grade(submitted)
    assert status == 1
    problems = {row["file"]: row["problem"] for row in rows}
    assert problems["a.json"]
    assert "same student and lesson as loss-17.json" in problems["zcopy.json"]
    # T4: which of the two is the student's own, the teacher must say; both are graded.
    assert problems["loss-17.json"] == "the same student and lesson as zcopy.json"
    for name in ("loss-17.json", "zcopy.json"):
        its = [row for row in rows if row["file"] == name]
        assert [row["same_bytes"] for row in its] == ["TRUE", "TRUE"]


def test_missing_changed_or_other_runs_are_not_submitted(submitted, capsys):
    assert cli.main(["exercise", "submit", "loss-18"]) == 2
    assert "losslab exercise start LESSON" in capsys.readouterr().err
    run = submitted.parent / "loss-17" / "bbr"
    (run / "tcp.csv").write_text("better\n")
    assert cli.main(["exercise", "submit", "loss-17"]) == 1
    assert "damaged" in capsys.readouterr().err
    shutil.rmtree(run)
    assert cli.main(["exercise", "submit", "loss-17"]) == 2
    assert "losslab measure" in capsys.readouterr().err
    measured(run, Exercise("loss", "18").conditions["bbr"], LOSS.seed)
    assert cli.main(["exercise", "submit", "loss-17"]) == 2
    assert "another run\n  -> remove the folder" in capsys.readouterr().err


def test_b7_copied_file_names_the_student_whose_runs_it_has(submitted, teacher, capsys):
    """A copy was said to be of another version of losslab."""
    shutil.copy(submitted / "loss-17.json", submitted / "own.json")
    edited(submitted, copied)
    status, rows = grade(submitted)
    assert status == 1
    problems = {row["problem"] for row in rows if row["file"] == "loss-17.json"}
    assert problems == {"the digest is that of a run of loss-17, not of loss-18"}
    assert {row["problem"] for row in rows if row["file"] == "own.json"} == {""}


def test_b8_students_are_named_as_their_university_does(tmp_path, monkeypatch, capsys):
    """Leading zeros were dropped, and letters refused."""
    monkeypatch.chdir(tmp_path)
    names = ["17", "017", "s1234567", "ann.lee@uni"]
    assert len({Exercise("loss", name).seed for name in names}) == len(names)
    for name in names:
        words = ["exercise", "start", "loss", "--student", name, "--predict", "3,18"]
        assert cli.main(words) == 0
        assert (tmp_path / f"loss-{name}" / "exercise.json").is_file()
    for name in ("../x", "", "a b", "-1", "=1"):
        assert cli.main(["exercise", "start", "loss", f"--student={name}"]) == 2
