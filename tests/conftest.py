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
