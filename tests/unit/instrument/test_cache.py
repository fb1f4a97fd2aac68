"""Builds in the cache."""

import pytest

from losslab import lock
from losslab.instrument import cache


def test_failed_build_leaves_nothing(tmp_path):
    target = tmp_path / "kernel" / "hash"
    with pytest.raises(ValueError, match="broken"), cache.building(target) as folder:
        assert folder is not None
        (folder / "linux").touch()
        raise ValueError("broken")
    assert not target.exists()
    assert [p.name for p in target.parent.iterdir()] == [".hash.lock"]


def test_leftovers_of_a_killed_build_are_removed(tmp_path):
    target = tmp_path / "kernel" / "hash"
    (tmp_path / "kernel" / ".hash.partial-killed" / "linux").mkdir(parents=True)
    lock.mark(tmp_path / "kernel" / ".hash.partial-killed", "test")
    (tmp_path / "kernel" / ".other.partial-running").mkdir()
    with cache.building(target):
        pass
    left = sorted(p.name for p in target.parent.iterdir())
    assert left == [".hash.lock", ".other.partial-running", "hash"]


def test_finished_build_is_not_repeated(tmp_path):
    target = tmp_path / "kernel" / "hash"
    with cache.building(target) as folder:
        assert folder is not None
    with cache.building(target) as folder:
        assert folder is None
