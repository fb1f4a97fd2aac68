"""Code digests: changes that count, and changes that do not."""

import pytest

from losslab.campaign import codedigest
from losslab.errors import LosslabError

PYTHON = '''\
"""Docstring."""

from losslab.study import axes
import os


class Flow:
    """Docstring."""

    rate_mbit: float = 1.0


def shape(rate: float, burst=2) -> float:
    """Docstring."""
    # A comment
    if rate < 0:
        raise ValueError(f"the rate must not be negative, found {rate}", hint="more")
    field = axis(0, help="words " f"{rate}", choices={"on": "words", "off": ""}, unit="ms")
    return rate * burst + len("text") + field
'''
PROSE = {
    "docstring": ('"""Docstring."""\n\nfrom', '"""Another, and longer."""\n\nfrom'),
    "no docstring": ('    """Docstring."""\n\n    rate', "    rate"),
    "comment": ("# A comment", "# Another\n    # one"),
    "annotation": ("rate: float, burst=2) -> float", "rate, burst: int = 2)"),
    "annotation of a field": ("rate_mbit: float", "rate_mbit: int"),
    "layout": ("rate * burst + len", "(\n        rate * burst\n    ) + len"),
    "quotes": ('"text"', "'text'"),
    "words of an error": ("the rate must not be negative, found ", "no: "),
    "words of an error after it": ("found {rate}", "found {rate}, which is wrong"),
    "hint of an error": ('hint="more"', 'hint="give it a larger one"'),
    "help": ('"words " f"{rate}"', '"other words"'),
    "words of a choice": ('"on": "words"', '"on": "other words"'),
}
CODE = {
    "operator": ("rate * burst", "rate / burst"),
    "constant": ("burst=2", "burst=3"),
    "string": ('"text"', '"texts"'),
    "name": ("import os", "import sys"),
    "order": ("rate * burst", "burst * rate"),
    "choice": ('"off": ""', '"never": ""'),
    "keyword": ('unit="ms"', 'unit="s"'),
    "statement": ("    # A comment", "    pass"),
    "value in an error": ("found {rate}", "found {burst}"),
    "comparison": ("rate < 0", "rate <= 0"),
    "default of a field": ("float = 1.0", "float = 1.5"),
}


def changed(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize("what", PROSE)
def test_prose_keeps_the_code_digest(what):
    other = changed(PYTHON, *PROSE[what])
    assert codedigest.of_python(other).digest == codedigest.of_python(PYTHON).digest


@pytest.mark.parametrize("what", CODE)
def test_changed_code_changes_the_code_digest(what):
    other = changed(PYTHON, *CODE[what])
    assert codedigest.of_python(other).digest != codedigest.of_python(PYTHON).digest


def test_code_digest_is_the_same_in_every_python():
    """Manifests contain the digest; this one was made by Python 3.11."""
    assert codedigest.of_python(PYTHON).digest == "41df9d2fceb5d8c3"


def test_imports_are_named_by_every_module_they_may_name():
    assert codedigest.of_python(PYTHON).imports == ("losslab.study", "losslab.study.axes", "os")


R = """\
# Words
rate <- function(x, label = "a # b") {
  x * 2 # more words
}
"""


@pytest.mark.parametrize(
    "other",
    [
        R.replace("# Words\n", ""),
        R.replace(" # more words", ""),
        R.replace("  x", "      x"),
        R.replace("\n}", "\n\n\n}"),
        R + "# The end",
    ],
)
def test_comments_and_layout_of_r_keep_the_digest(other):
    assert other != R
    assert codedigest.of_r(other) == codedigest.of_r(R)


@pytest.mark.parametrize(
    "other",
    [
        R.replace("x * 2", "x / 2"),
        R.replace("a # b", "a # c"),
        R.replace("a # b", "a  # b"),
        R.replace("x * 2", "x *\n2"),
        R.replace("2 # more", "2 `# more"),
    ],
)
def test_changed_r_code_changes_the_digest(other):
    assert codedigest.of_r(other) != codedigest.of_r(R)


def test_script_and_functions_of_one_file_name_both_count(tmp_path):
    (tmp_path / "R").mkdir()
    paths = [tmp_path / "path.R", tmp_path / "R" / "path.R"]
    found = set()
    for texts in (("a <- 1", "b <- 1"), ("a <- 2", "b <- 1"), ("a <- 1", "b <- 2")):
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        found.add(codedigest.of_files(paths))
        assert codedigest.of_files(paths[::-1]) in found
    assert len(found) == 3


def test_code_digests_are_cached_between_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "module.py"
    path.write_text(PYTHON)
    first = codedigest.Modules()
    found = first.read(path)
    first.save()
    monkeypatch.setattr(codedigest, "of_python", lambda _: pytest.fail("parsed again"))
    assert codedigest.Modules().read(path) == found


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}', '{"a": ["b", 3]}', "null"])
def test_corrupt_digest_cache_counts_as_empty(monkeypatch, tmp_path, content):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "module.py"
    path.write_text(PYTHON)
    kept = codedigest.Modules()
    kept.read(path)
    kept.save()
    (file,) = (tmp_path / "cache/meaning").iterdir()
    file.write_text(content)
    assert codedigest.Modules().read(path) == codedigest.of_python(PYTHON)


def test_module_that_is_not_python_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "module.py").write_text("def")
    with pytest.raises(LosslabError, match=r"module\.py must be a Python module"):
        codedigest.Modules().read(tmp_path / "module.py")
