"""Measurement in an emulated machine, with only its copy of the repository and of Debian."""

import importlib.metadata
import os
import shutil
import subprocess
import venv

from packaging.requirements import Requirement

from tests.acceptance import machine

# Debian's names of Python packages, where they differ.
PYTHON_NAMES = {"python3-yaml": "PyYAML"}
CONDITION = "cubic-loss"


def distributions(names):
    """Return Python packages and their dependencies, as Debian installs them."""
    found = {}
    waiting = list(names)
    while waiting:
        each = importlib.metadata.distribution(waiting.pop())
        if each.name not in found:
            found[each.name] = each
            required = map(Requirement, each.requires or [])
            waiting += [
                r.name for r in required if r.marker is None or r.marker.evaluate({"extra": ""})
            ]
    return found.values()


def test_emulated_machine_measures_a_golden_condition(tmp_path):
    """A Python with only those packages and a copy of the folders replace the machine."""
    for place, folder in machine.sources().items():
        shutil.copytree(
            folder, tmp_path / place, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    venv.create(tmp_path / "venv", symlinks=True)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    names = [name for name in machine.PACKAGES if name != "python3"]
    for each in distributions(PYTHON_NAMES.get(n, n.removeprefix("python3-")) for n in names):
        for top in {file.parts[0] for file in each.files if file.parts[0] != ".."}:
            if not (packages / top).exists():
                (packages / top).symlink_to(each.locate_file(top))
    kept = tmp_path / "cells"
    done = subprocess.run(
        [
            tmp_path / "venv/bin/python", "-m", "bench.golden", "--jobs", "1", "--keep", kept,
            "--only", CONDITION,
        ],
        cwd=tmp_path / "losslab", capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": "src"},
    )  # fmt: skip
    # Other tests compare the bytes with the recorded ones.
    assert done.stderr == ""
    assert (kept / CONDITION / "manifest.json").is_file()
