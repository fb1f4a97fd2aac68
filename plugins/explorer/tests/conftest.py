"""Recorded cells in a campaign's layout."""

from tests.unit.ui.conftest import recorded, unpacked  # noqa: F401
