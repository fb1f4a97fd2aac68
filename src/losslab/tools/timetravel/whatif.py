"""`losslab whatif`: other futures of a replicate, branched off in the middle of its traffic.

The replicate is repeated up to the cut. Its untouched future must equal the recorded bytes; then
each change runs in a future of its own. Futures with losses drawn anew are compared in pairs: with
and without the change, draw by draw.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from losslab import cellspec
from losslab.backends.base import Instrument
from losslab.campaign import rerun
from losslab.campaign.instrument import kernel_of
from losslab.campaign.results import MANIFEST_FILE, read_manifest
from losslab.emulation import droplist
from losslab.errors import LosslabError
from losslab.lock import own_folder
from losslab.reading import UsageError, out_folder, whole_option
from losslab.repository import ROOT
from losslab.study import design, metrics, units
from losslab.study.condition import AXES, Condition
from losslab.study.intervals import Interval, difference_interval
from losslab.tools.timetravel import futures
from losslab.tools.timetravel.futures import REDRAWN, UNTOUCHED, Change, Future, Past

# Parts of a manifest that follow from the measurement, not from the instrument.
MEASURED = ("cell", "seed", "summary", "observed", "plan", "reasons", "valid")
MAX_DRAWS = 1000
HEAD = ("future", "n", "{}", "effect", "95 % CI", "drops", "retransmits")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `whatif`."""
    command = commands.add_parser("whatif")
    command.add_argument("replicate", metavar="RUN", type=Path, help="a replicate's folder")
    command.add_argument(
        "--at", type=units.number_option("at-s", above=0), required=True, metavar="S",
        help="time of the cut in s, on the clock of the replicate's tables",
    )  # fmt: skip
    for name, meaning in (("drop", "drop these packets"), ("spare", "do not drop these packets")):
        command.add_argument(
            f"--{name}", action="append", default=[], metavar="N[,N...]",
            help=f"a future: {meaning} (data packets; ack:N for acknowledgements); may be repeated",
        )  # fmt: skip
    command.add_argument(
        "--set", action="append", default=[], metavar="loss_percent=X",
        help="a future: another random loss from then on; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--algorithm", action="append", default=[], metavar="NAME",
        help="a future: another congestion control from then on; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--seeds", type=whole_option("seeds", 0, MAX_DRAWS), default=0, metavar="N",
        help="draw the losses after the cut anew, N times, for each future and without a change",
    )  # fmt: skip
    command.add_argument("--list", action="store_true", help="list the drops after the cut; stop")
    command.add_argument("--metric", help="metric to compare; default: the app's main metric")
    command.add_argument("--out", type=out_folder, help="keep the futures in this new folder")
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=_whatif, interrupted="futures that are complete are kept in --out")


def _whatif(options: argparse.Namespace) -> int:
    recorded = Recorded.of(options)
    changes = [*_changes(options, recorded.condition)]
    # The untouched future has the summary of the recorded replicate.
    metric = options.metric or metrics.primary([recorded.manifest["summary"]])
    metrics.require_declared(metric, [recorded.manifest["summary"]])
    with recorded.cut(options.at, options.out) as (past, untouched, out):
        if options.list:
            _print_drops(untouched, options)
            return 0
        for change in changes:
            _require_dropped_later(change.spare, untouched, options.at)
        futures_by_change = _run(past, changes, options.seeds, out)
        for futures in futures_by_change:
            _note_not_dropped(futures[0], options.at)
        rows = [*compare(untouched, futures_by_change, metric, options.at)]
    if options.json:
        print(json.dumps([*map(as_json, rows)], indent=1))
        return 0
    print(text(rows, metric))
    print(f"\nThe untouched future has the bytes of {options.replicate}. Cut at {options.at:g} s;")
    if options.seeds:
        print(f"effects: mean of {options.seeds} pairs with the same losses drawn after the cut.")
    else:
        print("effects: exact differences to the untouched future; --seeds tests other losses.")
    return 0


