"""Files and numbers that people write: mistakes are refused with their place."""

import math
import os
import random
import re
from pathlib import Path

import pytest
import yaml

from losslab import reading
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_json, read_text, read_toml
from losslab.study import schemas
from tests.sources import tracked

ROOT = Path(__file__).resolve().parents[2]


def refused(read, path, words):
    with pytest.raises(UsageError, match=words) as error:
        read(path)
    assert str(path) in error.value.message


def test_path_of_no_readable_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(read_text, tmp_path, "must be a file, found a folder")
    refused(read_text, tmp_path / "pipe", "must be a file, found a folder, a pipe")
    refused(read_text, tmp_path / "loop", "found: Too many levels of symbolic links")
    refused(read_text, tmp_path / "none", "does not exist")


def test_large_file_is_refused(tmp_path):
    path = tmp_path / "large"
    path.write_text("a" * 101)
    assert len(read_text(path, 101)) == 101
    with pytest.raises(UsageError, match="at most 100 bytes, found more"):
        read_text(path, 100)


def read_table(path):
    return reading.read_rows(path, columns=["a", "b"])


@pytest.mark.parametrize(
    ("read", "content", "words"),
    [
        (read_text, b"a: 1\n# caf\xe9\n", r"must be UTF-8, found byte 0xE9 in line 2"),
        (read_text, b"\xff\xfea\x00", "must be UTF-8, found byte 0xFF in line 1"),
        (read_text, b"\xef\xbb\xbfa: 1\n", "found the control character 0xFEFF in line 1"),
        (read_text, b"\x1f\x8b\x08", "must be text, found a file compressed with gzip"),
        (read_text, b"a\n\nb\x00\n", "found the control character 0x00 in line 3"),
        (read_text, b"a: \xc2\x9b2J", "found the control character 0x9B in line 1"),
        (read_json, b'{"a": 1, "b": {"c": 1, "c": 2}}', "keys must be unique, found c twice"),
        (read_json, b"[NaN]", "must be JSON, found: Out of range float"),
        (read_json, b'{"seed": 1e400}', "must be JSON, found: Out of range float"),
        (read_json, b"[" * 100_000, "must be JSON, found: maximum recursion"),
        (read_json, b'{"a": ', "must be JSON"),
        *((read_toml, text, "must be TOML") for text in
          (b"a = nan", b"a = -inf", b"a = 1\na = 2", b"[[")),
        (read_table, b"a,c\n1,2\n", "must have the columns b, found a, c"),
        (read_table, b"", "must name its columns in its first line"),
        (read_table, b"a,b\n1,2\n3\n", "line 3 must have 2 fields, one for each column, found 1"),
        (read_table, b"a,a\n1,2\n", "columns must be unique, found a twice"),
        (read_table, b'a,b\n1,"2\n', "is not a valid row"),
        *((reading.read_samples, text, "must have a number or nothing for each column in each row")
          for text in (b"a,b\n1,2\n3\n", b"a,b\n1,x\n", b"a,b\n1,2,3\n", b'a,b\n1,"2"\n',
                       b"a,b\n1,2\n\n", b"a\n,1\n", b"a,b\n1,2 3,4\n")),
    ],
)  # fmt: skip
def test_malformed_file_is_refused_with_its_place(tmp_path, read, content, words):
    path = tmp_path / "file"
    path.write_bytes(content)
    refused(read, path, words)


def test_table_with_empty_and_quoted_fields_is_read(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text('a\tb\n"x\ty"\t\n')
    assert reading.read_rows(path, "\t") == [{"a": "x\ty", "b": ""}]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a,b\n", {"a": [], "b": []}),
        ("a,b", {"a": [], "b": []}),
        ("a,b\n1,\n-2.5,4\n", {"a": [1, -2.5], "b": [None, 4]}),
        ("a,b,c,d\n1,,,", {"a": [1], "b": [None], "c": [None], "d": [None]}),
        ("a\n1\n2e3\n", {"a": [1, 2000]}),
    ],
)
def test_samples_are_the_numbers_of_the_columns(tmp_path, text, columns):
    path = tmp_path / "table.csv"
    path.write_text(text)
    found = reading.read_samples(path)
    assert {n: [None if math.isnan(v) else v for v in its] for n, its in found.items()} == columns


