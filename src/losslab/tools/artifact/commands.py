"""The commands `artifact pack`, `artifact verify` and `verify`."""

from __future__ import annotations

import argparse
import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path

from losslab import extensions
from losslab.campaign import plan, rerun
from losslab.reading import UsageError, out_file, whole_option
from losslab.repository import ROOT
from losslab.tools.artifact import appendix, major, pack, verify
from losslab.tools.artifact.verify import ALL, Verdict

SEED_BITS = 63


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `artifact pack`, `artifact verify` and `verify`."""
    group = commands.add_parser("artifact")
    kinds = group.add_subparsers(required=True, metavar="WHAT")
    packing = kinds.add_parser("pack", help="pack a campaign as an archive that others can verify")
    packing.add_argument(
        "--campaign", type=Path, default=ROOT / "config" / "campaigns" / "quick.yaml",
        help="configuration file of the campaign",
    )  # fmt: skip
    packing.add_argument("--folder", type=Path, default=Path(), help="folder of the campaign")
    packing.add_argument(
        "--out", type=out_file, default=f"{pack.NAME}.tar.gz", help="archive to write"
    )
    packing.add_argument("--venue", choices=appendix.VENUES, default=appendix.VENUES[0],
                      help="whose template the appendix has (default %(default)s)")  # fmt: skip
    packing.add_argument("--claims", type=Path,
                      help=f"list of the major claims (default {major.FILE})")  # fmt: skip
    packing.add_argument("--anonymous", action="store_true",
                      help="without names, addresses of repositories and home folders")  # fmt: skip
    packing.add_argument(
        "--no-instrument", action="store_true", help="do not pack kernel and image"
    )
    _processors(packing)
    packing.set_defaults(run=_pack)

    checked = kinds.add_parser(
        "verify", help="make an artifact's results again, and re-run a sample of its replicates"
    )
    checked.add_argument("folder", nargs="?", type=Path, default=Path(), help="unpacked artifact")
    _verifying(checked, appendix.SAMPLE)
    checked.set_defaults(run=_verify_artifact)

    place = commands.add_parser("verify")
    place.add_argument(
        "results", nargs="?", type=Path, default=Path("results"), help="results folder"
    )
    _verifying(place, 0)
    place.set_defaults(run=_verify_results)


def _verifying(parser: argparse.ArgumentParser, sample: int) -> None:
    """Add the options of a verification; `sample`: default number of replicates to run again."""
    parser.add_argument("--sample", type=_count, default=sample, metavar="N",
                        help=f"replicates to re-run, or {ALL} (default %(default)s)")  # fmt: skip
    parser.add_argument(
        "--seed", type=whole_option("seed", minimum=0), metavar="N",
        help="seed of the sample, to repeat a draw; random by default",
    )  # fmt: skip
    parser.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    _processors(parser)


def _processors(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--processors", type=whole_option("processors", 1), default=os.cpu_count() or 1,
        metavar="N", help="number of processors; all by default",
    )  # fmt: skip


def _count(word: str) -> int | None:
    """Return a number of replicates, or None for all."""
    return None if word == ALL else whole_option(f"sample (or {ALL})", 0)(word)


def _pack(options: argparse.Namespace) -> int:
    archive = pack.pack(
        options.folder, pack.campaign_file(options.campaign), options.out,
        not options.no_instrument, venue=options.venue, claims=options.claims,
        anonymous=options.anonymous, processors=options.processors,
    )  # fmt: skip
    print(archive)
    return 0


def _options(options: argparse.Namespace) -> verify.Options:
    # Drawn now, so that nobody knew it when the results were made or packed.
    seed = secrets.randbits(SEED_BITS) if options.seed is None else options.seed
    return verify.Options(seed, options.sample, options.trust, options.processors)


def _verify_artifact(options: argparse.Namespace) -> int:
    if extensions.campaign():
        raise UsageError(
            "an artifact must be verified by losslab's own files, found a campaign's folder, "
            f"which may replace them: {Path.cwd()}",
            hint="repeat the command in another folder",
        )
    return _state(verify.verify(options.folder, _options(options)), options.json)


def _verify_results(options: argparse.Namespace) -> int:
    if not options.results.is_dir():
        raise UsageError(
            f"{options.results} must be a campaign's results folder, found no folder",
            hint="use `losslab artifact verify` for an unpacked archive",
        )
    record = options.results / plan.FILE
    if not record.is_file():
        raise UsageError(
            f"{record} must name the campaign of the results, found no such file",
            hint="start the workflow again, which writes it",
        )
    campaign = plan.read_campaign(options.results, ROOT)
    found = verify.verify_results(options.results, campaign, _options(options))
    return _state(found, options.json)


def _state(found: Verdict, as_json: bool) -> int:
    """Print the outcome of a verification; return the exit status."""
    facts = asdict(found) | {"good": found.good, "not_verified": verify.not_verified(found)}
    print(json.dumps(facts, indent=1) if as_json else verify.statement(found))
    return 0 if found.good else 1
