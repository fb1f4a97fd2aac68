"""Reading YAML with libyaml; ambiguous documents are refused."""

import time
from pathlib import Path

import pytest
import yaml

from losslab.errors import LosslabError
from losslab.reading import UsageError, documents
from losslab.study import schemas

ROOT = Path(__file__).resolve().parents[3]
FILES = [
    path
    for folder in ("config", "report/claims", "workflow/schemas")
    for path in sorted((ROOT / folder).rglob("*.yaml"))
]


def test_pinned_pyyaml_uses_libyaml():
    assert yaml.__with_libyaml__
    assert documents.YAML_LOADER is yaml.CSafeLoader


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_yaml_file_parses_the_same_in_pyyaml(path):
    assert documents.read_yaml(path) == yaml.load(path.read_text(), yaml.SafeLoader)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "a: [1, 2\nb: 3\n",
            r"c.yaml must be YAML, found: while parsing a flow sequence(.|\n)*line 2",
        ),
        ("a: b: c\n", "mapping values are not allowed in this context"),
        ("a:\n\t- 1\n", "found character that cannot start any token"),
        ("a: &x 1\nb: *y\n", "found undefined alias"),
        (
            "a: !!python/name:os.system x\n",
            r"tags must not be used, found .*os.system\n  in .*, line 1",
        ),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", r"keys must be unique, found b twice\n  in .*, line 2"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path, text, words):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        documents.read_yaml(path)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(LosslabError, match=r"gone.yaml does not exist"):
        documents.read_yaml(tmp_path / "gone.yaml")


def test_callers_cannot_change_a_checked_file(root, tmp_path):
    path = tmp_path / "loss.yaml"
    text = (root / "config/studies/loss.yaml").read_text()
    path.write_text(text)
    first = schemas.load_checked(path, "study")
    first["defaults"].clear()
    assert schemas.load_checked(path, "study") == documents.read_yaml(path) != first


def test_changed_file_is_checked_again(root, tmp_path):
    path = tmp_path / "loss.yaml"
    text = (root / "config/studies/loss.yaml").read_text()
    path.write_text(text)
    schemas.load_checked(path, "study")
    path.write_text(text.replace("figures:", "figurs:", 1))
    with pytest.raises(LosslabError, match="figurs"):
        schemas.load_checked(path, "study")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: .inf", "must be finite and decimal, found .inf"),
        ("a: .nan", "must be finite and decimal, found .nan"),
        ("a: 1.0e+400", "must be finite"),
        ("a: 1_0", r"found 1_0 \(quote it if it is text\)"),
        ("a: 0x10", "found 0x10"),
        ("a: 010", "found 010"),
        ("a: 1:30", "found 1:30"),
        ("a: " + "9" * 400, "must be finite and decimal"),
        ("1: a", "keys must be text, found 1"),
        ("on: a", "keys must be text, found True"),
        ("a: !!binary aa", "tags must not be used"),
        ("a: &a [*a]", "at most 64 levels"),
        ("a: &a {b: *a}", "at most 64 levels"),
        ("&a [*a, *a]", "at most 100000 values"),
        ("? &a [*a]\n: b", "must be (YAML|text)"),
        ("[" * 100_000, "at most 64 levels"),
        ("? " * 100_000, "at most 64 levels"),
        ("- " * 100_000, "at most 64 levels"),
        ('a: "\\uD800"', "must be (YAML|Unicode)"),
    ],
)
def test_ambiguous_yaml_is_refused(text, words):
    with pytest.raises(UsageError, match=words):
        documents.parse_yaml(text, "file")


def test_endlessly_expanding_aliases_are_refused_at_once():
    levels = [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9) if i else 'x'}]" for i in range(10)]
    began_s = time.process_time()
    with pytest.raises(UsageError, match="at most 100000 values"):
        documents.parse_yaml("\n".join(levels), "bomb.yaml")
    assert time.process_time() - began_s < 1


def test_yaml_date_stays_a_string():
    assert documents.parse_yaml("a: 2026-01-31", "file") == {"a": "2026-01-31"}
