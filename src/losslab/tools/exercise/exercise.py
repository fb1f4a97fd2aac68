"""`losslab exercise`: exercises for a class, with conditions drawn from each student's number.

`start` records a prediction, and only then prints the commands. `submit` writes a small file with
the prediction and the digests of the runs' files. `grade` measures the same conditions on the
teacher's machine: the same condition and seed have the same bytes. The measured values of the sheet
are the teacher's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from losslab import cellspec, sweeps
from losslab.campaign import rerun
from losslab.campaign.results import Replicate, digest_of, replace_json
from losslab.campaign.tables import write_csv
from losslab.errors import LosslabError
from losslab.lock import own_folder
from losslab.reading import (
    LARGEST,
    UsageError,
    number,
    out_file,
    out_folder,
    read_json,
    read_yaml,
    shown,
)
from losslab.study import metrics
from losslab.study.axes import derived_seed, short
from losslab.study.condition import Condition
from losslab.ui import lessons, webpage

LESSONS: dict[str, dict[str, Any]] = read_yaml(Path(__file__).with_name("lessons.yaml"))
# A student as their university names them: `017`, `s1234567` or `ann.lee@uni` are all different.
STUDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
WHOLE = re.compile(r"[1-9][0-9]{0,17}")
RECORD = "exercise.json"
# Of a file that a student submits.
SUBMISSION_BYTES = 2**16
COLUMNS = (
    "file", "student", "lesson", "run", "predicted", "measured", "metric", "predicted_by_measured",
    "same_bytes", "problem", "because",
)  # fmt: skip
# Rows of the handout that students fill in.
ANSWERS = ("My prediction, and why", "Measured", "What my prediction left out")
# Beginnings of a cell that a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class Exercise:
    """A lesson's exercise for a student."""

    lesson: str
    student: str

    @property
    def name(self) -> str:
        """Name of its folder and file."""
        return f"{self.lesson}-{self.student}"

    @property
    def metric(self) -> str:
        """Metric that is predicted."""
        return str(LESSONS[self.lesson]["metric"])

    def _drawn(self, what: str) -> int:
        whole = WHOLE.fullmatch(self.student)
        digest = hashlib.sha256(self.student.encode()).digest()
        number_ = int(self.student) if whole else int.from_bytes(digest[:8], "big")
        return derived_seed(number_, f"exercise {self.lesson} {what}")

    @property
    def seed(self) -> int:
        """Seed of its runs."""
        return self._drawn("seed")

    @property
    def drawn(self) -> dict[str, int]:
        """Axes that are drawn from the student's number."""
        ranges = LESSONS[self.lesson]["drawn"].items()
        return {name: low + self._drawn(name) % (high - low + 1) for name, (low, high) in ranges}

    @cached_property
    def conditions(self) -> dict[str, Condition]:
        """Conditions of its runs, by name."""
        common = LESSONS[self.lesson]["same"] | self.drawn
        runs = LESSONS[self.lesson]["runs"].items()
        return {name: cellspec.condition(common | own) for name, own in runs}

    def commands(self, folder: Path) -> dict[str, str]:
        """Return the command of each run."""
        return {
            run: cellspec.measure_command(condition, self.seed, str(folder / run))
            for run, condition in self.conditions.items()
        }


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `exercise`."""
    group = commands.add_parser("exercise")
    kinds = group.add_subparsers(required=True, metavar="WHAT")
    start = kinds.add_parser("start", help="print the task, record the prediction")
    submit = kinds.add_parser("submit", help="write the file for the teacher")
    sheet = kinds.add_parser("handout", help="write the lessons of a page without their solutions")
    grade = kinds.add_parser("grade", help="check the files of a class, and write a sheet")
    start.add_argument("lesson", choices=[*LESSONS], metavar="LESSON", help=", ".join(LESSONS))
    start.add_argument(
        "--student", type=student, required=True, metavar="STUDENT",
        help="the student's number or name: letters, digits, and . _ @ -",
    )  # fmt: skip
    start.add_argument(
        "--predict", metavar="VALUES",
        help="a number for each run, joined by commas (default: ask for them)",
    )  # fmt: skip
    start.add_argument("--out", type=out_folder, help="folder (default: LESSON-STUDENT)")
    start.set_defaults(run=_start)
    submit.add_argument("folder", type=Path, help="the exercise's folder")
    submit.add_argument("--because", default="", metavar="TEXT", help="explanation in a sentence")
    submit.set_defaults(run=_submit)
    sheet.add_argument("page", type=Path, metavar="PAGE", help="page such as teach.md, in Markdown")
    sheet.add_argument("--out", type=out_file, required=True, help="page for students, HTML")
    sheet.set_defaults(run=_handout)
    grade.add_argument("folder", type=Path, help="folder with the students' files")
    grade.add_argument("--out", type=out_file, required=True, help="sheet, a CSV file")
    cellspec.cores_option(grade, "runs")
    grade.set_defaults(run=_grade)


def student(text: str) -> str:
    """Return a student's number or name; UsageError if it is none."""
    if not STUDENT.fullmatch(text):
        raise UsageError(
            "a student must be at most 64 letters, digits or . _ @ -, and begin with a letter or "
            f"digit, found {shown(text)!r}"
        )
    return text


