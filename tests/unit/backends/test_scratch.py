"""Where a guest's memory lies: any path, as the kernel's command line has a descriptor's."""

import os

import pytest

from losslab.backends import resources, virtual
from losslab.backends.base import Instrument
from losslab.errors import HostError

ODD = ["with space", "with,comma", "with'quote", 'with"quote', "with\nline", "ünïcode", "a" * 200]


@pytest.mark.parametrize("name", ODD)
def test_no_word_of_the_command_line_depends_on_the_folder(name, tmp_path, monkeypatch):
    chosen = tmp_path / name
    chosen.mkdir()
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(chosen))
    assert resources.scratch_folder() == chosen
    tools = Instrument(tmp_path / "linux", tmp_path / "image", {})
    with virtual.Guest()._seat(tools) as seat:
        assert seat.folder.parent == chosen
        words = seat.command(tools, [])
        assert [word for word in words if name in word] == []
        (root,) = [word for word in words if word.startswith("rootflags=")]
        assert os.readlink(root.partition("=")[2]) == str(tmp_path / "image")
        assert seat.variables["TMPDIR"] == str(seat.folder)
    assert list(chosen.iterdir()) == []


def test_a_relative_folder_is_the_one_in_this_processs_working_folder(tmp_path, monkeypatch):
    """A guest works in another folder."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOSSLAB_SCRATCH", "scratch")
    assert resources.scratch_folder() == tmp_path / "scratch"


def test_what_cannot_be_used_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(tmp_path / "none"))
    resources.scratch_folder()
    assert f"{tmp_path / 'none'} is not a folder that can be written to" in capsys.readouterr().err
    monkeypatch.setattr(resources, "MEMORY_BYTES", 2**70)
    with pytest.raises(HostError, match=r"less than .* MiB free") as error:
        resources.scratch_folder()
    assert "set LOSSLAB_SCRATCH" in error.value.hint
