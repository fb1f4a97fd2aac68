"""Exceptions that reach the user as a sentence instead of a traceback."""


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
