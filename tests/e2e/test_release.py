"""Packages of a release and an artifact: source distribution, wheel, set-up without a network."""

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

pytestmark = pytest.mark.nightly


def test_source_distribution_makes_the_wheel_of_the_clone(root, tmp_path):
    """Run the release workflow's own step in a copy of the sources with this environment."""
    clone = sources.copy(tmp_path / "clone")
    (clone / ".venv").symlink_to(Path(sys.executable).parents[1])
    text = (root / ".github" / "workflows" / "release.yml").read_text()
    [step] = [
        each["run"] for each in yaml.safe_load(text)["jobs"]["package"]["steps"]
        if each.get("name") == "Source distribution, and the wheel from it"
    ]  # fmt: skip
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step], cwd=clone,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    packed, archive = sorted((clone / "dist").iterdir())
    with tarfile.open(archive) as tar:
        assert f"losslab-{losslab.__version__}/setup.py" in tar.getnames()
    names = [sorted(zipfile.ZipFile(path).namelist()) for path in (packed, wheel.build(tmp_path))]
    assert names[0] == names[1]
    assert "losslab/share/workflow/Snakefile" in names[0]


# No index, no configuration of pip and no copies of earlier downloads.
WITHOUT_INDEX = {
    "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://localhost:9/", "PIP_NO_CACHE_DIR": "1",
    "PIP_RETRIES": "0", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "wheels",
}  # fmt: skip


@pytest.fixture
def unpacked(tmp_path):
    """Return an unpacked artifact: these sources, with the packages of their locks."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-build-isolation"]
    if subprocess.run(
        [*asked, "--dest", tmp_path, "packaging"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no package index can be reached")
    folder = sources.copy(tmp_path / "artifact")
    locks = ("-r", "requirements-build.lock", "-r", "requirements.lock")
    subprocess.run([*asked, "--require-hashes", "--dest", "wheels", *locks], cwd=folder, check=True)
    return folder


@pytest.mark.alone
def test_artifact_with_wheels_is_set_up_without_a_package_index(unpacked):
    done = subprocess.run(
        ["scripts/setup.sh", "tools"], cwd=unpacked, env=os.environ | WITHOUT_INDEX,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for program in ("losslab", "snakemake", "pytest"):
        words = [unpacked / ".venv" / "bin" / program, "--version"]
        subprocess.run(words, cwd=unpacked, check=True, capture_output=True)
