"""Provenance of a campaign: tables of its instrument, machines and dates, and digests of cells."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from losslab.campaign import integrity
from losslab.campaign.collect import write_csv
from losslab.campaign.documents import read_cell, read_host
from losslab.campaign.folder import HOST_FILE, digest_of
from losslab.reading import read_rows

COLUMNS = ("part", "what", "cells")
DIGEST_COLUMNS = ("study", "cell", "digest")
# Leading digits of a digest: two of 10^4 cells agree by chance once in 10^7 campaigns.
SHOWN_DIGITS = 12
# Programs of the image that generate or shape traffic.
PROGRAMS = ("iperf3", "ffmpeg", "curl", "iproute2", "mininet")
FIRST = ("measured on", "time", "losslab", "machine", "kernel", "BBR")

Part = tuple[str, str]


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


def records(overviews: Sequence[Path], results: Path) -> Iterable[Path]:
    """Yield the existing cell.json files of the cells in tables of cells."""
    for overview in overviews:
        for row in read_rows(overview, columns=("study", "cell")):
            if row["cell"]:
                path = results / "cells" / row["study"] / row["cell"] / "cell.json"
                if path.is_file():
                    yield path


def table(cells: Iterable[Path]) -> list[dict[str, Any]]:
    """Count the cells that were measured with each part of the instrument, on each machine and day.

    `cells` are the cell.json files, each in its cell's folder.
    """
    counts: Counter[Part] = Counter()
    days: list[str] = []
    wall_s = 0.0
    paths = list(cells)
    for path in paths:
        rows = integrity.read_cell(path)["replicates"]
        found: dict[Part, None] = {}
        for row in rows:
            found |= dict.fromkeys(parts_of(row["instrument"]))
        for run in range(len(rows)):
            record = path.parent / str(run) / HOST_FILE
            if record.is_file():
                host = read_host(record)
                found |= dict.fromkeys(host_parts(host))
                days.append(host["started_utc"][:10])
                wall_s += host.get("wall_s") or 0.0
        counts.update(list(found))
    if days:
        span = min(days) if min(days) == max(days) else f"{min(days)} to {max(days)}"
        counts["measured on", span] = len(paths)
        hours, minutes = divmod(max(1, round(wall_s / 60)), 60)
        duration = f"{hours} h {minutes} min" if hours else f"{minutes} min"
        counts["time", f"{duration}, the runs one after the other"] = len(paths)
    # The parts in FIRST come first, the others in the order of their occurrence.
    order = {part: place for place, (part, _) in enumerate(counts)}
    order |= {part: place - len(FIRST) for place, part in enumerate(FIRST)}
    ranked = sorted(counts.items(), key=lambda item: (order[item[0][0]], -item[1]))
    return [{"part": part, "what": what, "cells": count} for (part, what), count in ranked]


def digests(cells: Iterable[Path]) -> list[dict[str, Any]]:
    """Return a digest of each cell's results; equal results have equal digests on all machines."""
    rows = []
    for path in cells:
        cell = read_cell(path)
        # Without the number of attempts, which depends on the machine.
        measured = [[run["seed"], run["valid"], run["summary"]] for run in cell["replicates"]]
        digest = digest_of([cell["condition"], measured])[:SHOWN_DIGITS]
        rows.append({"study": cell["study"], "cell": cell["cell"], "digest": digest})
    return rows


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `origin`, which writes the tables."""

    def run(options: argparse.Namespace) -> int:
        found = list(records(options.overviews, options.results))
        write_csv(options.out, COLUMNS, table(found))
        if options.digests is not None:
            write_csv(options.digests, DIGEST_COLUMNS, digests(found))
        return 0

    command = commands.add_parser(
        "origin", help="write a table of the instrument, machines and dates of cells"
    )
    command.add_argument("overviews", nargs="+", type=Path, help="tables of studies' cells")
    command.add_argument("--results", type=Path, default=Path("results"))
    command.add_argument(
        "--out", type=Path, required=True, help="table to write: part, what, cells"
    )
    command.add_argument("--digests", type=Path, help="table to write: study, cell, digest")
    command.set_defaults(run=run)
