"""Export of runs for other tools: qlog for qvis, pcap for Wireshark.

A run without a capture is measured again with one, which must give the same bytes otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from losslab.campaign import qlog, rerun
from losslab.campaign.results import MANIFEST_FILE, Replicate, whole_file
from losslab.campaign.tables import flow_names
from losslab.emulation import capture
from losslab.emulation.plan import make_plan
from losslab.emulation.topology import interface
from losslab.errors import LosslabError
from losslab.reading import UsageError, out_file, read_rows
from losslab.study.condition import Condition

SENDERS_LINK = interface("sender", "r1").name


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `export`."""
    command = commands.add_parser("export")
    command.add_argument(
        "folder", metavar="RUN", type=Path, help="a replicate's folder, or its manifest.json"
    )
    formats = command.add_mutually_exclusive_group(required=True)
    formats.add_argument("--qlog", action="store_true", help="write the sender's TCP connections")
    formats.add_argument(
        "--pcap", metavar="LINK", nargs="?", const=SENDERS_LINK,
        help=f"write the packets of an interface, such as r1-r2 (default {SENDERS_LINK})",
    )  # fmt: skip
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.add_argument("--out", type=out_file, help="file to write (default: RUN.qlog, RUN.pcap)")
    command.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    given: Path = options.folder
    manifest = rerun.load_manifest(given)
    folder = given if given.is_dir() else given.parent
    Replicate(folder).checked()
    name = folder.resolve().name
    condition = Condition.from_json(manifest["cell"])
    link = options.pcap or SENDERS_LINK
    kind = "pcap" if options.pcap else "qlog"
    out: Path = options.out or Path(f"{name}.{kind}")
    if out.exists():
        raise LosslabError(
            f"the output file must not exist, found {out}", hint="choose another with --out"
        )
    with captured(folder, manifest, link, options.trust) as path:
        if options.pcap:
            with whole_file(out) as partial:
                shutil.copyfile(path, partial)
        else:
            capture = path.read_bytes()
    title = f"losslab {condition.slug()}, seed {manifest['seed']}"
    if options.qlog:
        origin_ns, segments = qlog.segments(capture)
        samples = read_rows(folder / "tcp.csv")
        try:
            segments = qlog.by_flow(segments, condition)
            content = qlog.log(title, samples, segments, origin_ns, flow_names(folder))
        except (KeyError, OverflowError, ValueError) as error:
            raise UsageError(
                f"{folder / 'tcp.csv'} must have the format of this version, found: {error!r}",
                hint="measure again with this version of losslab",
            ) from error
        if not content["traces"]:
            raise LosslabError(
                "a run must have a TCP connection of its sender to be exported as qlog, found none "
                f"in {folder}",
                hint="for the app quic, use the qlog that its program wrote to the run's folder",
            )
        with whole_file(out) as partial:
            partial.write_text(json.dumps(content) + "\n")
    print(out)
    return 0


def links(names: Sequence[str], condition: Condition) -> list[str]:
    """Return the distinct names of links to capture; refuse unknown ones."""
    available = [
        name for host in make_plan(condition, 0).hosts.values() for name in host.interfaces
    ]
    unknown = sorted(set(names) - set(available))
    if unknown:
        raise UsageError(
            f"a link to capture must be one of {', '.join(sorted(available))}, found "
            f"{', '.join(unknown)}"
        )
    return list(dict.fromkeys(names))


@contextlib.contextmanager
def captured(
    folder: Path, manifest: dict[str, Any], link: str, trusted: bool = False
) -> Iterator[Path]:
    """Yield the capture of a link; measure the run again if it has none.

    Raises UsageError if the path has no such link, and LosslabError if the run cannot be measured
    again on this machine, the bytes differ, or the manifest names programs of its author and is not
    `trusted`.
    """
    file = folder / capture.name(link)
    if file.is_file():
        yield file
        return
    links([link], Condition.from_json(manifest["cell"]))
    with rerun.again(manifest, rerun.ready(manifest, trusted), captures=[link]) as (again, _):
        different = rerun.compare(folder, again).different
        # The capture is new, and the manifest lists it.
        for name in (file.name, MANIFEST_FILE):
            different.pop(name, None)
        if different:
            raise LosslabError(
                f"the run must give the same bytes as {folder} when measured again, found: "
                + "; ".join(f"{name}: {problem}" for name, problem in different.items()),
                hint="another instrument or machine measured it; measure again with --capture",
            )
        yield again / file.name
