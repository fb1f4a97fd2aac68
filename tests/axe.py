"""axe-core, an accessibility checker for pages: downloaded from npm by hash and cached."""

import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.1"
SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
MEMBER = "package/axe.min.js"
# Impacts that prevent use; lesser ones are ignored.
SERIOUS = ("critical", "serious")


def program() -> Path | None:
    """Return the path of axe-core; None without npm or its registry."""
    caches = Path(os.environ.get("LOSSLAB_CACHE", Path.home() / ".cache" / "losslab"))
    kept = caches / "tests" / f"axe-core-{VERSION}.js"
    if not kept.is_file():
        taken = _take()
        if taken is None:
            return None
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(taken)
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == SHA256, f"{kept} must be axe-core"
    return kept


def _take() -> bytes | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [npm, "pack", "--silent", "--pack-destination", folder, f"axe-core@{VERSION}"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        packed = list(Path(folder).glob("*.tgz"))
        if done.returncode != 0 or not packed:
            return None
        with tarfile.open(packed[0]) as archive:
            member = archive.extractfile(MEMBER)
            assert member is not None
            return member.read()


def faults(page) -> list[str]:
    """Return the serious problems of the displayed page, each with its first elements."""
    page.ask(f"{program().read_text()}; true")
    found = page.ask(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v =>"
        " ({id: v.id, impact: v.impact, help: v.help, n: v.nodes.length,"
        " where: v.nodes.slice(0, 3).map(n => n.html.slice(0, 120))})))"
    )
    return [
        f"{v['impact']}: {v['id']}, {v['help']} ({v['n']} times: {v['where']})"
        for v in found
        if v["impact"] in SERIOUS
    ]
