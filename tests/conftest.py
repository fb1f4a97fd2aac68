import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Tools of the environment that runs the tests, also when it is not activated.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


# Before pytest-xdist, which asks for the groups when its own hook of this name runs.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests that share what costs (a fixture of a module or of the session) together."""
    for item in items:
        shared = [
            fixture
            for fixtures in item._fixtureinfo.name2fixturedefs.values()
            for fixture in fixtures
            if fixture.baseid == item.nodeid.split("::")[0] and fixture.scope != "function"
        ]
        if shared:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.split("::")[0]))
