"""losslab measures how loss, delay, buffers and path shape affect TCP congestion control."""

TYPE_CHECKING = False  # as in `typing`, which guests need not import
if TYPE_CHECKING:
    from losslab.api import InvalidRunError, Results, Run, cross, measure, read, sweep
    from losslab.crossing import Crossing
    from losslab.errors import HostError, LosslabError
    from losslab.reading import UsageError
    from losslab.repository import __version__ as __version__

__all__ = [
    "Crossing", "HostError", "InvalidRunError", "LosslabError", "Results", "Run", "UsageError",
    "cross", "measure", "read", "sweep",
]  # fmt: skip
# Modules of the names. They are imported at the first use of a name: commands and guests need none.
_MODULES = dict.fromkeys(__all__, "losslab.api") | {
    "Crossing": "losslab.crossing", "HostError": "losslab.errors", "LosslabError": "losslab.errors",
    "UsageError": "losslab.reading", "__version__": "losslab.repository",
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a name of the Python interface."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """List all names, also those that are not imported yet."""
    return sorted({*globals(), *__all__})
