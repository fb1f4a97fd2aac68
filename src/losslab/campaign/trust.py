"""Which manifests may run here: only those that name none of their author's programs."""

from __future__ import annotations

from typing import Any

from losslab.backends.base import GUEST
from losslab.backends.known import BACKENDS
from losslab.campaign import brought
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study import design
from losslab.study.axes import NONE
from losslab.study.condition import Condition

OPTION = "--trust"
HELP = (
    "run what the manifest names besides losslab's own programs: commands of the app `command`, "
    "and jobs on this machine's own kernel"
)


def require_trusted(manifest: dict[str, Any], trust: bool) -> Condition:
    """Return the condition that a manifest asks to be measured, if it may be measured here.

    Algorithms, schemes, kernels, images and traces are names of this repository's own; a manifest
    cannot carry one. What it can carry is commands, a folder whose files they get, and the wish to
    be measured on this machine's own kernel.

    Args:
        manifest: Somebody else's, perhaps.
        trust: Whether the caller allows its author's programs.

    Raises:
        LosslabError: it names something that this repository does not have, or it would run
            programs of its author's without the caller's permission.
    """
    condition = Condition.from_json(manifest["cell"])
    problems = condition.problems() + design.load_names(design.ROOT).problems(condition)
    if problems:
        raise UsageError(
            f"a manifest must have a condition that can be measured, found: {'; '.join(problems)}"
        )
    place = manifest["backend"], manifest["instrument"].get("where", GUEST)
    if place not in BACKENDS:
        raise UsageError(
            "a manifest must name one of the backends "
            f"{', '.join(' '.join(each) for each in BACKENDS)}, found {' '.join(map(str, place))}"
        )
    found = [] if trust else _foreign(condition, own_kernel=BACKENDS[place].needs.kernel is None)
    if found:
        raise LosslabError(
            "a manifest may run only losslab's own programs, found one that would run:\n"
            + "\n".join(f"    {line}" for line in found),
            hint=f"if you trust its author, repeat the command with {OPTION}",
        )
    return condition


def _foreign(condition: Condition, own_kernel: bool) -> list[str]:
    """List what would run besides losslab's own programs; quoted, as it may hold control codes."""
    found = []
    if condition.app == "command":
        found += [
            f"on the receiver: {condition.receiver_command!r}",
            f"on the sender: {condition.sender_command!r}",
        ]
        if condition.bring != NONE:
            found.append(f"both with copies of the files in {brought.source(condition)}")
    if own_kernel:
        found.append("on this machine's own kernel, as root")
    return found
