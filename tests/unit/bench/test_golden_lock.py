"""Versions of the measuring code after golden runs."""

import pytest

from bench import golden
from losslab.campaign import codelock


@pytest.fixture
def edited(monkeypatch, tmp_path):
    """Return a function that pretends to edit a part, with a lock in which it is not edited."""
    monkeypatch.setattr(codelock, "LOCK", tmp_path / "code.lock")
    codelock.lock.cache_clear()
    found = dict(codelock.digests())
    monkeypatch.setattr(codelock, "digests", lambda: found)
    content = {part: {"sha256": digest, "version": 1} for part, digest in found.items()}
    assert golden.write_lock(content)
    yield lambda part: found.update({part: "0" * 64})
    codelock.lock.cache_clear()


def versions(found):
    return {part: its["version"] for part, its in found.items() if its["version"] != 1}


def test_edited_part_has_another_version_until_it_is_compared(edited):
    assert codelock.version("path/jitter") == "1"
    edited("path/jitter")
    assert codelock.version("path/jitter") == "0" * codelock.DIGITS
    assert golden.write_lock(golden.updated_lock([["emulation", "path/jitter"]], []))
    assert codelock.version("path/jitter") == "1"
    assert not golden.write_lock(golden.updated_lock([["emulation", "path/jitter"]], []))


def test_edited_part_without_a_golden_run_has_a_new_version(edited):
    edited("apps/quic")
    assert versions(golden.updated_lock([["emulation"]], [])) == {"apps/quic": 2}


@pytest.mark.parametrize(
    ("equal", "changed"),
    [
        # The common part is in a run with the same bytes, so the app explains the difference.
        ([["emulation", "apps/iperf3"]], {"apps/web": 2}),
        ([], {"emulation": 2, "apps/web": 2}),
        ([["emulation", "apps/web"]], {"emulation": 2, "apps/web": 2}),
    ],
)
def test_part_that_explains_different_bytes_has_a_new_version(edited, equal, changed):
    edited("emulation")
    different = [["emulation", "apps/web"]]
    assert versions(golden.updated_lock(equal, different)) == changed
