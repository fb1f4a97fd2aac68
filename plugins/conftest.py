"""Fixtures of the repository's tests, for the tests of plug-ins."""

from tests.conftest import once, root, shared_guests  # noqa: F401
