"""Debian's archives, and the lock files that pin packages of an image.

LOSSLAB_ARCHIVE replaces the address of Debian's archive; `debian-security` next to it is the
security archive. LOSSLAB_SNAPSHOT replaces the address of the snapshot archive.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument.cache import cache_folder
from losslab.instrument.fetch import AT_ONCE, Fetcher, File
from losslab.lock import locked

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
ARCHITECTURE = "amd64"  # of User-Mode Linux
URI_LINE = re.compile(
    r"'(?P<url>[^']+)' (?P<file>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})"
)
INSTANT = re.compile(r"# instant: (\d{8}T\d{6}Z)")
HEADER = """\
# Every package of this image. Made by `make relock`; do not edit.
# The image is built from these files only: from Debian's archive while it has them, else from
# snapshot.debian.org as it was at this instant.
# instant: {instant}
"""


def debian_archives() -> list[str]:
    """List the base addresses of the Debian archives in this machine's apt sources."""
    chosen = os.environ.get("LOSSLAB_ARCHIVE")
    if chosen:
        main = chosen.rstrip("/") + "/"
        return [main, f"{main.removesuffix('debian/')}debian-security/"]
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI)\t$(ORIGIN)"]
    done = processes.attempt([*command, "Created-By: Packages"])
    if done.status == processes.NOT_RUN:
        raise LosslabError(
            "apt-get must be installed to fetch Debian's packages, found none",
            hint="on other systems, fetch the instrument: see docs/how-to/instrument.md",
        )
    rows = (line.split("\t") for line in done.out.splitlines())
    found = {uri for uri, origin in rows if origin == "Debian"}
    if not found:
        raise LosslabError(
            "apt's sources must name a Debian archive, found none", hint="run `apt-get update`"
        )
    # The security archive is reachable next to the main one even if apt's sources lack it. The
    # pinned kernel's source is often available only there.
    if not any("security" in uri for uri in found):
        main_ones = [uri for uri in found if uri.endswith("/debian/")]
        found |= {f"{uri.removesuffix('debian/')}debian-security/" for uri in main_ones}
    # The main archive first: only it has every suite.
    return sorted(found, key=lambda uri: ("security" in uri, uri))


def _pool_paths(path: str) -> list[tuple[bool, str]]:
    """List a pool file's paths in the main and the security archive (True), its own first.

    Fixes move from the security archive to the main one.
    """
    rest = path.removeprefix("pool/").removeprefix("updates/")
    both = [(False, f"pool/{rest}"), (True, f"pool/updates/{rest}")]
    # Quoted as apt does: some servers read a plus sign as a space.
    both.sort(key=lambda each: each[1] != path)
    return [(security, urllib.parse.quote(each, safe="/~")) for security, each in both]


def archive_urls(path: str, archives: Sequence[str]) -> list[str]:
    """List the addresses of a pool file (`pool/...`) in Debian's archives, likeliest first."""
    return [
        base + each
        for security, each in _pool_paths(path)
        for base in archives
        if ("security" in base) == security
    ]


def snapshot_urls(path: str = "", instant: str = "", sha1: str = "") -> list[str]:
    """List a file's addresses in the snapshot archive: by `sha1`, or in the pool at an instant."""
    base = os.environ.get("LOSSLAB_SNAPSHOT", "https://snapshot.debian.org").rstrip("/")
    if sha1:
        return [f"{base}/file/{sha1}"]
    return [
        f"{base}/archive/{'debian-security' if security else 'debian'}/{instant}/{each}"
        for security, each in _pool_paths(path)
    ]


