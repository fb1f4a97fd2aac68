"""The commands `artifact pack` and `artifact verify`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from losslab.artifact import pack, verify
from losslab.campaign import trust
from losslab.instrument.cache import ROOT


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add them."""
    group = commands.add_parser("artifact", help="a campaign as an archive that others verify")
    kinds = group.add_subparsers(required=True, metavar="WHAT")
    made = kinds.add_parser("pack", help="write a campaign as an archive that others verify")
    made.add_argument("--campaign", type=Path, default=ROOT / "config" / "quick.yaml",
                      help="its configuration file")  # fmt: skip
    made.add_argument("--folder", type=Path, default=Path(), help="where it was measured")
    made.add_argument("--out", type=Path, default=Path(f"{pack.NAME}.tar.gz"), help="the archive")
    made.add_argument("--raw-limit-mb", type=float, default=pack.RAW_LIMIT_MB,
                      help="with more raw data, only digests (default %(default)g)")  # fmt: skip
    made.add_argument("--no-instrument", action="store_true", help="without kernel and image")
    made.set_defaults(run=_pack)

    checked = kinds.add_parser("verify", help="re-run a sample of an artifact, compare the bytes")
    checked.add_argument("folder", nargs="?", type=Path, default=Path(), help="unpacked")
    checked.add_argument("--sample", type=int, default=verify.SAMPLE,
                         help="how many replicates (default %(default)s)")  # fmt: skip
    checked.add_argument(
        "--day", help="draw the sample of this day, 2026-01-31; today's by default"
    )
    checked.add_argument(trust.OPTION, action="store_true", help=trust.HELP)
    checked.add_argument("--json", action="store_true", help="for a machine")
    checked.set_defaults(run=_verify)


def _pack(options: argparse.Namespace) -> int:
    campaign = pack.campaign_file(options.campaign)
    print(
        pack.pack(
            options.folder, campaign, options.out, options.raw_limit_mb, not options.no_instrument
        )
    )
    return 0


def _verify(options: argparse.Namespace) -> int:
    day = options.day or datetime.now(UTC).strftime("%Y-%m-%d")
    verdict = verify.verify(options.folder, options.sample, day, options.trust)
    if options.json:
        print(json.dumps(asdict(verdict) | {"good": verdict.good}, indent=1))
    else:
        print(verify.statement(verdict))
    return 0 if verdict.good else 1
