"""YAML is the same data and the same complaints, with libyaml and without it."""

from pathlib import Path

import pytest
import yaml

from losslab.errors import LosslabError
from losslab.study import reading, yamls

ROOT = Path(__file__).resolve().parents[3]
FILES = [
    path
    for folder in ("config", "report/claims", "workflow/schemas")
    for path in sorted((ROOT / folder).rglob("*.yaml"))
]


def test_pinned_pyyaml_is_the_fast_one():
    assert yaml.__with_libyaml__
    assert issubclass(yamls.FASTEST, yaml.CSafeLoader)
    assert not issubclass(yamls.Plain, yaml.CSafeLoader)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_says_the_same_to_both(path):
    assert yaml.load(path.read_text(), yamls.FASTEST) == yaml.load(path.read_text(), yamls.Plain)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1, 2\nb: 3\n", "must be YAML, found: while parsing a flow sequence"),
        ("a: b: c\n", "mapping values are not allowed here"),
        ("a:\n\t- 1\n", "found character '\\t' that cannot start any token"),
        ("a: &x 1\nb: *y\n", "found undefined alias"),
        ("a: !!python/name:os.system x\n", "could not determine a constructor"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "keys must be unique, found b twice in .*, line 2"),
    ],
)
def test_mistakes_have_the_same_words_in_both(tmp_path, monkeypatch, text, words):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    said = []
    for loader in (yamls.FASTEST, yamls.Plain):
        monkeypatch.setattr(yamls, "FASTEST", loader)
        with pytest.raises(LosslabError, match=words.replace("\\", "\\\\")) as error:
            yamls.load_yaml(path)
        said.append(error.value.message)
    assert said[0] == said[1]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(LosslabError, match=r"gone.yaml must exist, found no such file"):
        yamls.load_yaml(tmp_path / "gone.yaml")


def test_what_was_checked_is_nobodys_to_spoil(root, tmp_path):
    path = tmp_path / "loss.yaml"
    text = (root / "config/studies/loss.yaml").read_text()
    path.write_text(text)
    first = reading.load_checked(path, "study")
    first["defaults"].clear()
    assert reading.load_checked(path, "study") == yamls.load_yaml(path) != first


def test_a_file_that_changed_is_checked_again(root, tmp_path):
    path = tmp_path / "loss.yaml"
    text = (root / "config/studies/loss.yaml").read_text()
    path.write_text(text)
    reading.load_checked(path, "study")
    path.write_text(text.replace("figures:", "figurs:", 1))
    with pytest.raises(LosslabError, match="figurs"):
        reading.load_checked(path, "study")