def test_samples_have_the_numbers_of_python(tmp_path):
    values = [(-1) ** n * random.Random(n).random() * 10.0 ** (n % 40 - 20) for n in range(999)]
    (tmp_path / "table.csv").write_text("a\n" + "".join(f"{value!r}\n" for value in values))
    assert reading.read_samples(tmp_path / "table.csv")["a"].tolist() == values


def test_every_yaml_file_means_the_same_to_snakemake():
    """Snakemake reads configurations with PyYAML's YAML 1.1."""
    files = tracked("config/*.yaml", "studies/*.yaml", "workflow/schemas/*.yaml")
    found = {path: reading.read_yaml(path) for path in files}
    assert found == {path: yaml.load(path.read_text(), yaml.CSafeLoader) for path in files}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1, 2\nb: 3\n", "must be YAML, found: while parsing a flow sequence(.|\n)*line 2"),
        ("a:\n\t- 1\n", "found character that cannot start any token"),
        ("a: &x 1\nb: *y\n", "found undefined alias"),
        ("a: !!python/name:os.system x\n", "could not determine a constructor for the tag"),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", r"keys must be unique, found b twice\n  in .*, line 2"),
        ("1: a", r"keys must be text, found 1 \(quote it\)"),
        ("a: 1.0e+400", "must be YAML, found: Out of range float"),
        ("a: &a [*a]", "must be YAML, found: Circular reference"),
    ],
)
def test_ambiguous_yaml_is_refused_with_its_place(text, words):
    with pytest.raises(UsageError, match=words):
        reading.parse_yaml(text, "file")


def test_yaml_has_the_scalars_of_version_1_2():
    text = "[no, on, 2026-01-31, 1:30, 1_0, 0x10, 010, .inf, 6.10, -3, 1e3, true, null, '6']"
    words = ["no", "on", "2026-01-31", "1:30", "1_0", "0x10", "010", ".inf"]
    assert reading.parse_yaml(text, "file") == [*words, 6.1, -3, 1000.0, True, None, "6"]


def test_callers_cannot_change_a_checked_file_and_a_changed_file_is_checked(root, tmp_path):
    path = tmp_path / "loss.yaml"
    text = (root / "studies/loss/study.yaml").read_text()
    path.write_text(text)
    first = schemas.load_checked(path, "study")
    first["defaults"].clear()
    assert schemas.load_checked(path, "study") == reading.read_yaml(path) != first
    path.write_text(text.replace("defaults:", "defalts:", 1))
    with pytest.raises(LosslabError, match="defalts"):
        schemas.load_checked(path, "study")


@pytest.mark.parametrize("text", ["1", "-0.5", ".5", "5.", "1e3", "1E-3", "+2"])
def test_decimal_number_is_read(text):
    assert reading.number(text) == float(text)


@pytest.mark.parametrize("text", ["nan", "1_0", "0x10", "1e400", "9" * 400, "", " 1", "\u0663"])
def test_number_in_another_notation_is_refused(text):
    with pytest.raises(UsageError, match="a number must be a finite number, found "):
        reading.number(text)
    with pytest.raises(UsageError, match=re.escape("a number must be a whole number, found ")):
        reading.whole(text)


def test_yaml_bomb_is_refused_at_once(tmp_path):
    """300 bytes of aliases stand for 10^9 values."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines))
    with pytest.raises(UsageError, match="more than 100000 values, with those that aliases repeat"):
        reading.read_yaml(file)
    file.write_text("a: &a {x: 1}\nb: *a\nc: [*a, *a]\n")
    assert reading.read_yaml(file)["c"] == [{"x": 1}, {"x": 1}]
