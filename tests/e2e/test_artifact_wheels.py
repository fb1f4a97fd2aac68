"""Python packages of an artifact (`make artifact WHEELS=1`): set-up without a package index."""

import os
import subprocess
import sys

import pytest

from losslab.artifact import pack
from tests import sources

# No index, no configuration of pip and no copies of earlier downloads.
WITHOUT_INDEX = {
    "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://localhost:9/", "PIP_NO_CACHE_DIR": "1",
    "PIP_RETRIES": "0",
}  # fmt: skip


@pytest.fixture
def unpacked(root, tmp_path):
    """Return an unpacked artifact: these sources, with the packages of their locks."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tmp_path]
    if subprocess.run([*asked, "packaging"], capture_output=True, check=False).returncode:
        pytest.skip("no package index can be reached")
    folder = sources.copy(tmp_path / "artifact")
    pack.fetch_wheels(root, folder)
    return folder


@pytest.mark.nightly
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
