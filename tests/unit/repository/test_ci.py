"""`.ci/run` with substitutes for set-up, builds and pytest."""

import os
import shutil
import subprocess

import pytest

from tests.conftest import ROOT

SAYS = 'echo "$(basename "$0") $* cache=$(ls -A "$LOSSLAB_CACHE" | wc -l) $PATCH" >>"$SAID"'
PARTS = ("make", "instruments.sh", "test.sh")


@pytest.fixture
def run(tmp_path):
    """Return a function that runs it with failing parts; it returns status and arguments."""
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    for folder in (".ci", "scripts", "bin"):
        (checkout / folder).mkdir(parents=True)
    home.mkdir()
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci")

    def run(**statuses):
        for part in PARTS:
            path = checkout / ("scripts" if part.endswith(".sh") else "bin") / part
            status = statuses.get(part.removesuffix(".sh"), 0)
            path.write_text(
                f'#!/bin/sh\n{SAYS}\ntouch "$LOSSLAB_CACHE/{part}-$1"\necho end of {part}\n'
                f"exit {status}\n"
            )
            path.chmod(0o755)
        said = tmp_path / "said"
        variables = {
            "HOME": str(home), "SAID": str(said), "PATCH": "", "LOSSLAB_CACHE": "/somebody's",
            "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        }  # fmt: skip
        done = subprocess.run(
            [checkout / ".ci" / "run"], cwd=tmp_path, env=os.environ | variables,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert list((home / ".cache").iterdir()) == [], "its cache must be removed"
        return done, [line.rstrip() for line in said.read_text().splitlines()]

    return run


def test_ci_starts_with_an_empty_cache_and_ends_with_pytests_line(run):
    done, said = run()
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in said] == ["make", "make", "instruments.sh", "test.sh"]
    assert said[0] == "make setup cache=0"
    assert done.stdout.splitlines()[-1] == "end of test.sh"


@pytest.mark.parametrize(("part", "parts"), [("make", 1), ("instruments", 4), ("test", 4)], ids=str)
def test_failing_part_fails_the_run_and_a_failed_setup_ends_it(run, part, parts):
    done, said = run(**{part: 4})
    assert (done.returncode, len(said)) == (4, parts)
