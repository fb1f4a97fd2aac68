"""`losslab check` writes and removes nothing but what it made."""

import pytest

from losslab import cli, lock


def tree(folder):
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))}


def check(*words):
    return cli.main(["check", *map(str, words)])


def test_check_refuses_a_folder_that_it_did_not_make(tmp_path, capsys):
    """D: `check --out work` removed work/change/files."""
    change = tmp_path / "tcp_cubic.c"
    change.write_text("int x;\n")
    files = tmp_path / "work" / "change" / "files"
    files.mkdir(parents=True)
    (files / "tcp_cubic.c").write_text("mine")
    before = tree(tmp_path)
    assert check(change, "--out", tmp_path / "work") == 2
    assert tree(tmp_path) == before
    assert "--out must name a new folder" in capsys.readouterr().err


def test_check_refuses_an_argument_in_its_output_folder(tmp_path, capsys):
    """D: `check work/change/files/tcp_cubic.c --out work` removed its own argument."""
    files = tmp_path / "work" / "change" / "files"
    files.mkdir(parents=True)
    lock.mark(tmp_path / "work", "losslab check")
    change = files / "tcp_cubic.c"
    change.write_text("mine")
    before = tree(tmp_path)
    assert check(change, "--out", tmp_path / "work") == 2
    (tmp_path / "link").symlink_to(files)
    assert check(f"a.c={tmp_path / 'link' / 'tcp_cubic.c'}", "--out", tmp_path / "work") == 2
    (tmp_path / "link").unlink()
    assert tree(tmp_path) == before
    assert "without the command's input" in capsys.readouterr().err


def test_check_reads_its_input_before_it_writes(tmp_path, capsys):
    """D: a missing file was found after folders had been removed."""
    assert check(tmp_path / "missing.c", "--out", tmp_path / "work") == 2
    assert [path.name for path in tmp_path.iterdir()] == []
    assert "found no file" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["../victim.c", "/tmp/losslab-victim.c", "net/../../victim.c"])
def test_check_writes_no_file_outside_of_its_folder(tmp_path, capsys, path):
    """D: `PATH=FILE` wrote to any path."""
    change = tmp_path / "mine.c"
    change.write_text("mine")
    assert check(f"{path}={change}", "--out", tmp_path / "work") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.c"]
    assert "must be a path in the kernel's source" in capsys.readouterr().err
