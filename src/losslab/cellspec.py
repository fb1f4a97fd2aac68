"""Condition and backend of a command line, checked before anything runs."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from losslab.backends.base import GUEST, VIRTUAL
from losslab.backends.registry import BACKENDS, NAMES, PLACES
from losslab.campaign import inputs
from losslab.errors import HostError, did_you_mean
from losslab.instrument.cache import locks
from losslab.lock import mark, marked, taken
from losslab.reading import UsageError, input_errors, shown, whole_option
from losslab.repository import ROOT, find
from losslab.study import design, runlength, units
from losslab.study.axes import short
from losslab.study.condition import AXES, Condition
from losslab.study.names import Names, load_algorithms, unusual_parameters

# Largest seed of a replicate; seeds that a campaign derives have 31 bits.
SEED_MAX = 2**63 - 1
SEED = whole_option("seed", minimum=0, maximum=SEED_MAX)


def backend_options(parser: argparse._ActionsContainer) -> None:
    """Add the options of the backend."""
    parser.add_argument("--backend", choices=NAMES, default=VIRTUAL)
    parser.add_argument(
        "--where",
        choices=PLACES,
        default=GUEST,
        help="guest: in virtual time; or this machine's own kernel in real time, as root",
    )


def on_own_kernel(backend: str, where: str) -> bool:
    """Return whether a backend measures on this machine's own kernel."""
    return not BACKENDS[backend, where].needs.guest


def cores_option(parser: argparse._ActionsContainer, what: str) -> None:
    """Add the option for the number of `what` to measure at a time."""
    parser.add_argument(
        "--cores", type=whole_option("cores", 1), default=len(os.sched_getaffinity(0)),
        help=f"{what} to measure at a time (default: all cores)",
    )  # fmt: skip


def require_algorithms(names: Sequence[str]) -> None:
    """Refuse names that are not in config/algorithms.tsv; they may have parameters."""
    available = [row["name"] for row in load_algorithms(find("config/algorithms.tsv"))]
    if unknown := [name for name in names if name.partition(",")[0] not in available]:
        raise UsageError(
            f"algorithms must be in config/algorithms.tsv ({', '.join(available)}), found "
            f"{', '.join(unknown)}{did_you_mean(unknown[0], available)}",
            hint="add your own with `losslab new algorithm NAME`",
        )


def condition(data: Any, names: Names | None = None, own_kernel: bool = False) -> Condition:
    """Make a condition from axes' values and defaults; refuse impossible ones.

    `names` are those of `design.load_names`. With `own_kernel`, this machine's own kernel measures.
    """
    if not isinstance(data, dict):
        raise UsageError(f"a condition must be a mapping of axes, found {shown(data)}")
    if unknown := sorted(data.keys() - AXES.keys()):
        raise UsageError(
            f"a condition must have only axes, found {shown(', '.join(unknown))}"
            + did_you_mean(unknown[0], AXES),
            hint="`losslab axes` lists them",
        )
    # Python decodes other bytes of an argument to lone surrogates, which have no encoding.
    texts = [value for value in data.values() if isinstance(value, str)]
    if wrong := [text for text in texts if text != text.encode(errors="replace").decode()]:
        raise UsageError(f"a condition's text must be UTF-8, found {shown(wrong[0])}")
    with input_errors():
        checked = Condition.from_json(units.resolved(data))
    names = names or design.load_names(ROOT)
    if problems := checked.problems() + names.problems(checked, own_kernel):
        raise UsageError("; ".join(dict.fromkeys(problems)))
    return checked


def condition_of(options: argparse.Namespace) -> Condition:
    """Make the condition from the axes' options."""
    for name in inputs.OF_FILES:
        setattr(options, name, inputs.value(name, getattr(options, name)))
    own_kernel = "where" in options and on_own_kernel(options.backend, options.where)
    axes = {name: getattr(options, name) for name in AXES}
    made = condition(axes, own_kernel=own_kernel)
    inputs.require([made])
    given = {name: [getattr(options, name)] for name in AXES}
    for note in (
        *units.notes(given, [made.to_json()]), *unusual_parameters(made),
        *inputs.notes(made),
    ):  # fmt: skip
        print(f"losslab: {note}", file=sys.stderr)
    return made


def measure_command(
    condition: Condition, seed: int, out: str = "reproduced", path_only: bool = False
) -> str:
    """Return the command that measures a condition.

    It has the default length, too, if `losslab measure` would choose another one without it; not if
    the condition is only that of a path, with no run that it repeats.
    """
    values = ((name, axis, getattr(condition, name)) for name, axis in AXES.items())
    warmed = condition.warmup_s != AXES["warmup_s"].default
    _, other_length = runlength.with_length([condition], False, warmed)
    words = [
        word
        for name, axis, value in values
        if value != axis.default or (name == "duration_s" and other_length and not path_only)
        for word in (f"--{name.replace('_', '-')}", short(value))
    ]
    return shlex.join(["losslab", "measure", *words, "--seed", str(seed), "--out", out])


@contextlib.contextmanager
def claimed(out: Path) -> Iterator[None]:
    """Reserve a new output folder, so that no other process of this user writes it meanwhile."""
    name = hashlib.sha256(os.fsencode(out.resolve())).hexdigest()
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(taken(locks() / f"out-{name}"))
        except BlockingIOError as error:
            raise UsageError(
                f"--out must name a new folder, found that another process measures into {out}",
                hint="choose another folder",
            ) from error
        except OSError as error:
            raise HostError(
                f"the cache must be a writable folder on a disk with file locks, found: {error}",
                hint="set LOSSLAB_CACHE to such a folder",
            ) from error
        refuse_existing(out)
        yield


def refuse_inside(given: Sequence[Path], out: Path) -> None:
    """Refuse files in the output folder, which losslab may replace."""
    inside = [path for path in given if path.resolve().is_relative_to(out.resolve())]
    if inside:
        raise UsageError(
            f"--out must be a folder without the command's input, found {inside[0]} in {out}",
            hint="choose another folder for --out",
        )


def refuse_not_own(out: Path) -> None:
    """Refuse an output folder that exists and that `make_own` did not make."""
    if os.path.lexists(out) and not (out.is_dir() and (marked(out) or not any(out.iterdir()))):
        raise UsageError(
            "--out must name a new folder, or that of an earlier start of this command, found "
            f"another one: {out}",
            hint="choose another folder; losslab removes and overwrites nothing of yours",
        )


def make_own(out: Path, purpose: str) -> None:
    """Make an output folder with losslab's mark, which a later start recognises."""
    out.mkdir(parents=True, exist_ok=True)
    if not marked(out):
        mark(out, purpose)


def refuse_existing(out: Path) -> None:
    """Refuse an existing output folder."""
    if out.exists():
        raise UsageError(
            f"--out must name a new folder, found that {out} exists",
            hint="remove it or choose another; losslab never overwrites results",
        )
