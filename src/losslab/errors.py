"""Exceptions that reach the user as a sentence instead of a traceback."""

from collections.abc import Iterable

# Largest number of similar names to suggest, and their least similarity (difflib's ratio).
CLOSE_NAMES, CLOSENESS = 3, 0.7
# Words that people use for the same thing.
SAME = (
    {"rate", "bandwidth", "capacity"}, {"rtt", "latency", "delay"},
    {"seeds", "replicates", "runs", "repetitions"}, {"algorithm", "algo", "cc", "cca"},
    {"duration", "time", "length"}, {"competitor", "cross", "background"},
)  # fmt: skip


def did_you_mean(found: str, names: Iterable[str]) -> str:
    """Return "; did you mean X?" with the names most similar to a misspelt one, or "".

    Names that begin with its words, or with others for the same, come first.
    """
    import difflib  # here, because only errors need it, and guests import this module

    by_plain = {_plain(name): name for name in names}
    spellings = synonyms(_plain(found))
    begun = [
        plain for word in spellings for plain in by_plain if f"{plain}_".startswith(f"{word}_")
    ]
    close = difflib.get_close_matches(spellings[0], by_plain, CLOSE_NAMES, CLOSENESS)
    similar = [by_plain[plain] for plain in dict.fromkeys([*begun, *close])][:CLOSE_NAMES]
    return f"; did you mean {' or '.join(similar)}?" if similar else ""


def synonyms(name: str) -> list[str]:
    """Return a name, and the same with other words for its first word."""
    first, _, rest = name.partition("_")
    others = sorted({word for group in SAME if first in group for word in group} - {first})
    return [name, *(f"{word}_{rest}".rstrip("_") for word in others)]


def _plain(name: str) -> str:
    return name.lower().strip("-").replace("-", "_")


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
