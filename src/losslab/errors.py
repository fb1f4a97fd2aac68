"""The one exception that reaches a user as a sentence instead of a traceback."""


class LosslabError(Exception):
    """What must hold, what was found and where, and in `hint` what mends it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.hint}" if self.hint else self.message


class HostError(LosslabError):
    """The host or the instrument failed, and says nothing about what was to be measured.

    Never a row of a study: the job fails, and is tried again at the next start.
    """


class GuestLostError(LosslabError):
    """A guest began its job and ended without a result; it or the host may be to blame."""
