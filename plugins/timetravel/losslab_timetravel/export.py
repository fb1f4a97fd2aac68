"""`losslab export`: a run's packets as pcap for Wireshark."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from losslab.campaign import packets, rerun
from losslab.campaign.packets import SENDERS_LINK
from losslab.campaign.results import Replicate, whole_file
from losslab.errors import LosslabError
from losslab.reading import out_file


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `export`."""
    command = commands.add_parser("export")
    command.add_argument(
        "folder", metavar="RUN", type=Path, help="a replicate's folder, or its manifest.json"
    )
    command.add_argument(
        "--pcap", metavar="LINK", nargs="?", const=SENDERS_LINK, default=SENDERS_LINK,
        help=f"write the packets of an interface, such as r1-r2 (default {SENDERS_LINK})",
    )  # fmt: skip
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.add_argument("--out", type=out_file, help="file to write (default: RUN.pcap)")
    command.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    given: Path = options.folder
    manifest = rerun.load_manifest(given)
    folder = given if given.is_dir() else given.parent
    Replicate(folder).checked()
    out: Path = options.out or Path(f"{folder.resolve().name}.pcap")
    if out.exists():
        raise LosslabError(
            f"the output file must not exist, found {out}", hint="choose another with --out"
        )
    with (
        packets.captured(folder, manifest, options.pcap, options.trust) as path,
        whole_file(out) as partial,
    ):
        shutil.copyfile(path, partial)
    print(out)
    return 0
