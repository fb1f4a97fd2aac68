"""Fixtures of the repository's tests, for the tests of plug-ins."""

from tests.conftest import once, recorded, root, shared_guests, unpacked  # noqa: F401
