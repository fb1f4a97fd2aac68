"""Recorded cells, as a campaign leaves them."""

from pathlib import Path

import pytest

from tests.golden import seam


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory) -> Path:
    """A project whose results/cells has the recorded study."""
    folder = tmp_path_factory.mktemp("recorded")
    return seam.unpack(folder)


@pytest.fixture
def recorded(unpacked):
    """Give a recorded cell by how its name begins."""

    def find(begin: str) -> Path:
        (found,) = unpacked.glob(f"{begin}*")
        return found

    return find
