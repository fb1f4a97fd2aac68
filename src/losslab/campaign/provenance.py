"""Provenance of a campaign: tables of its instrument, machines and dates, and digests of cells."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.campaign import records, results
from losslab.campaign.results import digest_of
from losslab.campaign.tables import write_csv
from losslab.reading import read_rows

COLUMNS = ("part", "what", "cells")
DIGEST_COLUMNS = ("study", "cell", "digest")
# Leading digits of a digest: two of 10^4 cells agree by chance once in 10^7 campaigns.
SHOWN_DIGITS = 12
# Programs of the image that generate or shape traffic.
PROGRAMS = ("iperf3", "ffmpeg", "curl", "iproute2", "mininet")
FIRST = ("not measured here", "measured on", "time", "losslab", "machine", "kernel", "BBR")

Part = tuple[str, str]


@dataclass(frozen=True)
class Origin:
    """The content of a cell.json, and the host.json of each of its replicates."""

    content: dict[str, Any]
    hosts: list[dict[str, Any]]
    recorded: Path | None = None  # the folder of recorded numbers that the cell is from


def parts_of(instrument: dict[str, Any]) -> Iterable[Part]:
    """Yield the parts of a replicate's instrument with their versions."""
    kernel = instrument.get("kernel") or {}
    if "version" in kernel:
        patches = kernel.get("patches", [])
        yield "kernel", f"Linux {kernel['version']} with {len(patches)} patches of ours"
        bbr_patches = [patch for patch in patches if "bbr" in patch.lower()]
        own = f"version 1, tcp_bbr.c of Linux {kernel['version']}"
        yield "BBR", f"as in {', '.join(bbr_patches)}" if bbr_patches else own
    if "config_sha256" in kernel:
        yield "kernel's configuration", str(kernel["config_sha256"])[:12]
    image = instrument.get("image") or {}
    packages = image.get("packages", {})
    for name in PROGRAMS:
        if name in packages:
            yield name, packages[name]
    if "packages_sha256" in image:
        yield "image's packages", str(image["packages_sha256"])[:12]


def host_parts(host: dict[str, Any]) -> Iterable[Part]:
    """Yield the machine of a replicate and its version of losslab, from host.json."""
    git = host.get("git") or {}
    if git.get("commit"):
        state = " with changes" if git.get("dirty") else ""
        yield "losslab", f"{host['losslab']}, commit {git['commit'][:12]}{state}"
    else:
        yield "losslab", host["losslab"]
    yield "machine", f"{host['host_cpu']}, Linux {host['host_kernel']}"


def origins(
    overviews: Sequence[Path], folder: Path, recorded: Path | None = None
) -> Iterable[Origin]:
    """Yield the cells in tables of cells that were measured here, or have recorded numbers."""
    for overview in overviews:
        rows = [row for row in read_rows(overview, columns=("study", "cell")) if row["cell"]]
        known = records.of_overview(rows, recorded)
        for row in rows:
            path = results.cell_file(folder, row["study"], row["cell"])
            if row["cell"] in known:
                one = known[row["cell"]]
                yield Origin(one.content, one.hosts, recorded)
            elif path.is_file():
                cell = results.read_cell(path).checked()
                yield Origin(cell.content, [each.host for each in cell.replicates])


def table(cells: Iterable[Origin]) -> list[dict[str, Any]]:
    """Count the cells measured with each part of the instrument, on each machine and day."""
    counts: Counter[Part] = Counter()
    days: list[str] = []
    wall_s = 0.0
    count = 0
    for cell in cells:
        count += 1
        found: dict[Part, None] = {}
        for row in cell.content["replicates"]:
            found |= dict.fromkeys(parts_of(row["instrument"]))
        for host in cell.hosts:
            found |= dict.fromkeys(host_parts(host))
            days.append(host["started_utc"][:10])
            wall_s += host.get("wall_s") or 0.0
        if cell.recorded is not None:
            found["not measured here", f"numbers recorded in {cell.recorded}"] = None
        counts.update(list(found))
    if days:
        span = min(days) if min(days) == max(days) else f"{min(days)} to {max(days)}"
        counts["measured on", span] = count
        hours, minutes = divmod(max(1, round(wall_s / 60)), 60)
        duration = f"{hours} h {minutes} min" if hours else f"{minutes} min"
        counts["time", f"{duration}, the runs one after the other"] = count
    # The parts in FIRST come first, the others in the order of their occurrence.
    order = {part: place for place, (part, _) in enumerate(counts)}
    order |= {part: place - len(FIRST) for place, part in enumerate(FIRST)}
    ranked = sorted(counts.items(), key=lambda item: (order[item[0][0]], -item[1]))
    return [{"part": part, "what": what, "cells": count} for (part, what), count in ranked]


def digests(cells: Iterable[Origin]) -> list[dict[str, Any]]:
    """Return a digest of each cell's results; equal results have equal digests on all machines."""
    rows = []
    for cell in (each.content for each in cells):
        # Without the number of attempts, which depends on the machine.
        measured = [[run["seed"], run["valid"], run["summary"]] for run in cell["replicates"]]
        digest = digest_of([cell["condition"], measured])[:SHOWN_DIGITS]
        rows.append({"study": cell["study"], "cell": cell["cell"], "digest": digest})
    return rows


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `origin`, which writes the tables."""

    def run(options: argparse.Namespace) -> int:
        found = list(origins(options.overviews, options.results, options.recorded))
        write_csv(options.out, COLUMNS, table(found))
        if options.digests is not None:
            write_csv(options.digests, DIGEST_COLUMNS, digests(found))
        return 0

    command = commands.add_parser("origin")
    command.add_argument("overviews", nargs="+", type=Path, help="tables of studies' cells")
    command.add_argument("--results", type=Path, default=Path("results"))
    command.add_argument("--recorded", type=Path, help="folder of recorded numbers")
    command.add_argument(
        "--out", type=Path, required=True, help="table to write: part, what, cells"
    )
    command.add_argument("--digests", type=Path, help="table to write: study, cell, digest")
    command.set_defaults(run=run)
