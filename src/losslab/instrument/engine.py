"""What only the engine image has: Containernet, and programs of Docker's that share a processor."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from losslab.errors import LosslabError
from losslab.instrument.archive import UnavailableError
from losslab.instrument.cache import ROOT, run_logged
from losslab.instrument.replacing import Replacement, replace
from losslab.reading import read_toml

RECIPE = ROOT / "containers" / "engine" / "source.toml"
SOURCE = "LOSSLAB_CONTAINERNET_SOURCE"
# containerd gives its helpers more threads than there are processors: a Go program then waits in a
# loop for a thread that does not run, for ever where computing takes no time (bgsweep in
# runtime/mgcsweep.go). In the engine image they have one, as every Go program has by itself there.
ONE_PROCESSOR = {
    "usr/bin/containerd": (b"GOMAXPROCS=2", b"GOMAXPROCS=1"),
    "usr/bin/containerd-shim-runc-v2": (b"GOMAXPROCS=4", b"GOMAXPROCS=1"),
}


def containernet() -> dict[str, str]:
    """Return the pins of Containernet: `url` and `commit`."""
    pins: dict[str, str] = read_toml(RECIPE)["containernet"]
    return pins


def give_one_processor(root: Path) -> None:
    """Replace in an image what ONE_PROCESSOR says.

    Raises:
        LosslabError: it is not there exactly once.
    """
    for file, (words, others) in ONE_PROCESSOR.items():
        replace(root, Replacement(file, words, others, "ONE_PROCESSOR in instrument/engine.py"))


def install_containernet(target_folder: Path, log: Path) -> None:
    """Install Containernet's module at its pinned commit, which is the hash of its content.

    LOSSLAB_CONTAINERNET_SOURCE names another copy of its repository, such as
    file:///home/me/containernet, where the pinned one is out of reach.

    Raises:
        UnavailableError: the repository cannot be reached, or has no such commit.
    """
    commit = containernet()["commit"]
    url = containernet_source()
    with tempfile.TemporaryDirectory(prefix="losslab-containernet-") as name:
        git = ["git", "-C", name]
        try:
            run_logged(["git", "clone", "--quiet", "--bare", url, name], log)
            run_logged([*git, "cat-file", "-e", f"{commit}^{{commit}}"], log)
        except LosslabError as error:
            raise UnavailableError(
                f"Containernet's commit {commit} must be had from {url}, found: {error.message}",
                hint=f"check the network, or set {SOURCE}=file:///... to a copy that has it",
            ) from error
        tar = Path(name) / "containernet.tar"
        # Its two links lead out of the folder, to examples and a command that nothing here runs.
        links = [":(exclude)mininet/examples", ":(exclude)mininet/__main__.py"]
        run_logged([*git, "archive", f"--output={tar}", commit, "mininet", *links], log)
        target_folder.mkdir(parents=True)
        run_logged(["tar", "-xf", tar, "-C", target_folder, "--no-same-owner"], log)


def containernet_source() -> str:
    """Return the address of the repository that has Containernet."""
    return os.environ.get(SOURCE, containernet()["url"]).removeprefix("git+")
