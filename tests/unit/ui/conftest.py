"""Recorded cells in a campaign's layout."""

from pathlib import Path

import pytest

from tests.golden import seam


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory) -> Path:
    """Return a project whose results/cells has the recorded study."""
    folder = tmp_path_factory.mktemp("recorded")
    return seam.unpack(folder)


@pytest.fixture
def recorded(unpacked):
    """Return a function that finds a recorded cell by the beginning of its name."""

    def find(begin: str) -> Path:
        (found,) = unpacked.glob(f"{begin}*")
        return found

    return find
