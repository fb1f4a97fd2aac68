"""Exceptions that reach the user as a sentence instead of a traceback."""

from collections.abc import Iterable

# Largest number of similar names to suggest, and their least similarity (difflib's ratio).
CLOSE_NAMES, CLOSENESS = 3, 0.7


def did_you_mean(found: str, names: Iterable[str]) -> str:
    """Return "; did you mean X?" with the names most similar to a misspelt one, or ""."""
    import difflib  # here, because only errors need it, and guests import this module

    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(found.lower(), by_lower, CLOSE_NAMES, CLOSENESS)
    return f"; did you mean {' or '.join(by_lower[name] for name in close)}?" if close else ""


class LosslabError(Exception):
    """Error with a message (what must hold, what was found, where) and a `hint` at the fix."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.hint}" if self.hint else self.message


class HostError(LosslabError):
    """Failure of the host or the instrument, which says nothing about the condition.

    It never becomes a row of a study: the job fails and is retried at the next start.
    """


class GuestLostError(LosslabError):
    """Guest that began its job and ended without a result, by its own or the host's fault."""
