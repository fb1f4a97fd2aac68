"""The GitHub Action `action.yml`, its metadata and shell script; and the development container."""

import json
import os
import re
import subprocess

import pytest
import yaml

from losslab import cli

EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@pytest.fixture(scope="module")
def action(root):
    return yaml.safe_load((root / "action.yml").read_text())


def test_expressions_name_inputs_and_outputs_that_exist(action):
    known = {f"inputs.{name}" for name in action["inputs"]}
    known |= {f"github.{name}" for name in ("action_path", "action_ref", "sha")}
    known |= {f"runner.{name}" for name in ("os", "arch")}
    script = action["runs"]["steps"][-1]["run"]
    known |= {f"steps.check.outputs.{name}" for name in re.findall(r'echo "(\w+)=', script)}
    used = {
        word.strip() for found in EXPRESSION.findall(yaml.safe_dump(action))
        for word in found.split("||")
    }  # fmt: skip
    assert used <= known
    assert {f"inputs.{name}" for name in action["inputs"]} <= used
    # Inputs inside of a script would be code.
    assert not any(EXPRESSION.search(step.get("run", "")) for step in action["runs"]["steps"])


@pytest.fixture
def run(action, tmp_path):
    """Return a function that runs the last step with a substitute for losslab."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "losslab").write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" >said\nmkdir -p out\necho report >out/report.md\n'
        'exit "$STATUS"\n'
    )
    (folder / "losslab").chmod(0o755)

    def run(status=0, **inputs):
        step = action["runs"]["steps"][-1]
        defaults = {name: its.get("default", "") for name, its in action["inputs"].items()}
        values = defaults | {"out": "out"} | {k.replace("_", "-"): v for k, v in inputs.items()}
        variables = {
            name: values.get(EXPRESSION.search(text)[1].removeprefix("inputs."), str(tmp_path))
            for name, text in step["env"].items()
        }
        files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=tmp_path,
            env=os.environ | variables | files
            | {"STATUS": str(status), "PATH": f"{folder}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done, (tmp_path / "said").read_text().splitlines()

    return run


def test_step_runs_a_command_that_losslab_understands(run, tmp_path):
    done, said = run(change="a.c b*.patch", base="old/a.c old/b.c", options="--only loss",
                     fail_on="worse", trend=str(tmp_path / "trend.csv"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    options = cli.parser().parse_args(said)
    assert (options.change, options.base) == (["a.c", "b*.patch"], ["old/a.c", "old/b.c"])
    assert (options.annotations, options.trend) == (True, tmp_path / "trend.csv")
    assert (options.only, options.fail_on, str(options.out)) == (["loss"], "worse", "out")
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "report\n"
    assert "report=out/report.md" in (tmp_path / "GITHUB_OUTPUT").read_text()
    done, _ = run(status=1, change="a.c")
    assert done.returncode == 1


def test_development_container_has_what_a_guest_needs(root):
    its = json.loads((root / ".devcontainer" / "devcontainer.json").read_text())
    # docs/explanation/platforms.md: personality, and a folder for memory that allows exec.
    assert "--security-opt=seccomp=unconfined" in its["runArgs"]
    scratch = its["containerEnv"]["LOSSLAB_SCRATCH"]
    assert any(each.startswith(f"--tmpfs={scratch}:exec,") for each in its["runArgs"])
    target = re.search(r"&& make (\w+)$", its["onCreateCommand"])[1]
    assert re.search(rf"^{target}:", (root / "Makefile").read_text(), re.MULTILINE)


def test_set_up_of_the_action_installs_no_r_and_no_renderer(action, root, tmp_path):
    [step] = [each["run"] for each in action["runs"]["steps"] if "setup.sh" in each.get("run", "")]
    (tmp_path / "scripts").mkdir()
    for name in ("setup.sh", "packages.sh"):
        (tmp_path / "scripts" / name).write_text((root / "scripts" / name).read_text())
        (tmp_path / "scripts" / name).chmod(0o755)
    (tmp_path / "scripts/packages.sh").write_text(
        '#!/bin/sh\necho "packages: $*"; [ "$1" != python ]'
    )
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers/release.toml").write_text('address = ""\n')
    # Ends at the file that names the versions, before .venv is made.
    done = subprocess.run(
        ["bash", "-c", step], env=os.environ | {"ACTION": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.startswith("packages:")]
    assert said == ["packages: build python"], done.stderr
