"""Runs in the formats of other tools: qlog for qvis, pcap for Wireshark.

A run that was measured without a capture is measured again with one: the same bytes, and what the
interface saw beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.campaign import integrity, qlog, rerun
from losslab.campaign.folder import MANIFEST_FILE, whole_file
from losslab.emulation import capture
from losslab.emulation.topology import interface
from losslab.errors import LosslabError
from losslab.reading import UsageError, read_rows
from losslab.study.condition import Condition

SENDERS_LINK = interface("sender", "r1").name


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `export`."""
    command = commands.add_parser("export", help="write a run as qlog (qvis) or pcap (Wireshark)")
    command.add_argument(
        "folder", metavar="RUN", type=Path, help="a replicate's folder, or its manifest.json"
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--qlog", action="store_true", help="the TCP connections of the sender")
    what.add_argument(
        "--pcap", metavar="LINK", nargs="?", const=SENDERS_LINK,
        help=f"what crossed an interface, such as r1-r2 (default {SENDERS_LINK})",
    )  # fmt: skip
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.add_argument("--out", type=Path, help="file to write (default: RUN.qlog, RUN.pcap)")
    command.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    given: Path = options.folder
    manifest = rerun.load_manifest(given)
    folder = given if given.is_dir() else given.parent
    integrity.require(folder)
    name = folder.resolve().name
    link = SENDERS_LINK if options.qlog else options.pcap
    kind = "qlog" if options.qlog else "pcap"
    out: Path = options.out or Path(f"{name}.{kind}")
    if out.exists():
        raise LosslabError(
            f"the file to write must not be there yet, found {out}", hint="name another by --out"
        )
    with captured(folder, manifest, link, options.trust) as path:
        if not options.qlog:
            with whole_file(out) as partial:
                shutil.copyfile(path, partial)
        else:
            origin_ns, seen = qlog.segments(path.read_bytes())
    if options.qlog:
        title = f"losslab {Condition.from_json(manifest['cell']).slug()}, seed {manifest['seed']}"
        samples = read_rows(folder / "tcp.csv")
        try:
            content = qlog.log(title, samples, seen, origin_ns)
        except (KeyError, OverflowError, ValueError) as error:
            raise UsageError(
                f"{folder / 'tcp.csv'} must be as losslab writes it, found: {error!r}",
                hint="measure it anew with this version of losslab",
            ) from error
        if not content["traces"]:
            raise LosslabError(
                f"a run must have a TCP connection of its sender to be written as qlog, {folder} "
                "has none",
                hint="the app quic leaves its program's own qlog beside its tables",
            )
        with whole_file(out) as partial:
            partial.write_text(json.dumps(content) + "\n")
    print(out)
    return 0


@contextlib.contextmanager
def captured(
    folder: Path, manifest: dict[str, Any], link: str, trusted: bool = False
) -> Iterator[Path]:
    """Give the file of a link's capture for the length of the block.

    Raises LosslabError if the run cannot be measured again here, has not the same bytes, or has
    programs of its author's and is not `trusted`.
    """
    there = folder / capture.name(link)
    if there.is_file():
        yield there
        return
    with rerun.again(manifest, rerun.ready(manifest, trusted), captures=[link]) as (again, _):
        found = rerun.compare(folder, again).different
        # What is in one of them alone is this capture; the manifest names it.
        found = {n: why for n, why in found.items() if n not in (there.name, MANIFEST_FILE)}
        if found:
            raise LosslabError(
                f"a run that is measured again must have the same bytes, {folder} has others: "
                + "; ".join(f"{file}: {why}" for file, why in found.items()),
                hint="another instrument or machine measured it; measure anew with --capture",
            )
        yield again / there.name
