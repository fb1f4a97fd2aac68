"""Repeat a run and compare every byte: `losslab rerun`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from losslab import cellspec
from losslab.campaign import rerun
from losslab.campaign.results import MANIFEST_FILE
from losslab.reading import UsageError, out_folder


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `rerun`."""
    repeat = commands.add_parser("rerun")
    repeat.add_argument("manifest", type=Path, help="manifest.json, or the folder that holds it")
    repeat.add_argument("--out", type=out_folder, help="keep the second run in this new folder")
    repeat.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    repeat.add_argument("--json", action="store_true", help="print JSON")
    repeat.set_defaults(run=_rerun)


def _rerun(options: argparse.Namespace) -> int:
    if options.manifest.is_file() and options.manifest.name != MANIFEST_FILE:
        raise UsageError(  # else all files beside it would be compared
            f"{options.manifest} must be a run's folder or its {MANIFEST_FILE}, found another file",
            hint="copy the run's folder as a whole, and name it",
        )
    manifest = rerun.load_manifest(options.manifest)
    rerun.require_result(manifest, "the run to repeat")
    original = options.manifest if options.manifest.is_dir() else options.manifest.parent
    if options.out is not None:
        cellspec.refuse_existing(options.out)
    ready = rerun.ready(manifest, options.trust)
    with rerun.again(manifest, ready, options.out) as (out, second):
        rerun.require_result(second, "the second run")
        agreement = rerun.compare(original, out)
    changes = rerun.changes(manifest, second)
    same, different = agreement.same, agreement.different
    if options.json:
        print(json.dumps(asdict(agreement) | {"instrument": changes}, indent=1))
    else:
        lines = [f"another instrument: {difference}" for difference in changes]
        lines += [f"differs: {file}: {difference}" for file, difference in different.items()]
        lines.append(f"same bytes in {len(same)} of {len(same) + len(different)} files")
        print("\n".join(lines))
    return 0 if agreement.whole else 1