@dataclass(frozen=True)
class Recorded:
    """A recorded replicate whose futures are asked for."""

    folder: Path
    manifest: dict[str, Any]
    condition: Condition
    prepared: tuple[Condition, Instrument, Path | None]

    @classmethod
    def of(cls, options: argparse.Namespace) -> Recorded:
        """Read the replicate of a command's options; UsageError if its `--out` exists."""
        given: Path = options.replicate
        manifest = rerun.load_manifest(given)
        rerun.require_result(manifest, "the run")
        if options.out is not None:
            cellspec.refuse_existing(options.out)
        folder = given if given.is_dir() else given.parent
        condition = Condition.from_json(manifest["cell"])
        return cls(folder, manifest, condition, rerun.ready(manifest, options.trust))

    @contextlib.contextmanager
    def cut(self, at_s: float, out: Path | None = None) -> Iterator[tuple[Past, Future, Path]]:
        """Repeat it up to a cut; yield the past, the untouched future, and the futures' folder.

        The time is on the clock of its tables. Without `out`, the folder exists only during the
        block. Raises LosslabError if the untouched future is not the recorded replicate.
        """
        with own_folder(Path(tempfile.gettempdir()), "losslab-past-") as work:
            (work / "past").mkdir()
            with futures.past(self.manifest, self.prepared, at_s, work / "past") as past:
                out = out or work / "futures"
                untouched = past.run(UNTOUCHED, out / "untouched")
                require_same(self.folder, untouched.folder, self.manifest)
                yield past, untouched, out


