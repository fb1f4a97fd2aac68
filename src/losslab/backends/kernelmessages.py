"""Which messages of a guest's kernel make a run invalid."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

# The time since the boot, before a message on a console.
TIME = r"^(?:\[ *[0-9]+\.[0-9]+\] )?"
# Forms of messages after which a kernel measures nothing, for a console, which has no levels. Each
# begins so; "DEBUG: " or "WARNING: small cwnd" has other forms. WARN() of Linux 7 names the file
# first; the last form is of algorithms/compat.h.
TROUBLE = re.compile(
    TIME + r"(?:Kernel panic - |kernel BUG at |BUG: |Oops\b|Call Trace:"
    r"|Out of memory\b|WARNING: (?:CPU: [0-9]|\S+:[0-9]+ at |\S+ must take )).*$",
    re.MULTILINE,
)
# Warnings that are no trouble: Mininet's shaper has a netem in an HTB; an HTB of one class needs no
# quantum; a limit of messages counts those of any level; a guest's console reads /dev/null, which
# epoll refuses.
HARMLESS = re.compile(
    TIME + r"(?:htb: netem qdisc \S+ is non-work-conserving\?"
    r"|HTB: quantum of class \S+ is (?:big|small)\. Consider r2q change\."
    r"|epollctl add err fd 0, Operation not permitted"
    r"|\S+: [0-9]+ callbacks suppressed)$"
)


def violations(
    messages: dict[str, Any] | None, console: str, printed: Callable[[Sequence[str]], list[str]]
) -> list[str]:
    """Return the violation of the kernel's warnings in a run, if there are any.

    `messages` are those that the guest has read (`emulation.jobs.guest`); None without a guest. If
    the kernel has overwritten some of them, the forms of `TROUBLE` on the console count. `printed`
    returns those lines that a module of the user has printed.
    """
    if messages is None:
        return []
    warnings = list(messages["warnings"])
    of_module = set(printed(warnings))
    # Other warnings from before the run are those of a boot.
    troubles = [line for line in messages["earlier"] if TROUBLE.match(line)]
    troubles += [
        line for line in warnings
        if TROUBLE.match(line) or not (HARMLESS.match(line) or line in of_module)
    ]  # fmt: skip
    if messages["lost"]:
        lines = [match[0].strip() for match in TROUBLE.finditer(console)]
        troubles += [line for line in lines if line not in troubles]
    if not troubles:
        return []
    # The first with a form that names its place; a report begins with a line to cut along.
    first = next(filter(TROUBLE.match, troubles), troubles[0])
    more = f" (and {len(troubles) - 1} more lines in console.log)" if len(troubles) > 1 else ""
    return [f"the kernel must print no warning, found: {first}{more}"]
