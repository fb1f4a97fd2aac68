"""The README's commands in new Debians: `python -m tests.acceptance [--user] RELEASE ...`.

    python -m tests.acceptance bookworm trixie         Debian 12 and 13, as root
    python -m tests.acceptance --user bookworm         as an ordinary user
    ... --instruments DIR                              fetch kernel and image from DIR, which
                                                       `losslab instrument pack` writes

Each release is a root folder with only git, make and python3, made by mmdebstrap from the archives
of this machine's apt. It needs root. A program in it has its own process numbers, mounts and
/dev/shm, and this machine's network. The commands run in a clone of this commit, `make report` on a
campaign of four cells. Exit status 1: a command failed. The folders are removed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab import interrupts, processes
from losslab.instrument.debian import debian_archives
from tests import pages

ROOT = Path(__file__).resolve().parents[1]
# Requirements of the README: "On Debian 12 or 13, with git, make and python3".
GRANTED = "git,make,python3"
CAMPAIGN = """\
campaign: acceptance
studies:
  loss:
    main:
      only: { app: iperf3, path: symmetric, loss_percent: [0, 1] }
      replicates: 2
      duration_s: 3
      warmup_s: 1
"""
REPORT = "make report"
# Commands that take long, and what runs instead; empty for nothing.
INSTEAD = {
    REPORT: "make report CONFIG=acceptance.yaml",
    "make test": "",
    ".venv/bin/snakemake --cores 8": ".venv/bin/snakemake --cores 8 --dry-run --quiet all",
    ".venv/bin/losslab shell --rtt-ms 20":
        "echo 'sender ping -c 1 10.0.3.2' | .venv/bin/losslab shell --rtt-ms 20",
}  # fmt: skip
# What a failed command tells root to run, at most twice: packages, and those of a build.
HINT, HINTS = re.compile(r"-> run as root:  (.*)$", re.MULTILINE), 2
# Settings of apt and the environment about access to archives: proxies, indexes, certificates.
APT = re.compile(r'^(Acquire::\S*(?:[Pp]roxy|CaInfo|CAInfo|Verify-\w+)\S* ".*";)$', re.MULTILINE)
NETWORK = re.compile(
    r"^(https?_proxy|no_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT))$",
    re.IGNORECASE,
)
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
BUNDLE = Path("/etc/ssl/losslab-acceptance.crt")
# Enters the folder $1 in new namespaces and runs the rest. User namespaces work in it, unlike in a
# chroot. /dev/shm has the kernel's default options.
ENTER = r"""
set -eu
cd "$1"; shift
mount --bind . .
cd "$PWD"
mount -t proc proc proc
mount -t sysfs -o ro sys sys
mount -t tmpfs -o mode=755,nosuid dev dev
for node in null zero full random urandom tty; do
    touch dev/$node
    mount --bind /dev/$node dev/$node
done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev shm dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
pivot_root . .
umount -l .
cd /
exec "$@"
"""
LIMIT_S = 2 * 3600.0


@dataclass(frozen=True)
class Machine:
    """A root folder of Debian and the user of its commands."""

    root: Path
    user: str
    variables: dict[str, str]

    @property
    def clone(self) -> Path:
        """The clone's path inside the folder."""
        return Path("/root" if self.user == "root" else f"/home/{self.user}") / "losslab"

    def run(self, command: str, user: str = "", cwd: str = "/") -> tuple[int, str, float, float]:
        """Run a line of shell; return its status, output, wall time and CPU time in s."""
        who = user or self.user
        variables = {
            "HOME": "/root" if who == "root" else f"/home/{who}", "USER": who, "TERM": "dumb",
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
            **self.variables,
        }  # fmt: skip
        words = [
            "unshare", "--mount", "--propagation", "private", "--pid", "--ipc", "--uts", "--fork",
            "--kill-child", "sh", "-c", ENTER, "enter", str(self.root),
            "env", "--ignore-environment", f"--chdir={cwd}",
            *(f"{name}={value}" for name, value in variables.items()),
            "setpriv", f"--reuid={who}", f"--regid={who}", "--init-groups", "sh", "-c", command,
        ]  # fmt: skip
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", check=False, timeout=LIMIT_S,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return done.returncode, done.stdout, time.monotonic() - begin, cpu_s