def require_same(original: Path, untouched: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a past whose untouched future is not the recorded replicate.

    Raises LosslabError if a file differs, or a part of the manifest that does not name the
    instrument.
    """
    different = rerun.compare(original, untouched).different
    different.pop(MANIFEST_FILE, None)
    now = read_manifest(untouched / MANIFEST_FILE)
    different |= {part: "differs" for part in MEASURED if manifest.get(part) != now.get(part)}
    if different:
        problems = "; ".join(f"{name}: {what}" for name, what in different.items())
        changed = "; ".join(rerun.changes(dict(manifest), now)) or "the instrument is the same"
        raise LosslabError(
            f"the untouched future must equal the recorded replicate, found: {problems}",
            hint=f"measure it again with this version of losslab ({changed})",
        )


def _changes(options: argparse.Namespace, condition: Condition) -> Iterator[Change]:
    """Yield the changes that the options ask for."""
    for text in options.drop:
        yield Change(f"drop {text}", drop=packets(text))
    for text in options.spare:
        yield Change(f"spare {text}", spare=packets(text))
    for text in options.set:
        name, _, value = text.partition("=")
        if name != "loss_percent":
            raise UsageError(
                f"--set must be loss_percent=X, found {text}",
                hint="the axis `changes` schedules changes of rate and RTT from the start",
            )
        loss = units.option(name, value)
        if problems := AXES[name].problems(loss):
            raise UsageError("; ".join(problems))
        yield Change(f"loss {loss:g} %", loss_percent=loss)
    known = design.load_names(ROOT).algorithms
    for name in options.algorithm:
        other = Condition.from_json(condition.to_json() | {"algorithm": name})
        has, needs = kernel_of(condition), kernel_of(other)
        added = set(needs.algorithms) <= set(has.algorithms)
        if name not in known or needs.base != has.base or not added:
            raise UsageError(
                f"--algorithm must be one of the replicate's kernel, found {name}",
                hint="`config/algorithms.tsv` has the algorithms and their kernels; one of yours "
                "is in the kernel of its own runs: take such a run, and name the other one",
            )
        yield Change(f"algorithm {name}", algorithm=name)


def packets(text: str) -> dict[str, tuple[int, ...]]:
    """Parse packets of a direction: `57,58` or `ack:3`; UsageError if the text has another form."""
    way, _, numbers = text.rpartition(":")
    try:
        return droplist.parse(f"{way or 'data'} {numbers}")
    except LosslabError as error:
        raise UsageError(
            error.message, hint="write data packets as 57,58 and others as ack:3"
        ) from error


def _require_dropped_later(spared: droplist.Lists, untouched: Future, at_s: float) -> None:
    later = {(drop.direction, drop.number) for drop in untouched.drops if drop.t_s > at_s}
    wanted = {(way, each) for way, numbers in spared.items() for each in numbers}
    if missing := sorted(wanted - later):
        raise UsageError(
            "--spare must name packets that were dropped after the cut, found "
            + ", ".join(f"{way} {each}" for way, each in missing),
            hint="`losslab whatif RUN --at S --list` lists them",
        )


def _note_not_dropped(future: Future, at_s: float) -> None:
    """Say on standard error which packets a future was to drop, but did not."""
    dropped = {(drop.direction, drop.number) for drop in future.drops if drop.t_s > at_s}
    wanted = ((way, each) for way, numbers in future.change.drop.items() for each in numbers)
    for way, each in sorted({*wanted} - dropped):
        print(
            f"losslab: note: {future.change.label}: {way} packet {each} was not dropped, because "
            "it was sent before the cut or never",
            file=sys.stderr,
        )


def _run(past: Past, changes: Sequence[Change], draws: int, out: Path) -> list[list[Future]]:
    """Run all futures, by change; with draws, those without a change come first."""
    numbers: list[int | None] = [*range(1, draws + 1)] or [None]
    wanted = [
        (each, out / _name(each) / (f"{draw:03}" if draw else ""), draw)
        for each in ((REDRAWN, *changes) if draws else changes)
        for draw in numbers
    ]
    futures = past.run_all(wanted)
    return [futures[at : at + len(numbers)] for at in range(0, len(futures), len(numbers))]


def _name(change: Change) -> str:
    """Return the name of a change's folder."""
    return re.sub(r"[^a-zA-Z0-9.]+", "-", change.label).strip("-")[:80]


def _print_drops(untouched: Future, options: argparse.Namespace) -> None:
    later = [drop for drop in untouched.drops if drop.t_s > options.at]
    if options.json:
        print(json.dumps([vars(drop) for drop in later], indent=1))
        return
    rows = [(drop.direction, drop.number, f"{drop.t_s:.6f}", drop.size_bytes) for drop in later]
    print(tabulate(rows, ("direction", "packet", "time (s)", "bytes"), tablefmt="plain"))


@dataclass(frozen=True)
class Row:
    """A change's futures, compared with the same futures without it."""

    change: str
    values: list[float]
    effects: list[float]  # empty for futures without a change
    drops: float  # mean number of packets dropped after the cut
    retransmits: float | None

    @property
    def interval(self) -> Interval | None:
        """Return the confidence interval of the mean effect; None for few draws."""
        return difference_interval(self.effects)


def compare(
    untouched: Future, found: Sequence[Sequence[Future]], metric: str, at_s: float
) -> Iterator[Row]:
    """Yield the table's rows: the untouched future, and each change's."""
    yield _row([untouched], [], metric, at_s)
    for its in found:
        drawn = its[0].draw is not None
        compared = found[0] if drawn else [untouched]
        yield _row(its, [] if its[0].change is REDRAWN else compared, metric, at_s)


def _row(its: Sequence[Future], bases: Sequence[Future], metric: str, at_s: float) -> Row:
    values, before = ([_value(each, metric) for each in group] for group in (its, bases))
    drops = [sum(drop.t_s > at_s for drop in each.drops) for each in its]
    again = [metrics.value(each.manifest["summary"], "retransmits") for each in its]
    counted = [each for each in again if each is not None]
    return Row(
        its[0].change.label, values, [a - b for a, b in zip(values, before, strict=False)],
        statistics.fmean(drops), statistics.fmean(counted) if counted else None,
    )  # fmt: skip


def _value(future: Future, metric: str) -> float:
    value = metrics.value(future.manifest["summary"], metric)
    if value is None or not future.manifest["valid"]:
        reasons = "; ".join(future.manifest["reasons"]) or f"no {metric}"
        raise LosslabError(f"the future {future.folder} must be valid, found: {reasons}")
    return value


def as_json(row: Row) -> dict[str, Any]:
    """Return a row as JSON-ready data."""
    return {
        "future": row.change, "draws": len(row.values), "value": statistics.fmean(row.values),
        "values": row.values, "effect": statistics.fmean(row.effects) if row.effects else None,
        "effect_interval": row.interval, "drops_after_cut": row.drops,
        "retransmits": row.retransmits,
    }  # fmt: skip


def text(rows: Sequence[Row], metric: str) -> str:
    """Return rows as a table for the terminal."""
    cells = [
        (
            row.change,
            len(row.values),
            f"{statistics.fmean(row.values):.4g}",
            f"{statistics.fmean(row.effects):+.4g}" if row.effects else "",
            "{:+.4g} to {:+.4g}".format(*row.interval) if row.interval else "",
            f"{row.drops:.4g}",
            "" if row.retransmits is None else f"{row.retransmits:.4g}",
        )
        for row in rows
    ]
    head = [each.format(metrics.declared()[metric].title) for each in HEAD]
    return str(tabulate(cells, head, tablefmt="plain", disable_numparse=True))
