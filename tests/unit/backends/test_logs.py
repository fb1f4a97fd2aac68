"""Bounds of what programs print."""

import pytest

from losslab.backends import base
from losslab.errors import LosslabError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a job's folder; programs may print 3 MiB."""
    monkeypatch.setattr(base, "LOG_BYTES", 3 * 2**20)
    (tmp_path / "raw").mkdir()
    return tmp_path


def test_t5_log_that_is_too_long_is_refused_and_shortened(folder):
    log = folder / "raw" / "competitor-sender.log"
    log.write_bytes(b"begin" + bytes(4 * 2**20) + b"end")
    with pytest.raises(LosslabError, match=r"at most 3 MiB, found more in competitor-sender\.log"):
        base.refuse_long_logs(folder)
    content = log.read_bytes()
    assert content.startswith(b"begin")
    assert content.endswith(b"end")
    assert len(content) < 2.1 * 2**20


def test_other_files_and_links_are_not_logs(folder):
    (folder / "raw" / "capture-r1-r2.pcap").write_bytes(bytes(4 * 2**20))
    (folder / "raw" / "sender.log").symlink_to(folder / "raw" / "capture-r1-r2.pcap")
    base.refuse_long_logs(folder)
    assert base.long_logs(folder) == []
