"""Python packages of an archive, so that an evaluator's machine installs them without PyPI."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from losslab import processes
from losslab.artifact.results import WHEELS
from losslab.errors import LosslabError

# In the order in which scripts/setup.sh installs them.
LOCKS = ("requirements-build.lock", "requirements.lock")


def fetch(repository: Path, root: Path) -> None:
    """Fetch the packages of the repository's locks to an archive's folder, verified by hash.

    Wheels fit one version of Python, the running one, which names their folder. Raises LosslabError
    if a package cannot be fetched.
    """
    folder = root / WHEELS / ".".join(platform.python_version_tuple()[:2])
    folder.mkdir(parents=True)
    for lock in LOCKS:
        done = processes.attempt(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                "--no-deps", "--require-hashes", "--no-build-isolation", "--use-pep517",
                "--dest", folder, "--requirement", repository / lock,
            ],
            limit_s=processes.WORK_LIMIT_S,
        )  # fmt: skip
        if not done.good:
            raise LosslabError(
                f"the Python packages of {lock} must be fetched, found: {done.err.strip()}",
                hint="check the network, or pack without --wheels",
            )
