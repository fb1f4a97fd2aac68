"""Release workflow: the package that it builds, and the permissions with which it publishes."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import losslab
from tests import sources, wheel


@pytest.fixture(scope="module")
def jobs(root):
    text = (root / ".github" / "workflows" / "release.yml").read_text()
    return yaml.safe_load(text)["jobs"]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Return a copy of the sources with this environment."""
    folder = sources.copy(tmp_path_factory.mktemp("release") / "clone")
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    return folder


def run(jobs, clone, name, tag):
    """Run a named step of the job `package`."""
    step = next(step for step in jobs["package"]["steps"] if step.get("name") == name)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=clone,
        env=os.environ | {"GITHUB_REF_NAME": tag}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.nightly
def test_source_distribution_makes_the_wheel_of_the_clone(jobs, clone, tmp_path):
    done = run(jobs, clone, "Source distribution, and the wheel from it", "")
    assert done.returncode == 0, done.stderr
    packed, archive = sorted((clone / "dist").iterdir())
    with tarfile.open(archive) as tar:
        assert f"losslab-{losslab.__version__}/setup.py" in tar.getnames()
    names = [sorted(zipfile.ZipFile(path).namelist()) for path in (packed, wheel.build(tmp_path))]
    assert names[0] == names[1]
    assert "losslab/share/workflow/Snakefile" in names[0]