@contextlib.contextmanager
def machine(suite: str, user: str, instruments: Path | None) -> Iterator[Machine]:
    """Make a root folder with a clone of this commit; remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="losslab-bare-") as name:
        Path(name).chmod(0o755)
        places = {"LOSSLAB_INSTRUMENTS": "/instruments"} if instruments else {}
        made = Machine(Path(name) / "root", user, places | network())
        lines = [
            f"deb {archive} {each} main"
            for archive in debian_archives()
            for each in (
                [f"{suite}-security"] if "security" in archive else [suite, f"{suite}-updates"]
            )
        ]
        options = APT.findall(processes.run(["apt-config", "dump"]))
        processes.run(
            ["mmdebstrap", "--mode=root", "--variant=minbase", f"--include={GRANTED}",
             "--aptopt", 'APT::Install-Recommends "false"',
             *(word for line in options for word in ("--aptopt", line)),
             suite, made.root, *lines],
        )  # fmt: skip
        for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", certificates() or ""):
            if file and Path(file).is_file():
                place = BUNDLE if file == certificates() else Path(file)
                target = made.root / place.relative_to("/")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        if instruments:
            shutil.copytree(instruments, made.root / "instruments")
        if user != "root":
            made.run(f"useradd --create-home --shell /bin/bash {user}", user="root")
        clone = made.root / made.clone.relative_to("/")
        processes.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone])
        (clone / "acceptance.yaml").write_text(CAMPAIGN)
        made.run(f"chown -R {user}: {made.clone}", user="root")
        yield made


def certificates() -> str | None:
    """Return this machine's file of certificates, if a variable names one."""
    return next((os.environ[name] for name in CERTIFICATES if os.environ.get(name)), None)


def network() -> dict[str, str]:
    """Return the variables of this environment about access to the network."""
    found = {name: value for name, value in os.environ.items() if NETWORK.match(name)}
    return found | (dict.fromkeys(CERTIFICATES, str(BUNDLE)) if certificates() else {})


def commands(text: str) -> list[str]:
    """Return the commands of a page's text, or what runs instead of them."""
    shown = [
        " | ".join(shlex.join([*each.variables, *each.words]) for each in pages.commands(line))
        for line in pages.lines(text)
    ]
    return [INSTEAD.get(command, command) for command in shown]


def follow(made: Machine) -> int:
    """Run the README's commands in order; return the number of those that failed."""
    failed = 0
    for command in filter(None, commands((ROOT / "README.md").read_text())):
        status, said, wall_s, cpu_s = made.run(command, cwd=str(made.clone))
        hints = 0
        while status and hints < HINTS and (found := HINT.search(said)):
            hints += 1
            _, _, wall_s, cpu_s = made.run(found[1], user="root")
            print(f"  {wall_s:6.0f} {cpu_s:6.0f}  as root: {found[1]}", flush=True)
            status, said, wall_s, cpu_s = made.run(command, cwd=str(made.clone))
        failed += status != 0
        print(f"{'FAILED' if status else 'ok':6} {wall_s:6.0f} {cpu_s:6.0f}  {command}", flush=True)
        if status:
            print("\n".join(said.splitlines()[-30:]), file=sys.stderr, flush=True)
            if command.startswith(REPORT):
                return failed  # the other commands need it
    return failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the commands in each release; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.acceptance", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("releases", nargs="+", metavar="RELEASE", help="as bookworm")
    parser.add_argument("--user", action="store_true", help="as an ordinary user")
    parser.add_argument("--instruments", type=Path, help="a folder of packed kernels and images")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        print("acceptance: skipped: needs root and mmdebstrap (scripts/packages.sh build)")
        return 0
    interrupts.unwind_on_signals()
    failed = 0
    for suite in options.releases:
        print(f"{suite}: result, wall time and CPU time in s, command", flush=True)
        user = "reader" if options.user else "root"
        with machine(suite, user, options.instruments) as made:
            failed += follow(made)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
