"""The GitHub Action `action.yml`: its metadata, its shell scripts, and the image's recipe."""

import os
import re
import subprocess

import jsonschema
import pytest
import yaml

from losslab import cli

EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
TEXT = {"type": "string", "minLength": 1}
# GitHub's metadata syntax of composite actions, as far as this action uses it.
STEP = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        **{key: TEXT for key in ("id", "name", "if", "uses", "run", "shell")},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
        "with": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "oneOf": [
        {"required": ["uses"], "properties": {"run": False, "shell": False}},
        {"required": ["run", "shell"], "properties": {"with": False}},
    ],
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "description", "runs"],
    "properties": {
        "name": TEXT,
        "description": {**TEXT, "maxLength": 125},
        "inputs": {
            "type": "object",
            "propertyNames": {"pattern": "^[a-z][a-z-]*$"},
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["description"],
                "properties": {
                    "description": TEXT,
                    "required": {"type": "boolean"},
                    "default": {"type": "string"},
                },
            },
        },
        "outputs": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": False,
                "required": ["description", "value"],
                "properties": {"description": TEXT, "value": TEXT},
            },
        },
        "runs": {
            "type": "object",
            "additionalProperties": False,
            "required": ["using", "steps"],
            "properties": {
                "using": {"const": "composite"},
                "steps": {"type": "array", "minItems": 1, "items": STEP},
            },
        },
    },
}


@pytest.fixture(scope="module")
def action(root):
    return yaml.safe_load((root / "action.yml").read_text())


def test_metadata_follow_githubs_syntax(action):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(action, SCHEMA)
    # An action needs its version, or it changes under its users.
    uses = [step["uses"] for step in action["runs"]["steps"] if "uses" in step]
    assert all(re.fullmatch(r"[\w/-]+@v\d+", name) for name in uses)


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
        '#!/bin/sh\nprintf "%s\\n" "$@" >said\nmkdir out\necho report >out/report.md\n'
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
                     fail_on="worse")  # fmt: skip
    assert done.returncode == 0, done.stderr
    options = cli.parser().parse_args(said)
    assert (options.change, options.base) == (["a.c", "b*.patch"], ["old/a.c", "old/b.c"])
    assert (options.only, options.fail_on, str(options.out)) == (["loss"], "worse", "out")
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "report\n"
    assert "report=out/report.md" in (tmp_path / "GITHUB_OUTPUT").read_text()


def test_step_fails_after_the_report(run, tmp_path):
    done, _ = run(status=1, change="a.c")
    assert done.returncode == 1
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text() == "report\n"


def test_recipe_of_the_image_has_known_instructions_and_paths(root):
    text = (root / "containers" / "check" / "Dockerfile").read_text()
    whole = re.sub(r"\\\n", " ", text)
    lines = [line for line in whole.splitlines() if line and not line.startswith("#")]
    assert [line.split()[0] for line in lines] == [
        "FROM",
        "RUN",
        "ENV",
        "COPY",
        "RUN",
        "ENV",
        "CMD",
    ]
    assert "COPY . /opt/losslab" in lines
    assert "make -C /opt/losslab setup" in whole
    # Only this syntax has RUN --security.
    assert text.startswith("# syntax=docker/dockerfile:1-labs\n")
    for line in lines:
        if line.startswith("RUN"):
            script = line.removeprefix("RUN").replace("--security=insecure", "")
            assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0
