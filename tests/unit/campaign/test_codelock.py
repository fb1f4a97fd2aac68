"""Parts of the measuring code, their versions, and the cells that depend on them."""

import ast

import pytest

from losslab.campaign import codelock
from tests.unit.campaign.test_fingerprint import ALL, CELLS

CONTAINERS = {"containers", "engine"}
# For each part, a file of it, and the cells that depend on it.
DEPENDENT = {
    "emulation": ("emulation/measure.py", ALL),
    "backends/containers": ("emulation/jobs/engineguest.py", CONTAINERS),
    "background": ("emulation/background/program.py", {"background"}),
    "apps/command": ("emulation/apps/command.py", set()),
    "apps/datagram": ("emulation/schemes/__init__.py", {"scheme"}),
    "apps/ffmpeg": ("emulation/apps/ffmpeg.py", {"video"}),
    "apps/iperf3": ("emulation/apps/iperf3.py", ALL - {"video", "scheme"}),
    "apps/quic": ("emulation/apps/quic.py", set()),
    "apps/web": ("emulation/apps/page_server.py", {"page"}),
    "path/jitter": ("emulation/path/jitter.py", {"jitter"}),
    "path/marking": ("emulation/path/marking.py", ALL),
    "path/schedule": ("emulation/schedule_runner.py", {"schedule"}),
    "path/thinning": ("emulation/path/thinning.py", {"thinned"}),
    "path/trace": ("emulation/link/forward.py", {"drawn", "trace"}),
    "schemes/ewma": ("emulation/schemes/ewma.py", {"scheme"}),
}
OF_ALL = (
    "emulation/probes.py", "emulation/jobs/guest.py", "study/condition.py", "study/axes.py",
    "backends/runner.py",
)  # fmt: skip


@pytest.fixture
def edited(monkeypatch, tmp_path):
    """Return a function that pretends to edit a part, with a lock in which it is not edited."""
    monkeypatch.setattr(codelock, "LOCK", tmp_path / "code.lock")
    codelock.lock.cache_clear()
    found = dict(codelock.digests())
    monkeypatch.setattr(codelock, "digests", lambda: found)
    content = {part: {"sha256": digest, "version": 1} for part, digest in found.items()}
    assert codelock.write(content)
    yield lambda part: found.update({part: "0" * 64})
    codelock.lock.cache_clear()


def versions(found):
    return {part: its["version"] for part, its in found.items() if its["version"] != 1}


def test_lock_has_the_sources_of_every_part():
    """`python -m bench.golden` compares bytes and writes the lock."""
    locked = {part: its["sha256"] for part, its in codelock.lock().items()}
    assert locked == codelock.digests()


def test_exactly_the_cells_that_use_a_part_depend_on_it():
    used = {name: set(codelock.used(*cell)) for name, cell in CELLS.items()}
    for part, (file, cells) in DEPENDENT.items():
        assert (codelock.PACKAGE / file).is_file()
        assert codelock.part_of(file) == part
        assert {name for name, parts in used.items() if part in parts} == cells, part
    assert {codelock.part_of(file) for file in OF_ALL} == {codelock.COMMON}
    assert set.union(*used.values()) <= codelock.digests().keys()


def test_parts_need_the_parts_that_their_modules_import():
    package = codelock.PACKAGE
    for path in (package / "emulation").rglob("*.py"):
        part = codelock.part_of(str(path.relative_to(package)))
        # Every scheme is imported by its app, which uses one.
        if part == codelock.COMMON or part.startswith("apps/datagram"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("losslab.emulation."):
                base = node.module.removeprefix("losslab.").replace(".", "/")
                for file in (base, *(f"{base}/{alias.name}" for alias in node.names)):
                    needed = codelock.part_of(f"{file}.py")
                    known = {part, codelock.COMMON, *codelock.NEEDS.get(part, ())}
                    if (package / f"{file}.py").is_file() and not part.startswith("schemes/"):
                        assert needed in known, f"{path} imports {file}"


def test_edited_part_has_another_version_until_it_is_compared(edited):
    assert codelock.version("path/jitter") == "1"
    edited("path/jitter")
    assert codelock.version("path/jitter") == "0" * codelock.DIGITS
    assert codelock.write(codelock.updated([["emulation", "path/jitter"]], []))
    assert codelock.version("path/jitter") == "1"
    assert not codelock.write(codelock.updated([["emulation", "path/jitter"]], []))


def test_edited_part_without_a_golden_run_has_a_new_version(edited):
    edited("apps/quic")
    assert versions(codelock.updated([["emulation"]], [])) == {"apps/quic": 2}


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
    assert versions(codelock.updated(equal, different)) == changed
