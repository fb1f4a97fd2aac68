"""Signatures of an archive's list of digests, by ssh-keygen(1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from losslab import processes
from losslab.artifact.results import DIGESTS, SIGNATURE
from losslab.errors import LosslabError
from losslab.processes import Done

# Purpose of a signature; ssh-keygen refuses signatures with another one.
NAMESPACE = "losslab-artifact"
PROGRAM = "ssh-keygen"


def sign(root: Path, key: Path) -> None:
    """Sign the list of digests with a private key, or a public key's counterpart in the agent."""
    _require(key, "a signing key")
    command = ("-Y", "sign", "-n", NAMESPACE, "-f", str(key.resolve()), str(DIGESTS))
    done = _run(command, root)
    if not done.good:
        raise LosslabError(
            f"{key} must sign the archive's digests, found: {done.last_line}",
            hint="name an SSH key, such as ~/.ssh/id_ed25519; `ssh-keygen -t ed25519` makes one",
        )


def signer(root: Path, allowed: Path) -> str:
    """Return the allowed signer of an archive's list of digests, or an empty string.

    `allowed`: file of signers in ssh-keygen's format, a line each with name and public key. Raises
    LosslabError if ssh-keygen is not installed or the file is missing.
    """
    _require(allowed, "a file of allowed signers")
    if not (root / SIGNATURE).is_file():
        return ""
    common = ("-s", str(SIGNATURE), "-f", str(allowed.resolve()))
    names = _run(("-Y", "find-principals", *common), root)
    for name in names.out.splitlines() if names.good else []:
        options = ("-Y", "verify", "-n", NAMESPACE, "-I", name, *common)
        if _run(options, root, (root / DIGESTS).read_text()).good:
            return name
    return ""


def _require(path: Path, title: str) -> None:
    if not path.is_file():
        raise LosslabError(f"{title} must be a file, found none at {path}")


def _run(options: Sequence[str], root: Path, text: str | None = None) -> Done:
    """Run ssh-keygen, which may prompt for a passphrase; LosslabError if it is not installed."""
    done = processes.attempt(
        [PROGRAM, *options], cwd=root, text=text, limit_s=processes.WORK_LIMIT_S
    )
    if done.status == processes.NOT_RUN:
        raise LosslabError(
            f"{PROGRAM} must be installed to sign archives and verify signatures, found none",
            hint="install it: scripts/packages.sh signing",
        )
    return done
