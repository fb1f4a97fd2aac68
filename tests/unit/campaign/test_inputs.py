"""User folders and images: both enter a cell's fingerprint."""

import dataclasses
import hashlib
import shutil
from pathlib import Path

import pytest

from losslab import pyarguments
from losslab.backends.base import GUEST, VIRTUAL
from losslab.campaign import fingerprint, inputs
from losslab.campaign.instrument import image_of
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study import design
from losslab.study.condition import Condition

PLAIN = Condition(algorithm="cubic")
COMMAND = Condition(
    algorithm="cubic", app="command", sender_command="./send", receiver_command="./receive"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine" / "deep").mkdir(parents=True)
    (tmp_path / "mine" / "send").write_text("#!/bin/sh\n")
    (tmp_path / "mine" / "send").chmod(0o755)
    (tmp_path / "mine" / "deep" / "data").write_text("1")
    (tmp_path / "mine" / "__pycache__").mkdir()
    (tmp_path / "mine" / "__pycache__" / "x.pyc").write_text("2")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine"


def test_job_gets_user_files_and_manifest_their_digests(folder, tmp_path):
    condition = dataclasses.replace(COMMAND, bring="./mine")
    before = inputs.digests(condition)
    assert list(before) == ["deep/data", "send"]
    assert before["send"].endswith(" x")
    inputs.give(condition, tmp_path, "there")
    assert (tmp_path / "there" / "deep" / "data").read_text() == "1"
    assert (tmp_path / "there" / "send").stat().st_mode & 0o111
    assert not (tmp_path / "there" / "__pycache__").exists()
    (folder / "deep" / "data").write_text("3")
    assert inputs.digests(condition) != before
    assert inputs.digests(PLAIN) == {}


def test_user_folder_without_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    condition = dataclasses.replace(COMMAND, bring="./nothing")
    with pytest.raises(LosslabError, match="found none in"):
        inputs.digests(condition)


def test_user_folder_is_named_by_a_relative_path(root, folder):
    assert inputs.named(root / "tests" / "fixtures" / "programs") == "tests/fixtures/programs"
    assert inputs.named(folder) == "./mine"
    assert inputs.named(Path("mine/deep/..")) == "./mine"


@pytest.mark.parametrize("given", ["../mine", "../mine=x", "../mine/send", "../mine/send=x"])
def test_files_from_anywhere_are_named_by_their_content(given, folder, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    condition = dataclasses.replace(COMMAND, bring=inputs.named(given))
    inputs.require([condition])
    before = inputs.digests(condition)
    prefix = "x/" if given == "../mine=x" else ""
    expected = {
        "../mine": ["deep/data", "send"], "../mine=x": ["x/deep/data", "x/send"],
        "../mine/send": ["send"], "../mine/send=x": ["x"],
    }  # fmt: skip
    assert list(before) == expected[given]
    assert inputs.named(condition.bring) == condition.bring == inputs.named(given)
    inputs.give(condition, tmp_path / "job", "there")
    copy = tmp_path / "job" / "there" / expected[given][-1]
    assert copy.stat().st_mode & 0o111
    assert not (copy.parent / "__pycache__").exists()
    run = tmp_path / "run"
    run.mkdir()
    inputs.kept_files(condition.to_json(), run)
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(UsageError, match="found none with this content"):
        inputs.require([condition])
    inputs.adopt_traces(run, condition.to_json())
    assert inputs.digests(condition) == before
    (folder / "send").write_text("changed")
    assert inputs.named(given) != condition.bring
    assert prefix + "send" in before or "x" in before


@pytest.mark.parametrize(
    "wrong", ["nowhere", "/dev/null", "mine=", "mine=a/b", "mine=..", "mine/send=-/x"]
)
def test_user_files_that_do_not_exist_or_have_no_name_are_refused(wrong, folder):
    with pytest.raises(UsageError, match="bring"):
        inputs.named(wrong)


@pytest.mark.parametrize("axis", inputs.OF_FILES)
@pytest.mark.parametrize("given", ["x" * 9999, "a\0b"], ids=["too long", "with a NUL"])
def test_path_that_no_file_can_have_is_refused_in_python(axis, given):
    with pytest.raises(UsageError, match=axis.removesuffix("_back")):
        pyarguments.axis_value(axis, given)


@pytest.mark.parametrize("given", ["FILES_MAX mine=x", "BYTES_MAX mine=x", "BYTES_MAX mine/send"])
def test_user_files_that_are_too_many_or_too_large_are_refused(given, folder, monkeypatch):
    limit, place = given.split()
    monkeypatch.setattr(inputs, limit, 1)
    with pytest.raises(LosslabError, match="at most"):
        inputs.named(place)


def test_user_folder_outside_the_repository_is_refused(folder, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    # A manifest from elsewhere may contain such names.
    (tmp_path / "elsewhere" / "link").symlink_to(folder)
    for name in (str(folder), "../mine", "./../mine", "./link", "config/../../mine"):
        with pytest.raises(LosslabError, match="must name a folder in"):
            inputs.digests(dataclasses.replace(COMMAND, bring=name))


def test_symbolic_link_out_of_the_user_folder_is_refused(folder, tmp_path):
    (tmp_path / "secret").write_text("4")
    condition = dataclasses.replace(COMMAND, bring="./mine")
    (folder / "inside").symlink_to(folder / "send")
    assert "inside" in inputs.digests(condition)
    (folder / "deep" / "outside").symlink_to(tmp_path / "secret")
    with pytest.raises(LosslabError, match="found deep/outside, a symbolic link to"):
        inputs.give(condition, tmp_path, "there")
    assert not (tmp_path / "there").exists()


def test_image_is_selected_by_the_cell_or_its_app(root):
    quic = dataclasses.replace(PLAIN, app="quic")
    assert (image_of(PLAIN), image_of(COMMAND), image_of(quic)) == ("host", "host", "quic")
    rsync = dataclasses.replace(COMMAND, image="rsync")
    assert image_of(rsync) == "rsync"
    parts = [fingerprint.of(each, VIRTUAL, GUEST).parts for each in (rsync, COMMAND)]
    assert fingerprint.differences(*parts) == ["condition", "image"]
    names = design.load_names(root)
    assert names.problems(rsync) == []
    for wrong in ("engine", "none-such"):
        assert names.problems(dataclasses.replace(COMMAND, image=wrong)) != []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1\n2\n9999999999999\n", "must last at most 86400000 ms"),
        ("1\n2\n".encode("utf-16"), "found byte 0xFF"),
        (b"1\r\n2\r\n", "whole number of milliseconds"),
        (b"1" * 100_000, "whole number"),
        (b"1\n" * (inputs.MAX_TRACE_BYTES // 2 + 1), "must have at most"),
        (None, "must be a file, .* found drawn-down, drawn-up there"),
    ],
    ids=["too long", "in UTF-16", "with CR", "one number", "too large", "absent"],
)
def test_trace_that_a_link_cannot_follow_is_refused_in_one_line(content, said, campaign_folder):
    """Row E: 18 bytes filled the memory of the host, and UTF-16 was called a bug in losslab."""
    path = campaign_folder / "config/traces/mine"
    path.parent.mkdir(parents=True)
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as error:
        inputs.require([Condition(algorithm="cubic", trace="mine")])
    assert len(error.value.message) < 400
    assert "\n" not in error.value.message


CONTENT = "10\n20\n"
DIGEST = hashlib.sha256(CONTENT.encode()).hexdigest()
PUBLIC = Condition(algorithm="cubic", trace=f"known.down@{DIGEST[:16]}")


@pytest.fixture
def copies(tmp_path, monkeypatch):
    """Pin a public trace; return an empty folder for copies, and leave the cache empty."""
    pinned = {"address": "file:///nowhere/", "sha256": {"known.down": DIGEST}}
    monkeypatch.setattr(inputs, "_pinned_traces", lambda: pinned)
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOSSLAB_TRACES", str(tmp_path))
    return tmp_path


def test_public_trace_is_taken_from_the_folder_with_copies(copies):
    assert not inputs.has_public_traces(PUBLIC)
    (copies / "known.down").write_text(CONTENT)
    assert inputs.has_public_traces(PUBLIC)
    assert inputs.value("trace", "known.down") == PUBLIC.trace
    assert inputs.trace_texts(PUBLIC) == {"trace": CONTENT}
    (copies / "known.down").unlink()
    assert inputs.has_public_traces(PUBLIC), "the cache must have it"


@pytest.mark.usefixtures("copies")
def test_fingerprint_of_a_public_trace_needs_no_file():
    assert inputs.trace_digests(PUBLIC) == {"trace": DIGEST}
