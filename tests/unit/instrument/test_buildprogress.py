"""Lines that show the progress of builds and downloads."""

import time

import pytest

from losslab.instrument import buildprogress


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path))
    return tmp_path


def test_build_shows_its_start_its_progress_and_its_end(cache, monkeypatch, capsys):
    monkeypatch.setattr(buildprogress, "LOG_EVERY_S", 0.05)
    with buildprogress.shown("kernel 6.12", "ten minutes", lambda: "3 of 7 files"):
        time.sleep(0.5)
    first, *between, last = capsys.readouterr().err.splitlines()
    assert first == f"losslab: kernel 6.12: takes ten minutes, once; kept in {cache}"
    assert between[0] == "losslab: kernel 6.12: 0:00 min, 3 of 7 files"
    assert last.startswith("losslab: kernel 6.12: ready after ")


def test_failed_build_is_not_ready(cache, capsys):
    with pytest.raises(OSError, match="full"), buildprogress.shown("kernel", "a minute"):
        raise OSError("full")
    assert ": ready after" not in capsys.readouterr().err


def test_download_and_compiled_files_of_a_kernel_are_counted(cache):
    assert buildprogress.of_kernel() == ""
    part = cache / "files" / ".partial-1" / "file"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(2_000_000))
    assert buildprogress.of_kernel() == "2 MB downloaded"
    log = cache / "tree" / ".abc.partial-1" / buildprogress.LOG
    log.parent.mkdir(parents=True)
    log.write_text("$ tar\n")
    assert buildprogress.of_kernel() == "unpacking the source"
    log.write_text("  CC      a.o\n  LD      b.o\n  CC      c.o\n")
    assert buildprogress.of_kernel() == "2 of about 880 files compiled"
