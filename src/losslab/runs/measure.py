"""`losslab measure`: measure a condition with one seed, or with many."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab import cellspec
from losslab.backends.snapshot import Snapshots
from losslab.campaign import halves, limiters, packets
from losslab.campaign.instrument import at_first_use, instrument, video
from losslab.campaign.replicate import run
from losslab.campaign.rerun import TRUST
from losslab.campaign.results import Replicate
from losslab.emulation.app import apps
from losslab.reading import CONTROL, UsageError, out_folder
from losslab.runs import seeds
from losslab.study import dictionary, metrics, runlength, units
from losslab.study.condition import AXES, Condition
from losslab.ui import plot, runsummary

# The manifest of a run, as `campaign.replicate.run` returns it.
Manifest = Mapping[str, Any]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `measure`."""
    usage = "%(prog)s --algorithm NAME --out FOLDER [OPTION ...]"
    measure = commands.add_parser("measure", usage=usage)
    groups = dictionary.add_options(measure)
    run_options = groups["run"].add_argument
    run_options("--seed", type=cellspec.SEED, help="seed of all random draws (default 1)")
    run_options(
        "--seeds", help="measure once with each of these seeds, such as 1:40, into OUT/SEED"
    )
    run_options(
        "--until-fail", action="store_true", help="stop at the first of --seeds that is invalid"
    )
    cellspec.cores_option(groups["run"], "runs of --seeds")
    measure.add_argument("--out", type=out_folder, required=True, help="new folder of the results")
    cellspec.backend_options(groups["instrument"])
    limit = units.number_option("timeout-s", above=0)
    run_options("--timeout-s", type=limit, help="wall-clock limit of the guest")
    run_options(
        "--capture", action="append", default=[], metavar="LINK",
        help="capture an interface's packets, such as r1-r2, in capture-LINK.pcap, or the state of "
        "the congestion control (`state`); may be repeated",
    )  # fmt: skip
    measure.add_argument(
        "--left-out", action="append", default=[], metavar="TEXT",
        help="what the source of this path has and these options lack, as `losslab path from-tc` "
        "prints it; kept with the run and printed; may be repeated",
    )  # fmt: skip
    measure.add_argument("--json", action="store_true", help="print the metrics as JSON")
    # Without a length of the user's, the rule gives one.
    measure.set_defaults(duration_s=None, warmup_s=None)
    measure.set_defaults(run=_measure, interrupted="the unfinished run was removed")


def _measure(options: argparse.Namespace) -> int:
    given = [getattr(options, name) is not None for name in runlength.LENGTH_AXES]
    for name, is_given in zip(runlength.LENGTH_AXES, given, strict=True):
        if not is_given:
            setattr(options, name, AXES[name].default)
    (condition,), note = runlength.with_length([cellspec.condition_of(options)], *given)
    if note:
        print(f"losslab: {note}", file=sys.stderr)
    if options.seeds is not None:
        return _many(options, condition)
    if options.until_fail:
        raise UsageError("--until-fail needs several seeds", hint="add --seeds 1:100")
    with cellspec.claimed(options.out):
        manifest = _runner(options, condition)(options.seed or 1, options.out, None)
    for reason in manifest["reasons"]:
        print(f"losslab: invalid: {reason}", file=sys.stderr)
    if options.json:
        print(json.dumps(manifest["summary"], indent=1, sort_keys=True))
    else:
        plot.say(runsummary.text(manifest, options.out))
    replicate = Replicate(options.out)
    for warning in (*replicate.left_out, *halves.warnings([replicate], condition)):
        print(f"losslab: warning: {warning}", file=sys.stderr)
    return 0 if manifest["valid"] else 1


def _runner(
    options: argparse.Namespace, condition: Condition
) -> Callable[[int, Path, Snapshots | None], Manifest]:
    """Return what measures a seed into a folder; the instrument and the names are checked."""
    captures = packets.links(options.capture, condition, options.where)
    at_first_use(condition, options.backend, options.where)
    tools = instrument(options.backend, options.where, condition)
    movie = video(condition, tools, options.timeout_s)

    def measured(seed: int, out: Path, snapshots: Snapshots | None) -> Manifest:
        return run(
            condition, seed, out, tools, movie, options.timeout_s, attempts=1, captures=captures,
            snapshots=snapshots, left_out=options.left_out,
        )  # fmt: skip

    return measured


def _many(options: argparse.Namespace, condition: Condition) -> int:
    """Measure seeds into folders of their own; print each, and what to do with an invalid one."""
    if options.seed is not None:
        raise UsageError("--seed and --seeds exclude each other")
    chosen = seeds.parsed(options.seeds)
    if cellspec.on_own_kernel(options.backend, options.where) and options.cores > 1:
        raise UsageError(
            "runs on this machine's own kernel must be one at a time, found "
            f"--cores {options.cores}",
            hint="add --cores 1",
        )
    manifests = list[Manifest]()
    with cellspec.claimed(options.out):
        measured = _runner(options, condition)

        def one(seed: int, snapshots: Snapshots) -> Manifest:
            return measured(seed, options.out / str(seed), snapshots)

        def is_last(manifest: Manifest) -> bool:
            return bool(options.until_fail) and not manifest["valid"]

        for manifest in seeds.in_order(one, chosen, options.cores, is_last):
            manifests.append(manifest)
            if not options.json:
                plot.say(line(manifest))
        # Beside the last one, later seeds were under way.
        for seed in {*chosen} - {each["seed"] for each in manifests}:
            shutil.rmtree(options.out / str(seed), ignore_errors=True)
    if options.json:
        rows = [
            {name: each[name] for name in ("seed", "valid", "reasons", "summary")}
            for each in manifests
        ]
        print(json.dumps(rows, indent=1, sort_keys=True))
    else:
        plot.say("\n".join(ending(manifests, options.out)))
    runs = [Replicate(options.out / str(each["seed"])) for each in manifests]
    for warning in (*runs[0].left_out, *halves.of_runs(runs), *limiters.of_runs(runs)):
        print(f"losslab: warning: {warning}", file=sys.stderr)
    return int(not all(manifest["valid"] for manifest in manifests))


def line(manifest: Manifest) -> str:
    """Return the line of a seed: its main metric, or the first violation."""
    name = metrics.primary([manifest["summary"]])
    value, metric = metrics.value(manifest["summary"], name), metrics.declared()[name]
    number = "" if value is None else f"{metric.label} {value:.4g} {metric.unit}".rstrip()
    reasons = [CONTROL.sub("?", reason) for reason in manifest["reasons"]]
    text = number if manifest["valid"] else reasons[0]
    return f"seed {manifest['seed']:<5} {'valid' if manifest['valid'] else 'invalid':<8} {text}"


def ending(manifests: Sequence[Manifest], out: Path) -> Iterable[str]:
    """Yield the count of valid runs, and how to repeat an invalid run and find its cause."""
    valid, invalid = (
        [each["seed"] for each in manifests if each["valid"] is wanted] for wanted in (True, False)
    )
    yield f"{len(valid)} valid, {len(invalid)} invalid of {len(manifests)} seeds"
    if not invalid:
        return
    condition = Condition.from_json(manifests[0]["cell"])
    # Programs of the user's run only on request.
    trust = f" {TRUST}" if apps()[condition.app].foreign(condition) else ""
    failed = shlex.quote(str(out / str(invalid[0])))
    yield f"repeat the first invalid one: losslab rerun {failed}{trust}"
    if valid:
        passed = shlex.quote(str(out / str(valid[0])))
        yield f"the first packet that differs: losslab divergence {passed} {failed}{trust}"
