"""What a campaign was measured with, where and when: a table from its replicates' own records."""

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
# Of a digest's 64 digits: two of 10^4 cells have the same by chance once in 10^7 campaigns.
SHOWN_DIGITS = 12
# Programs of the image that make or shape traffic; the others only serve them.
PROGRAMS = ("iperf3", "ffmpeg", "curl", "iproute2", "mininet")
FIRST = ("measured on", "time", "losslab", "machine", "kernel", "BBR")

Part = tuple[str, str]


def parts_of(instrument: dict[str, Any]) -> Iterable[Part]:
    """List the parts of a replicate's instrument with their versions."""
    kernel = instrument.get("kernel") or {}
    if "version" in kernel:
        patches = kernel.get("patches", [])
        yield "kernel", f"Linux {kernel['version']} with {len(patches)} patches of ours"
        others = [patch for patch in patches if "bbr" in patch.lower()]
        own = f"version 1, tcp_bbr.c of Linux {kernel['version']}"
        yield "BBR", f"as in {', '.join(others)}" if others else own
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
    """List what a replicate's record says of the machine and of this project."""
    git = host.get("git") or {}
    if git.get("commit"):
        state = " with changes" if git.get("dirty") else ""
        yield "losslab", f"{host['losslab']}, commit {git['commit'][:12]}{state}"
    else:
        yield "losslab", host["losslab"]
    yield "machine", f"{host['host_cpu']}, Linux {host['host_kernel']}"


def records(overviews: Sequence[Path], results: Path) -> Iterable[Path]:
    """List the cell.json files of the cells that tables of cells name, where they are there."""
    for overview in overviews:
        for row in read_rows(overview, columns=("study", "cell")):
            if row["cell"]:
                path = results / "cells" / row["study"] / row["cell"] / "cell.json"
                if path.is_file():
                    yield path


def table(cells: Iterable[Path]) -> list[dict[str, Any]]:
    """Count the cells that each part of the instrument measured.

    `cells`: the cell.json files; the replicates' records lie beside them.
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
        words = f"{hours} h {minutes} min" if hours else f"{minutes} min"
        counts["time", f"{words}, the runs one after the other"] = len(paths)
    # Who and when first, then the parts of the instrument as they come.
    order = {part: place for place, (part, _) in enumerate(counts)}
    order |= {part: place - len(FIRST) for place, part in enumerate(FIRST)}
    ranked = sorted(counts.items(), key=lambda item: (order[item[0][0]], -item[1]))
    return [{"part": part, "what": what, "cells": count} for (part, what), count in ranked]


def digests(cells: Iterable[Path]) -> list[dict[str, Any]]:
    """Give a digest of what was measured in each cell: the same for whoever measures the same."""
    rows = []
    for path in cells:
        cell = read_cell(path)
        # Not the attempt: a guest that was lost leaves no number.
        measured = [[run["seed"], run["valid"], run["summary"]] for run in cell["replicates"]]
        digest = digest_of([cell["condition"], measured])[:SHOWN_DIGITS]
        rows.append({"study": cell["study"], "cell": cell["cell"], "digest": digest})
    return rows


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `origin`, which writes the table."""

    def run(options: argparse.Namespace) -> int:
        found = list(records(options.overviews, options.results))
        write_csv(options.out, COLUMNS, table(found))
        if options.digests is not None:
            write_csv(options.digests, DIGEST_COLUMNS, digests(found))
        return 0

    command = commands.add_parser("origin", help="say what cells were measured with, and when")
    command.add_argument("overviews", nargs="+", type=Path, help="tables of a study's cells")
    command.add_argument("--results", type=Path, default=Path("results"))
    command.add_argument("--out", type=Path, required=True, help="a table: part, what, cells")
    command.add_argument("--digests", type=Path, help="a table: study, cell, digest")
    command.set_defaults(run=run)
