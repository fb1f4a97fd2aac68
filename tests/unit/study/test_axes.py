"""Axes: each is declared once, and every list of axes follows."""

import argparse
import dataclasses

import jsonschema
import pytest

from bench import _lists as lists
from losslab.campaign import tables
from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import axes, design, dictionary, schemas
from losslab.study.condition import AXES, Condition, replicate_seed
from tests.unit.study import recorded

PLAIN = Condition(algorithm="cubic")
PLAIN_NAME, PLAIN_SEED = PLAIN.slug(), replicate_seed(PLAIN, 3)
OF_STUDIES = [name for name, its in AXES.items() if not its.of_campaign]


def options(words=("--algorithm", "cubic")):
    parser = argparse.ArgumentParser()
    dictionary.add_options(parser)
    return parser.parse_args(words)


def test_names_and_seeds_of_recorded_cells_do_not_change(root):
    """After a change of a study's design, record the names and seeds as recorded.py describes."""
    found = recorded.rows(root)
    assert {key: found.get(key) for key in recorded.read()} == recorded.read()
    assert len(recorded.read()) > 50


@pytest.mark.parametrize("path", lists.FILES)
def test_lists_of_axes_for_r_and_editors_are_up_to_date(root, path):
    assert (root / path).read_text() == lists.FILES[path](), "python -m bench.readme --tables"


def test_command_line_has_every_axis_with_its_default():
    asked = vars(options())
    assert asked == PLAIN.to_json()
    with pytest.raises(SystemExit):
        options([])


@pytest.mark.parametrize("name", AXES)
def test_schema_and_check_accept_the_same_values(name):
    its = AXES[name]
    valid = jsonschema.Draft202012Validator(schemas.definitions()["values"][name]).is_valid
    values = ["", "none", "cubic", "Strange word", *its.choices]
    if its.kind != "str":
        span = its.span
        values = [f(x) for f in (int, float) for x in (span.minimum, span.maximum, 1, -1, 1e9)]
        values += [(span.minimum + span.maximum) / 2]
        values = [v for v in values if its.kind == "float" or float(v).is_integer()]
        # The schema has no value between 0 and the smallest one; the check refuses them.
        values = [v for v in values if not 0 < v < its.smallest]
    anything = (
        "algorithm", "competitor", "scheme", "sender_command", "receiver_command", "bring", "env",
        "competitor_sender_command", "competitor_receiver_command", "sysctl",
    )  # fmt: skip
    assert {valid(v) for v in values} == ({True} if name in anything else {True, False})
    for value in values:
        assert valid(value) == (its.problems(its.typed(value)) == []), value


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("[0, 100)", [0, 99.9], [-0.1, 100]), ("(0, 3600]", [0.1, 3600], [0, 3600.1])],
)
def test_intervals_are_written_in_mathematical_notation(text, inside, outside):
    span = axes.Span.of(text)
    assert all(value in span for value in inside)
    assert not any(value in span for value in outside)
    with pytest.raises(ValueError, match="must be written as"):
        axes.Span.of(f"{text}!")


def test_study_may_set_every_axis_except_durations(root):
    study = read_yaml(root / "studies/loss/study.yaml")
    study["blocks"]["main"] = {name: PLAIN.to_json()[name] for name in OF_STUDIES}
    design.check_schema(study, "study", "loss.yaml")
    study["blocks"]["main"]["duration_s"] = 3
    with pytest.raises(LosslabError, match="'duration_s' was unexpected"):
        design.check_schema(study, "study", "loss.yaml")


@pytest.fixture
def wider(monkeypatch):
    """Return a condition with one more axis, `wobble_ms`, which is only declared."""
    declaration = axes.axis(
        0.0, help="how uneven the delay is", span="[0, 100]", unit="ms", named="wobble{}"
    )
    kind = dataclasses.make_dataclass(
        "Wider", [("wobble_ms", "float", declaration)], bases=(Condition,), frozen=True
    )
    monkeypatch.setitem(AXES, "wobble_ms", axes.declared(kind)["wobble_ms"])
    return kind


def test_new_axis_is_one_declaration(wider, root):
    plain, uneven = wider("cubic", wobble_ms=0), wider("cubic", wobble_ms=2)
    # Names and seeds of cells without it do not change.
    assert (plain.slug(), replicate_seed(plain, 3)) == (PLAIN_NAME, PLAIN_SEED)
    assert uneven.slug() == f"{PLAIN_NAME}_wobble2"
    assert replicate_seed(uneven, 3) != PLAIN_SEED
    assert uneven.to_json()["wobble_ms"] == 2.0
    assert wider("cubic", wobble_ms=200).problems() == [
        "wobble_ms must be in [0, 100], found 200"
    ]  # fmt: skip
    assert options(["--algorithm", "cubic", "--wobble-ms", "2"]).wobble_ms == 2.0
    made = schemas.schema.__wrapped__("study")
    study = read_yaml(root / "studies/loss/study.yaml")
    study["blocks"]["main"]["wobble_ms"] = [1, 2]
    assert jsonschema.Draft202012Validator(made).is_valid(study)
    study["blocks"]["main"]["wobble_ms"] = [1, 200]
    assert not jsonschema.Draft202012Validator(made).is_valid(study)
    for name in ("claims", "published"):
        assert "wobble_ms" in schemas.schema.__wrapped__(name)["$defs"]["axis"]["enum"]
    row = "| `wobble_ms` | ms | [0, 100] | `0` | how uneven the delay is |\n"
    assert row in dictionary.axes_table() + "\n"
    assert '"wobble_ms"' in tables.r_columns()
