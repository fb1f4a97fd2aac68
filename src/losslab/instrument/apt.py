"""Ask apt what Debian's archive has now: with its checks of signatures, without its state."""

from __future__ import annotations

import re
import sys
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.archive import File
from losslab.instrument.cache import run_logged

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURE = "amd64"  # what User-Mode Linux runs
URI_LINE = re.compile(
    r"'(?P<url>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})"
)


class Apt:
    """An apt of its own in `folder`, which knows some suites of some archives and no package."""

    def __init__(
        self, folder: Path, archives: Sequence[str], suites: Sequence[str], log: Path
    ) -> None:
        for part in ("state/lists/partial", "cache/archives/partial", "etc"):
            (folder / part).mkdir(parents=True)
        self._archives = archives
        sources = folder / "etc" / "sources.list"
        sources.write_text(
            "".join(
                f"deb [signed-by={KEYRING}] {archive} {suite} main\n"
                for suite in suites
                for archive in archives
                if ("security" in suite) == ("security" in archive)
            )
        )
        (folder / "status").touch()
        options = {
            "APT::Architecture": ARCHITECTURE,
            "APT::Architectures": ARCHITECTURE,
            "APT::Install-Recommends": "false",
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::State": folder / "state",
            "Dir::Cache": folder / "cache",
            "Dir::State::status": folder / "status",
            "APT::Sandbox::User": "",
            "Acquire::ForceHash": "SHA256",  # what --print-uris prints
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",  # with pauses of 1, 2 and 4 s
        }
        self._flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        # A suite that a mirror lacks is an error of its own and leaves the others usable.
        try:
            run_logged(["apt-get", *self._flags, "update"], log)
        except LosslabError as error:
            print(f"losslab: note: {error.message.splitlines()[0]}", file=sys.stderr)

    def newest(self, package: str) -> tuple[str, File, str]:
        """Return a package's newest version, the file that it is, and its path in the archive."""
        (file, path), *_ = self._uris("download", package)
        return file.name.split("_")[1], file, path

    def closure(self, packages: Sequence[str]) -> list[tuple[File, str]]:
        """Return the files of a bare system with some packages, and their paths."""
        return self._uris("install", "?essential", "apt", *packages)

    def _uris(self, *words: str) -> list[tuple[File, str]]:
        command = ["apt-get", *self._flags, "--yes", "-qq", "--print-uris", *words]
        done = processes.attempt(command)
        matches = [URI_LINE.match(line) for line in done.out.splitlines()]
        if not done.good or not matches or None in matches:
            raise LosslabError(
                f"apt must find {' '.join(words)} in {' '.join(self._archives)}, found:\n"
                f"{done.err.strip() or done.out.strip() or 'nothing'}",
                hint="check the network, and that apt's sources name a Debian archive",
            )
        found = []
        for match in matches:
            assert match is not None
            # The archive's own name of the file has no epoch; apt's has.
            path = "pool/" + urllib.parse.unquote(match["url"]).split("/pool/", 1)[1]
            name = urllib.parse.unquote(match["file"])
            found.append((File(name, match["sha256"], int(match["size"])), path))
        return found
