"""Files that people write: valid ones are read, mistakes are refused with their place."""

import os
import re

import pytest

from losslab import reading
from losslab.reading import UsageError
from losslab.reading.files import read_text


def refused(read, path, words):
    with pytest.raises(UsageError, match=words) as error:
        read(path)
    assert str(path) in error.value.message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a: 1\n# caf\xe9\n", r"found byte 0xE9 in line 2 \(byte 11 of the file\)"),
        (b"\xff\xfea\x00", "found UTF-16 at its start"),
        (b"\xef\xbb\xbfa: 1\n", "found a byte order mark at its start"),
        (b"a\n\nb\x00\n", "found the control character 0x00 in line 3"),
        (b"\x1b[2J", "found the control character 0x1B in line 1"),
        ("a: \x9b2J".encode(), "found the control character 0x9B in line 1"),
    ],
)
def test_text_that_is_not_utf_8_is_refused_with_its_place(tmp_path, data, words):
    path = tmp_path / "text"
    path.write_bytes(data)
    refused(read_text, path, words)


def test_path_of_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(read_text, tmp_path, "must be a file, found a folder")
    refused(read_text, tmp_path / "pipe", "must be a file, found a pipe")
    refused(read_text, tmp_path / "loop", "found: a loop of symbolic links")
    refused(read_text, tmp_path / "none", "does not exist")
    refused(read_text, tmp_path / ("n" * 300), "found: File name too long")


def test_endless_or_large_file_is_refused(tmp_path):
    path = tmp_path / "large"
    path.write_text("a" * 101)
    assert len(read_text(path, 101)) == 101
    with pytest.raises(UsageError, match="at most 100 bytes, found more"):
        read_text(path, 100)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "keys must be unique, found c twice"),
        ('{"": 1, "": 2}', "keys must be unique, found '' twice"),
        ("[NaN]", "must be finite and at most 1e100, found nan"),
        ("[-Infinity]", "must be finite and at most 1e100, found -inf"),
        ('{"seed": 1e400}', "must be finite and at most 1e100, found inf"),
        ("9" * 5000, r"at most 40 characters, found 9{60}\.\.\."),
        ("[" * 100_000, "too many nested levels of JSON"),
        ("[" * 65 + "]" * 65, "at most 64 levels deep"),
        ('"\\ud800"', "half of a surrogate pair"),
        ('{"a": ', "must be JSON"),
    ],
)
def test_nonstandard_json_is_refused(tmp_path, text, words):
    path = tmp_path / "data.json"
    path.write_text(text)
    refused(reading.read_json, path, words)


@pytest.mark.parametrize("text", ["a = nan", "a = -inf", f"a = {'9' * 400}", "a = 1\na = 2", "[["])
def test_toml_with_nonfinite_numbers_or_repeated_keys_is_refused(tmp_path, text):
    path = tmp_path / "data.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(str(path))):
        reading.read_toml(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must name its columns in its first line"),
        ("a,b\n1,2\n3\n", "line 3 must have 2 fields, one for each column, found 1"),
        ("a,b\n1,2,3\n", "line 2 must have 2 fields, one for each column, found 3"),
        ("a,a\n1,2\n", "columns must be unique, found a twice"),
        ("a,c\n1,2\n", "must have the columns b, found none"),
        ('a,b\n1,"2\n', "is not a valid row"),
    ],
)
def test_table_with_the_wrong_number_of_fields_is_refused(tmp_path, text, words):
    path = tmp_path / "table.csv"
    path.write_text(text)
    refused(lambda path: reading.read_rows(path, columns=["a", "b"]), path, words)


def test_table_with_empty_and_quoted_fields_is_read(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text('a\tb\n"x\ty"\t\n')
    assert reading.read_rows(path, "\t") == [{"a": "x\ty", "b": ""}]


@pytest.mark.parametrize("text", ["1", "-0.5", ".5", "5.", "1e3", "1E-3", "+2"])
def test_decimal_number_is_read(text):
    assert reading.number(text) == float(text)


@pytest.mark.parametrize(
    "text", ["nan", "inf", "1_0", "0x10", "1e400", "9" * 400, "", " 1", "1\n", "\u0663", "\uff11"]
)
def test_number_in_another_notation_is_refused(text):
    with pytest.raises(UsageError, match="a number must be a finite number, found "):
        reading.number(text)
    with pytest.raises(UsageError, match="a number must be a whole number, found "):
        reading.whole(text)