def _handout(options: argparse.Namespace) -> int:
    options.out.write_text(handout(lessons.read(options.page)))
    print(options.out)
    return 0


def handout(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the page for students: each lesson's question and commands, and space for answers."""
    exercises = {its["title"]: name for name, its in LESSONS.items()}
    parts = ["<p>Write down a number and its reason before you measure.</p>"]
    for lesson in found:
        parts += [f"<h2>{escape(lesson['title'])}</h2>", f"<p>{lesson['predict']}</p>"]
        parts += [f"<pre>{escape(command)}</pre>" for command in lesson["commands"]]
        parts.append(webpage.table((), [(title, "&nbsp;" * 60) for title in ANSWERS]))
        if lesson["title"] in exercises:
            name = exercises[lesson["title"]]
            parts.append(
                f"<p>Homework: <code>losslab exercise start {name} --student NUMBER</code>, with "
                "your own number or name.</p>"
            )
    return webpage.page("Congestion control: predict, measure, explain", parts)


def _start(options: argparse.Namespace) -> int:
    exercise = Exercise(options.lesson, options.student)
    folder = options.out or out_folder(exercise.name)
    record = folder / RECORD
    lesson = LESSONS[exercise.lesson]
    print(f"{lesson['title']}, student {exercise.student}\n\n{lesson['question']}")
    for run, condition in exercise.conditions.items():
        axes = {**condition.to_json()}
        names = [*exercise.drawn, *lesson["same"], *lesson["runs"][run]]
        print(f"  {run}: " + ", ".join(f"{name} {short(axes[name])}" for name in names))
    if record.exists():
        if options.predict or _recorded(record)[0] != exercise:
            raise UsageError(
                f"{folder} must be new for another prediction, found an exercise that has begun"
            )
        predicted = _recorded(record)[1]
    else:
        predicted = _predictions(exercise, options.predict)
        folder.mkdir(parents=True, exist_ok=True)
        content = {"lesson": exercise.lesson, "student": exercise.student}
        replace_json({**content, "predicted": predicted}, record)
    said = ", ".join(f"{run} {value:g}" for run, value in predicted.items())
    print(f"\nPrediction, recorded in {record}: {said}\n\nMeasure, compare, explain:")
    print("\n".join(f"  {line}" for line in exercise.commands(folder).values()))
    print(f"  losslab exercise submit {shlex.quote(str(folder))} --because 'why they differ'")
    return 0


def _predictions(exercise: Exercise, given: str | None) -> dict[str, float]:
    """Read a prediction for each run, by default from standard input."""
    runs = [*exercise.conditions]
    try:
        texts = given.split(",") if given else [input(f"Predict {run}: ") for run in runs]
    except EOFError:
        texts = []
    if len(texts) != len(runs):
        raise UsageError(
            f"a prediction must be {len(runs)} numbers ({', '.join(runs)}), found {len(texts)}",
            hint="answer the questions, or write --predict with commas",
        )
    values = (number(text.strip(), "a prediction") for text in texts)
    return dict(zip(runs, values, strict=True))


def _recorded(file: Path) -> tuple[Exercise, dict[str, float], dict[str, Any]]:
    """Read an exercise's record or a student's file; UsageError if it is none."""
    content = read_json(file, SUBMISSION_BYTES)
    data = content if isinstance(content, dict) else {}
    lesson, name, predicted = (data.get(k) for k in ("lesson", "student", "predicted"))
    if not isinstance(lesson, str) or lesson not in LESSONS or type(name) not in (int, str):
        raise UsageError(f"{file} must be of a lesson and a student, found {shown(lesson)}")
    exercise = Exercise(lesson, student(str(name)))
    if not isinstance(predicted, dict) or predicted.keys() != exercise.conditions.keys():
        raise UsageError(f"{file} must have a prediction for each run of {lesson}, found others")
    if wrong := [v for v in predicted.values() if type(v) not in (int, float) or abs(v) > LARGEST]:
        raise UsageError(f"{file} must have numbers as predictions, found {shown(wrong[0])}")
    return exercise, {run: float(predicted[run]) for run in exercise.conditions}, data


def _solution(folder: Path, exercise: Exercise, run: str) -> dict[str, Any]:
    """Return digest, value and version of a run; LosslabError if it is another run or changed."""
    hint = f"measure it: {exercise.commands(folder.parent)[run]}"
    if not folder.is_dir():
        raise UsageError(f"{folder} must be the run {run}, found no folder", hint=hint)
    manifest = Replicate(folder).checked().manifest
    wanted = exercise.conditions[run].to_json()
    if (manifest["cell"], manifest["seed"]) != (wanted, exercise.seed):
        raise UsageError(
            f"{folder} must be of the drawn condition, found another run",
            hint=f"remove the folder, and {hint}",
        )
    rerun.require_result(manifest, f"the run in {folder}")
    files = {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in rerun.names(folder)}
    return {
        "digest": digest_of(files),
        "value": metrics.value(manifest["summary"], exercise.metric) if manifest["valid"] else None,
        "version": digest_of(manifest["fingerprint"]),
    }


def _submit(options: argparse.Namespace) -> int:
    folder: Path = options.folder
    if not (folder / RECORD).exists():
        raise UsageError(
            f"{folder} must be the folder of an exercise that was started, found no {RECORD} in it",
            hint="`losslab exercise start LESSON --student N` makes it",
        )
    exercise, predicted, data = _recorded(folder / RECORD)
    runs = {run: _solution(folder / run, exercise, run) for run in predicted}
    for run, solution in runs.items():
        print(f"{run}: predicted {predicted[run]:g}, {exercise.metric} {_text(solution['value'])}")
    commands = exercise.commands(folder)
    file = folder / f"{exercise.name}.json"
    replace_json({**data, "commands": commands, "runs": runs, "because": options.because}, file)
    print(f"\nHand in {file}")
    return 0


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def solutions(wanted: Sequence[Exercise], cores: int) -> dict[str, dict[str, Any]]:
    """Measure the runs of exercises; return the digest and the value of each."""
    runs = {f"{each.name}/{run}": (each, run) for each in wanted for run in each.conditions}
    conditions = {name: (each.conditions[run], each.seed) for name, (each, run) in runs.items()}
    with own_folder(Path(tempfile.gettempdir()), "losslab-exercise-") as work:
        its = {work / name: condition for name, condition in conditions.items()}
        sweeps.measure_runs(its, cores, "runs")
        return {name: _solution(work / name, *each) for name, each in runs.items()}


def _grade(options: argparse.Namespace) -> int:
    files = sorted(options.folder.glob("*.json"))
    if not files:
        raise UsageError(f"{options.folder} must have the students' .json files, found none")
    rows: list[dict[str, Any]] = []
    submitted: dict[Exercise, list[tuple[Path, dict[str, float], dict[str, Any]]]] = {}
    for file in files:
        try:
            exercise, predicted, data = _recorded(file)
        except LosslabError as error:
            rows.append({"file": file.name, "problem": error.message})
        else:
            submitted.setdefault(exercise, []).append((file, predicted, data))
    right = solutions([*submitted], options.cores)
    owners = {right[f"{each.name}/{run}"]["digest"]: each for each in submitted
              for run in each.conditions}  # fmt: skip
    for exercise, submissions in submitted.items():
        for file, predicted, data in submissions:
            # Which of several is the student's own, the teacher must say: all are graded.
            others = ", ".join(other.name for other, *_ in submissions if other != file)
            same = f"the same student and lesson as {others}" if others else ""
            for row in _graded(exercise, file.name, predicted, data, right, owners):
                row["problem"] = "; ".join(filter(None, (same, row["problem"])))
                rows.append(row)
    plain = [{name: _cell(value) for name, value in row.items()} for row in rows]
    write_csv(options.out, COLUMNS, plain)
    wrong = [row for row in rows if row["problem"]]
    for row in wrong:
        name = " ".join(map(shown, filter(None, (row["file"], row.get("run")))))
        print(f"losslab: {name}: {row['problem']}", file=sys.stderr)
    print(f"{len(rows)} rows, {len(wrong)} with a problem: {options.out}")
    return 1 if wrong else 0


def _graded(
    exercise: Exercise, file: str, predicted: Mapping[str, float], data: Mapping[str, Any],
    right: Mapping[str, Mapping[str, Any]], owners: Mapping[str, Exercise],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yield the sheet's row of each run."""
    runs = data.get("runs")
    for run, prediction in predicted.items():
        correct = right[f"{exercise.name}/{run}"]
        submitted = runs.get(run) if isinstance(runs, dict) else {}
        submitted = submitted if isinstance(submitted, dict) else {}
        digest = submitted.get("digest")
        same = digest == correct["digest"]
        problem = "" if same else "the run has other bytes than its condition's"
        owner = owners.get(digest) if isinstance(digest, str) else None
        if owner and not same:
            problem = f"the digest is that of a run of {owner.name}, not of {exercise.name}"
        elif not same and submitted.get("version") != correct["version"]:
            problem = "measured with another version of losslab, kernel or image, or not at all"
        value = correct["value"]
        yield {
            "file": file, "student": exercise.student, "lesson": exercise.lesson, "run": run,
            "predicted": prediction, "measured": value, "metric": exercise.metric,
            "predicted_by_measured": f"{prediction / value:.3g}" if value else "",
            "same_bytes": "TRUE" if same else "FALSE", "problem": problem,
            "because": data.get("because", ""),
        }  # fmt: skip


def _cell(value: Any) -> Any:
    """Return a value of the sheet; text that a spreadsheet would compute is quoted."""
    if isinstance(value, int | float) or value is None:
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    text = text.encode(errors="replace").decode()  # JSON and file names may have lone surrogates
    return f"'{text}" if text.startswith(FORMULA) else text
