"""Made-up replicates and cells with valid digests."""

import json

from losslab.campaign.results import MANIFEST_FILE, Replicate, seal, write_json
from losslab.repository import FORMAT

HOST = {
    "attempt": 1, "earlier_reasons": [], "format": FORMAT, "git": {"commit": None, "dirty": None},
    "host_cpu": "a processor", "host_kernel": "a kernel", "losslab": "0",
    "started_utc": "2026-01-31T12:00:00+00:00", "wall_s": 1.0,
}  # fmt: skip


def replicate(folder, manifest, files=None, **host):
    """Write a replicate: raw files, and records with their digests."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    seal(folder, {"backend": "virtual"} | manifest, HOST | host)
    return folder


def cell(folder, condition, replicates, study="study", block="block"):
    """Write the cell.json of numbered replicates in a folder."""
    rows = [Replicate(folder / str(number)).checked().row for number in range(replicates)]
    content = {
        "format": FORMAT, "study": study, "block": block, "cell": folder.name,
        "condition": condition, "replicates": rows,
    }  # fmt: skip
    write_json(content, folder / "cell.json")
    return folder / "cell.json"


def forget_host(cells):
    """Replace the host in the records of measured cells, so that they are reproducible."""
    for path in sorted(cells.glob("*/cell.json")):
        cell_ = json.loads(path.read_text())
        for number, row in enumerate(cell_["replicates"]):
            host = {key: row[key] for key in ("attempt", "earlier_reasons")}
            reseal(path.parent / str(number), **host)
        sealed_cell = (cell_["condition"], len(cell_["replicates"]), cell_["study"], cell_["block"])
        cell(path.parent, *sealed_cell)


def reseal(folder, **host):
    """Write the digests of a replicate again after its files changed."""
    return replicate(folder, json.loads((folder / MANIFEST_FILE).read_text()), **host)


def edit(path, **changes):
    """Change fields of a JSON file without updating digests, like a text editor."""
    write_json(json.loads(path.read_text()) | changes, path)