def apt_files(
    archives: Sequence[str], suites: Sequence[str], arguments: Sequence[str]
) -> list[tuple[File, str]]:
    """Return the files that an apt-get command would fetch, and their archive paths.

    apt runs with its own state and the given suites of the archives, and checks signatures.
    """
    with tempfile.TemporaryDirectory(prefix="losslab-apt-") as name:
        folder = Path(name)
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(
            "".join(
                f"deb [signed-by={KEYRING}] {archive} {suite} main\n"
                for suite in suites
                for archive in archives
                if ("security" in suite) == ("security" in archive)
            )
        )
        options = {
            "APT::Architecture": ARCHITECTURE,
            "APT::Architectures": ARCHITECTURE,
            "APT::Install-Recommends": "false",
            "Dir::Etc::sourcelist": folder / "sources.list",
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
        flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        # apt reports an error for a suite that a mirror lacks; the other suites remain usable.
        try:
            processes.run(["apt-get", *flags, "update"], log=folder / "log")
        except LosslabError as error:
            print(f"losslab: note: {error.message.splitlines()[0]}", file=sys.stderr)
        done = processes.attempt(["apt-get", *flags, "--yes", "-qq", "--print-uris", *arguments])
    matches = [URI_LINE.match(line) for line in done.out.splitlines()]
    if not done.good or not matches or None in matches:
        raise LosslabError(
            f"apt must find {' '.join(arguments)} in {' '.join(archives)}, found:\n"
            f"{done.err.strip() or done.out.strip() or 'nothing'}",
            hint="check the network, and that apt's sources name a Debian archive",
        )
    found = []
    for match in filter(None, matches):
        # The file's name in the archive lacks the version's epoch; apt's name has it.
        path = "pool/" + urllib.parse.unquote(match["url"]).split("/pool/", 1)[1]
        name = urllib.parse.unquote(match["file"])
        found.append((File(name, match["sha256"], int(match["size"])), path))
    return found


@dataclass(frozen=True, order=True)
class Package:
    """Binary package; the fields are the lock's columns."""

    package: str
    version: str
    architecture: str
    size_bytes: int
    sha256: str
    path: str

    @property
    def file(self) -> File:
        """The .deb file, identified by its content."""
        return File(Path(self.path).name, self.sha256, self.size_bytes)


@dataclass(frozen=True)
class Lock:
    """Packages of an image in alphabetical order, and a time when Debian had them all."""

    instant: str
    packages: tuple[Package, ...]

    def versions(self) -> dict[str, str]:
        """Return the version of each package."""
        return {package.package: package.version for package in self.packages}

    def rows(self) -> list[str]:
        """Return the lock's time and rows, without comments and column names."""
        return [self.instant, *("\t".join(map(str, vars(p).values())) for p in self.packages)]

    def text(self) -> str:
        """Return the lock file's text."""
        rows = ["\t".join(each.name for each in fields(Package)), *self.rows()[1:]]
        return HEADER.format(instant=self.instant) + "\n".join(rows) + "\n"


def make_lock(files: Sequence[tuple[File, str]], instant: str) -> Lock:
    """Make a lock from the files that apt would install, PACKAGE_VERSION_ARCHITECTURE.deb."""
    packages = []
    for file, path in files:
        name, version, architecture = file.name.removesuffix(".deb").split("_")
        packages.append(Package(name, version, architecture, file.size, file.sha256, path))
    return Lock(instant, tuple(sorted(packages)))


def read_lock(path: Path) -> Lock:
    """Read a lock file; refuse one that `make relock` would not write."""
    hint = "restore it (`git checkout`), or regenerate it with `make relock`"
    try:
        text = path.read_text()
        rows = [row.split("\t") for row in text.splitlines() if not row.startswith("#")]
        packages = (
            Package(name, version, architecture, int(size), sha256, where)
            for name, version, architecture, size, sha256, where in rows[1:]
        )
        found = Lock(INSTANT.findall(text)[0], tuple(sorted(packages)))
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise LosslabError(f"{path} must be a lock file, found: {error}", hint=hint) from error
    if found.text() != text or not found.packages:
        raise LosslabError(f"{path} must be as `make relock` writes it, found it edited", hint=hint)
    return found


def fetch_packages(lock: Lock) -> list[Path]:
    """Download every package of a lock, in its order; UnavailableError names a missing one."""
    # Imported here: every cell imports this module, and only a build needs threads.
    from concurrent.futures import ThreadPoolExecutor

    fetcher, archives = Fetcher(), debian_archives()

    def one(package: Package) -> Path:
        path = package.path
        urls = [*archive_urls(path, archives), *snapshot_urls(path, lock.instant)]
        return fetcher.fetch((package.file, url) for url in urls)

    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    # Images share most packages: another build waits instead of downloading them, too.
    with locked(cache / "files.lock"), ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, lock.packages))
