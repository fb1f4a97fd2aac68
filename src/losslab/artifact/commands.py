"""The commands `artifact pack`, `artifact verify` and `verify`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
from dataclasses import asdict
from pathlib import Path

from losslab.artifact import pack, statement, verify
from losslab.campaign import recorded, rerun, verification
from losslab.instrument.cache import ROOT
from losslab.reading import UsageError, whole_option

ALL = "all"


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
    made.add_argument("--sign", type=Path, metavar="KEY", help="sign it with this SSH key")
    _processors(made)
    made.set_defaults(run=_pack)

    checked = kinds.add_parser(
        "verify", help="compute an artifact's results again, and run a sample of its replicates"
    )
    checked.add_argument("folder", nargs="?", type=Path, default=Path(), help="unpacked")
    checked.add_argument("--sample", type=_count, default=verify.SAMPLE, metavar="N",
                         help=f"how many replicates, or {ALL} (default %(default)s)")  # fmt: skip
    checked.add_argument(
        "--day", type=_day, help="draw the sample of this day, 2026-01-31; today's by default"
    )
    checked.add_argument(
        "--signer", type=Path, metavar="ALLOWED_SIGNERS",
        help="require a signature of one of these, in the format of ssh-keygen(1)",
    )  # fmt: skip
    checked.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    checked.add_argument("--json", action="store_true", help="for a machine")
    _processors(checked)
    checked.set_defaults(run=_verify_artifact)

    place = commands.add_parser(
        "verify", help="compute results again, from raw files to the report, and compare"
    )
    place.add_argument("results", nargs="?", type=Path, default=Path("results"), help="the folder")
    place.add_argument(
        "--campaign", type=Path, help="its configuration file; the recorded one by default"
    )
    place.add_argument("--json", action="store_true", help="for a machine")
    _processors(place)
    place.set_defaults(run=_verify_results)


def _processors(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how many processors verification may use."""
    parser.add_argument(
        "--processors", type=whole_option("processors", 1), default=os.cpu_count() or 1,
        metavar="N", help="how many to use; all by default",
    )  # fmt: skip


def _count(word: str) -> int | None:
    """Read a number of replicates; None stands for all."""
    return None if word == ALL else whole_option(f"sample (or {ALL})", 1)(word)


def _day(word: str) -> str:
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", word):
            return datetime.date.fromisoformat(word).isoformat()
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"it must be a day such as 2026-01-31, found {word!r}")


def _pack(options: argparse.Namespace) -> int:
    name = pack.campaign_file(options.campaign)
    archive = pack.pack(
        options.folder, name, options.out, options.raw_limit_mb, not options.no_instrument,
        key=options.sign, processors=options.processors,
    )  # fmt: skip
    print(archive)
    return 0


def _verify_artifact(options: argparse.Namespace) -> int:
    day = options.day or datetime.datetime.now(datetime.UTC).date().isoformat()
    wish = verify.Wish(day, options.sample, options.signer, options.trust, options.processors)
    verdict = verify.verify(options.folder, wish)
    if options.json:
        facts = statement.facts(verdict)
        print(json.dumps(facts, indent=1, default=sorted))
    else:
        print(statement.statement(verdict))
    return 0 if verdict.good else 1


def _verify_results(options: argparse.Namespace) -> int:
    if not options.results.is_dir():
        raise UsageError(
            f"results must be a folder that a campaign left, found none at {options.results}",
            hint="`losslab artifact verify` is for an unpacked archive",
        )
    said = options.results / recorded.CAMPAIGN_FILE
    if options.campaign is None and not said.is_file():
        raise UsageError(
            f"{said} must say which campaign the results are of, found no such file",
            hint="name the configuration file: `--campaign config/quick.yaml`",
        )
    campaign = (
        recorded.read(options.results, ROOT)
        if options.campaign is None
        else recorded.load(options.campaign, ROOT)
    )
    found = verification.verify_results(
        options.results, campaign, ROOT, options.processors, verify.say
    )
    if options.json:
        print(json.dumps(asdict(found) | {"good": not found.findings}, indent=1, default=sorted))
    else:
        print(verification.statement(found))
    return 1 if found.findings else 0
