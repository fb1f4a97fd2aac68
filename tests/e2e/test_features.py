"""New features need one module and one golden condition: an impairment and an app as examples.

Their modules are added to a copy of the package, which is otherwise unchanged.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

# Modules of tests/fixtures/features, and their destinations.
MODULES = {"corruption": "path", "transfer": "apps"}
COPIED, LINKED = ("src", "bench"), ("algorithms", "config", "containers", "workflow")
GOLDEN = "tests/golden/golden.yaml"


def run(copy, *words):
    """Run a module of the copy in this Python."""
    paths = os.pathsep.join((str(copy / "src"), str(copy)))
    return subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True, text=True, check=False, cwd=copy,
        env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip


@pytest.fixture(scope="module")
def copy(root, tmp_path_factory):
    """Return a copy of the project with both modules and only their golden conditions."""
    folder = tmp_path_factory.mktemp("features")
    for name in COPIED:
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (folder / name).symlink_to(root / name)
    fixtures = root / "tests" / "fixtures" / "features"
    for name, package in MODULES.items():
        shutil.copy(fixtures / f"{name}.py", folder / "src/losslab/emulation" / package)
    (folder / GOLDEN).parent.mkdir(parents=True)
    instruments = yaml.safe_load((root / GOLDEN).read_text())["instruments"]
    conditions = yaml.safe_load((fixtures / "golden.yaml").read_text())
    (folder / GOLDEN).write_text(
        yaml.safe_dump({"instruments": instruments, "conditions": conditions})
    )
    return folder


@pytest.fixture(scope="module")
def measured(copy):
    """Return measured digests and the golden ones."""
    cells = copy / "cells"
    done = run(copy, "bench.golden", "--jobs", "1", "--keep", str(cells))
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((cells / name / "manifest.json").read_text()) for name in MODULES}


def test_new_features_axes_and_metrics_are_listed(copy):
    table = run(copy, "losslab.cli", "axes").stdout
    assert "| `corrupt_percent` | % of packets | [0, 100) | `0` |" in table
    assert "| `transfer_kb` | kB |" in table
    assert "`transfer` (a transfer of `transfer_kb`)" in table
    metrics = run(copy, "losslab.cli", "metrics").stdout
    assert "| `corrupted_packets` | packets | less | corrupt_percent |" in metrics
    assert "| `transfer_s` | s | less | transfer |" in metrics


def test_conflicting_axes_are_refused(copy):
    words = ("losslab.cli", "measure", "--algorithm", "cubic", "--out", "x")
    done = run(copy, *words, "--corrupt-percent", "1", "--rtt-ms", "0", "--rate-mbit", "10")
    assert "corrupt_percent must be at their defaults with rtt_ms 0" in done.stderr
    done = run(copy, *words, "--transfer-kb", "5")
    assert "transfer_kb 5.0 needs the app transfer, found iperf3" in done.stderr


def test_new_impairment_is_planned_read_back_and_counted(measured):
    its = measured["corruption"]
    assert (its["valid"], its["plan"]["promise"]["more"]["corrupt_percent"]) == (True, 2.0)
    [line] = [q for q in its["observed"]["state"]["r2"]["qdiscs"] if q.get("dev") == "r2-receiver"]
    assert line["options"]["corrupt"]["corrupt"] == 0.02
    count = its["observed"]["traffic"]["others"]["corrupted"]
    assert its["summary"]["corrupted_packets"] == count > 0
    assert its["summary"]["goodput_mbit"] > 0


def test_new_app_runs_its_programs_and_has_its_metrics(measured):
    its = measured["transfer"]
    assert its["valid"]
    assert its["summary"]["bytes_received"] == 500_000
    # 0.2 s at 20 Mbit/s, and some RTTs of 20 ms.
    assert 0.2 < its["summary"]["transfer_s"] < 0.5


FINGERPRINTS = """
import dataclasses, sys
from losslab.campaign import fingerprint
from losslab.study.condition import Condition
plain = Condition(algorithm="cubic", rtt_ms=20)
for more in ({}, {"corrupt_percent": 2}, {"app": "transfer"}):
    parts = fingerprint.of(dataclasses.replace(plain, **more), "virtual", "guest").parts
    print([part for part in parts if part in ("path/corruption", "apps/transfer")])
"""


def test_only_cells_of_a_feature_depend_on_its_module(copy):
    (copy / "fingerprints.py").write_text(FINGERPRINTS)
    assert run(copy, "fingerprints").stdout.splitlines() == [
        "[]", "['path/corruption']", "['apps/transfer']",
    ]  # fmt: skip
