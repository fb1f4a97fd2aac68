import fcntl
import os
import random
import shutil
import sys
from pathlib import Path

import hypothesis
import pytest

from losslab import extensions
from losslab.backends import snapshot_server

ROOT = Path(__file__).resolve().parents[1]
# Find tools of the tests' environment even if it is not activated.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
# Keep byte code: without it, each start of a command compiles 200 modules, which takes 0.3 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Seed of the random conditions. Workers of pytest-xdist inherit it.
RANDOM_SEED = "LOSSLAB_RANDOM_SEED"
os.environ.setdefault(RANDOM_SEED, str(random.SystemRandom().randrange(10**6)))

# A busy machine is no fault of what is tested.
hypothesis.settings.register_profile("losslab", deadline=None)
hypothesis.settings.load_profile("losslab")


def pytest_report_header():
    """Print the seed with which a second run measures the same conditions."""
    return f"random conditions: {RANDOM_SEED}={os.environ[RANDOM_SEED]}"


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory) -> Path:
    """Return a project whose results/cells has the recorded study."""
    from tests.golden import seam

    return seam.unpack(tmp_path_factory.mktemp("recorded"))


@pytest.fixture
def recorded(unpacked):
    """Return a function that finds a recorded cell by the beginning of its name."""

    def find(begin: str) -> Path:
        (found,) = unpacked.glob(f"{begin}*")
        return found

    return find


@pytest.fixture
def campaign_folder(tmp_path, monkeypatch):
    """Return an empty campaign's folder, in which losslab runs."""
    folder = tmp_path / "campaign"
    folder.mkdir()
    (folder / extensions.MARK).touch()
    monkeypatch.setenv(extensions.VARIABLE, str(folder))
    extensions.trust(folder)
    record = extensions._record_of_trust(folder)
    yield folder
    record.unlink()


@pytest.fixture(scope="module")
def shared_guests():
    """Boot one guest for all commands of a module, as the workflow does for its cells."""
    with snapshot_server.serving() as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Return a function that makes a folder once in a run of pytest, for all of its workers."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def once(name, make):
        folder, made = base / name, base / f"{name}.made"
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                made.touch()
        return folder

    return once


# Groups that take minutes start first, so that no worker runs one alone at the end.
LONGEST = (
    "tests/e2e/test_workflow.py", "tiny campaign", "tests/test_missing.py", "tests/test_r.py",
    "tests/test_linters.py",
)  # fmt: skip


# Runs before pytest-xdist's hook of the same name, which reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Group tests that share a fixture of a module, so that one worker runs them; sort groups."""
    for item in items:
        shared = [
            fixture
            for fixtures in item._fixtureinfo.name2fixturedefs.values()
            for fixture in fixtures
            if fixture.baseid == item.nodeid.split("::")[0] and fixture.scope != "function"
        ]
        if shared and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))
    items.sort(key=place)


def place(item):
    """Return the place of a test's group or file among the longest, or else after them."""
    names = [item.nodeid.split("::")[0]]
    names += [name for mark in item.iter_markers("xdist_group") for name in mark.args]
    return min((LONGEST.index(name) for name in names if name in LONGEST), default=len(LONGEST))
