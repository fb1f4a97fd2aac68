"""Start of every command of `bench` and `tests`: imports and options."""

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from bench import faults
from tests.conftest import ROOT

# Commands without options, which write a recorded file or print a table.
WITHOUT_OPTIONS = {"tests.unit.study.recorded"}


def is_command(path):
    """Return whether `python -m` runs a module: a package's __main__, or a main guard."""
    tree = ast.parse(path.read_text())
    return path.name == "__main__.py" or any(
        isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body
    )


def module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")


COMMANDS = sorted(
    module(path)
    for folder in ("bench", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if is_command(path)
)


def started(name, *words):
    return subprocess.run(
        [sys.executable, "-m", name, *words], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"COLUMNS": "100"},
    )  # fmt: skip


# Other tests may have imported the module, which runs again here.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in WITHOUT_OPTIONS])
def test_commands_of_bench_and_tests_print_their_help(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    assert end.value.code in (0, None)
    assert capsys.readouterr().out.startswith("usage: ")


def test_every_bench_command_is_tested():
    assert {"bench.faults", "bench.golden", "tests.acceptance"} < set(COMMANDS)
    assert set(COMMANDS) > WITHOUT_OPTIONS


def test_unknown_fault_is_refused_with_the_existing_names():
    done = started("bench.faults", "small_shm", "power_cut")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "power_cut" in done.stderr
    assert all(name in done.stderr for name in faults.FAULTS)


def test_host_state_runs_a_command_with_its_own_options(tmp_path):
    done = started("bench.host_state", "--", "sh", "-c", f"touch {tmp_path}/ran; exit 3")
    assert (tmp_path / "ran").exists()
    assert "exit status 3" in done.stdout


@pytest.mark.parametrize(
    ("name", "words", "found"),
    [
        ("bench.readme", ["no-results"], "no-results/figures/loss_goodput.svg"),
        ("bench.speed", ["--parts", "none"], "none"),
    ],
)
def test_wrong_arguments_are_refused_with_the_value_found(name, words, found):
    done = started(name, *words)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert found in " ".join(done.stderr.split())


def test_cluster_test_without_slurm_is_skipped_with_its_reason(monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    done = started("tests.acceptance", "slurm")
    assert (done.returncode, done.stderr) == (0, "")
    assert "slurm: skipped: needs" in done.stdout
