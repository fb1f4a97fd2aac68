"""Versions of the measuring code after golden runs."""

import pytest

from bench import golden
from losslab.campaign import codelock
from losslab.instrument import kernel, kernels


@pytest.fixture
def edited(monkeypatch, tmp_path):
    """Return a function that pretends to edit a part, with a lock in which it is not edited."""
    monkeypatch.setattr(codelock, "LOCK", tmp_path / "code.lock")
    codelock.lock.cache_clear()
    found = dict(codelock.digests())
    monkeypatch.setattr(codelock, "digests", lambda: found)
    recipes = dict(golden.kernel_recipes())
    monkeypatch.setattr(golden, "kernel_recipes", lambda: recipes)
    monkeypatch.setattr(kernel, "content_hash", lambda spec: recipes[f"kernel {spec.name}"])
    content = {part: {"sha256": digest, "version": 1} for part, digest in found.items()}
    content |= {part: {"sha256": digest, "version": "first"} for part, digest in recipes.items()}
    assert golden.write_lock(content)
    yield lambda part: (recipes if part in recipes else found).update({part: "0" * 64})
    codelock.lock.cache_clear()


def versions(found):
    return {
        part: its["version"] for part, its in found.items() if its["version"] not in (1, "first")
    }


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


def test_changed_kernel_counts_as_the_old_one_only_after_runs_with_the_same_bytes(edited):
    spec = kernels.get("6.12", [])
    assert codelock.kernel_version(spec) == ["first"]
    edited("kernel 6.12")
    assert codelock.kernel_version(spec) == ["0" * 64]
    assert golden.write_lock(golden.updated_lock([["emulation", "kernel 7.2"]], [])) is False
    assert codelock.kernel_version(spec) == ["0" * 64]
    changed = golden.updated_lock([["emulation"]], [["emulation", "kernel 6.12"]])
    assert versions(changed) == {"kernel 6.12": "0" * 64}
    assert golden.write_lock(golden.updated_lock([["emulation", "kernel 6.12"]], []))
    assert codelock.kernel_version(spec) == ["first"]


def test_algorithm_that_is_added_to_a_kernel_is_part_of_its_version(edited):
    added = kernels.get("6.12", ["gaimd"])
    version, algorithm = codelock.kernel_version(added)
    assert (version, algorithm.split()[0]) == ("first", "tcp_gaimd.c")
