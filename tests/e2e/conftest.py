"""A small campaign that the tests of artifacts and of new studies share."""

import os
import shutil
import subprocess
import sys

import pytest

from losslab.instrument import kernel, kernels
from tests import sources

CAMPAIGN = """\
campaign: tiny
studies:
  tiny:
    main: { replicates: 3, max_replicates: 4, half_width_percent: 50, duration_s: 2, warmup_s: 0.5 }
    slow: { replicates: 1, duration_s: 26, warmup_s: 0.5 }
"""

# Of tests that compile an algorithm into the kernel.
COMPILES = pytest.mark.skipif(
    not (shutil.which("gcc") and kernel.objects(kernels.default()).existing()),
    reason="no object files of the kernel: run `losslab kernel --algorithm gaimd`",
)

MAJOR = "claims: [{ claim: tiny/tiny-cubic, item: Figure 1 }]\n"
AUTHOR = ("Ada Lovelace", "ada@example.org", "ssh://git@example.org/analyst/engine.git")


def git(folder, *words):
    who = ("-c", f"user.name={AUTHOR[0]}", "-c", f"user.email={AUTHOR[1]}")
    return subprocess.run(
        ["git", "-C", folder, *who, *words], capture_output=True, text=True, check=True
    ).stdout


def snakemake(repository, folder, *words):
    """Run the workflow of these sources in a campaign's folder."""
    return subprocess.run(
        [
            sys.executable, "-m", "snakemake", "--snakefile", repository / "Snakefile",
            "--directory", folder, "--configfile", repository / "config/tiny.yaml", "--cores", "2",
            *words,
        ],
        env=os.environ | {"PYTHONPATH": str(repository / "src")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="session")
def repository(root, once):
    """Return a commit of these sources with a study of four cells and an invalid one."""

    def make(folder):
        sources.copy(folder, without="")
        shutil.copytree(root / "tests/fixtures/study", folder, dirs_exist_ok=True)
        (folder / "config/tiny.yaml").write_text(CAMPAIGN)
        (folder / "report/major-claims.yaml").write_text(MAJOR)
        # A trace of the author in the sources.
        with (folder / "README.md").open("a") as readme:
            readme.write(f"Ask {', '.join(AUTHOR)}.\n")
        git(folder, "init", "--quiet")
        git(folder, "remote", "add", "origin", AUTHOR[2])
        git(folder, "add", "--all", "--force")
        git(folder, "commit", "--quiet", "--message", "A commit")

    return once("a clone, with 'spaces'", make)


@pytest.fixture(scope="session")
def work(repository, once):
    """Return the campaign's folder, measured and reported by the workflow."""

    def make(folder):
        done = snakemake(repository, folder)
        logs = "\n".join(path.read_text() for path in (folder / "logs").rglob("*.log"))
        assert done.returncode == 0, done.stdout + done.stderr + logs
        assert "Traceback" not in done.stderr, done.stderr  # also none when the process ends

    return once("a campaign, with 'spaces'", make)
