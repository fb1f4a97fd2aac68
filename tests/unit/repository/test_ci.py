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
    assert said[:2] == ["make setup cache=0", "make check cache=1"]
    assert said[-2:] == [
        f"instruments.sh --optional cache={len(said) - 2}", f"test.sh  cache={len(said) - 1}"
    ]  # fmt: skip
    assert done.stdout.splitlines()[-1] == "end of test.sh"
    assert "`make setup` ended with status 0 after " in done.stderr


def test_sources_beside_the_checkout_require_every_build(run, tmp_path):
    sources = tmp_path / "shared" / "sources"
    sources.mkdir(parents=True)
    (sources / "ci.env").write_text("export PATCH=copy\n")
    _, said = run()
    assert [line for line in said if line.startswith("instruments.sh")] == [
        f"instruments.sh  cache={len(said) - 2} copy"
    ]


def test_ci_stops_after_a_failed_setup(run):
    done, said = run(make=3)
    assert (done.returncode, len(said)) == (3, 1)


@pytest.mark.parametrize("part", ["instruments", "test"])
def test_failing_part_fails_the_run_after_the_tests(run, part):
    done, said = run(**{part: 4})
    assert done.returncode == 4
    assert said[-1].startswith("test.sh")
    assert done.stdout.splitlines()[-1] == "end of test.sh"


BUILT = [
    "image --variant engine --optional", "image --variant quic", "image --variant rsync",
    "kernel --name 6.12-bbr3 --optional",
]  # fmt: skip


@pytest.mark.parametrize("broken", ["", "image --variant quic", "kernel --name 6.12-bbr3"])
def test_every_kernel_and_image_is_built_or_the_run_fails(tmp_path, broken):
    losslab = tmp_path / ".venv" / "bin" / "losslab"
    for path in (losslab, tmp_path / "scripts" / "instruments.sh"):
        path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "instruments.sh", tmp_path / "scripts")
    said = tmp_path / "said"
    losslab.write_text(
        f'#!/bin/sh\necho "$*" >>{said}\ncase "$*" in "{broken or "nothing"}"*) exit 3;; esac\n'
    )
    losslab.chmod(0o755)
    done = subprocess.run([tmp_path / "scripts" / "instruments.sh", "--optional"], check=False)
    assert done.returncode == (3 if broken else 0)
    words = set(said.read_text().splitlines())
    assert words == set(BUILT) if not broken else words <= set(BUILT)
