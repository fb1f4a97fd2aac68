"""The one exception that reaches a user as a sentence instead of a traceback."""


class LosslabError(Exception):
    """What must hold, what was found and where, and in `hint` what mends it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.hint}" if self.hint else self.message


class GuestLostError(LosslabError):
    """A guest ended without a result: it hung, panicked or was killed. The host may be to blame."""
