"""The GitHub Action `action.yml`, its metadata and shell script; and the development container."""

import importlib.util
import json
import os
import re
import subprocess
from types import SimpleNamespace

import pytest
import yaml

from losslab import cli

EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")


@pytest.fixture(scope="module")
def action(root):
    return yaml.safe_load((root / "action.yml").read_text())


def step(action, name):
    [found] = [each for each in action["runs"]["steps"] if each.get("id") == name]
    return found


@pytest.fixture
def run(action, tmp_path):
    """Return a function that runs the check with a substitute for losslab."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "losslab").write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" >said\nmkdir -p out\necho report >out/report.md\n'
        'exit "$STATUS"\n'
    )
    (folder / "losslab").chmod(0o755)

    def run(status=0, **inputs):
        its = step(action, "check")
        defaults = {name: its.get("default", "") for name, its in action["inputs"].items()}
        values = defaults | {"out": "out"} | {k.replace("_", "-"): v for k, v in inputs.items()}
        variables = {
            name: values[EXPRESSION.search(text)[1].removeprefix("inputs.")]
            for name, text in its["env"].items()
        }
        files = {name: str(tmp_path / name) for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", its["run"]], cwd=tmp_path,
            env=os.environ | variables | files
            | {
                "GITHUB_ACTION_PATH": str(tmp_path), "STATUS": str(status),
                "PATH": f"{folder}:{os.environ['PATH']}",
            },
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


def packages_of(script, root, folder):
    """Run a script that calls setup.sh in a folder; return what it asks of packages.sh."""
    (folder / "scripts").mkdir()
    (folder / "scripts/setup.sh").write_text((root / "scripts/setup.sh").read_text())
    (folder / "scripts/packages.sh").write_text(
        '#!/bin/sh\necho "packages: $*"; [ "$1" != python ]'
    )
    for name in ("setup.sh", "packages.sh"):
        (folder / "scripts" / name).chmod(0o755)
    (folder / "containers").mkdir()
    (folder / "containers/release.toml").write_text('address = ""\n')
    environment = os.environ | {"GITHUB_ACTION_PATH": str(folder), "PATH": "/usr/bin:/bin"}
    environment.pop("LOSSLAB_INSTRUMENTS", None)
    # Ends at the file that names the versions, or at packages.sh, before .venv is made.
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    return [line for line in done.stdout.splitlines() if line.startswith("packages:")]


def test_set_up_of_the_action_installs_no_r_and_no_renderer(action, root, tmp_path):
    [script] = [
        each["run"] for each in action["runs"]["steps"] if "setup.sh" in each.get("run", "")
    ]
    assert packages_of(script, root, tmp_path) == ["packages: build python"]


@pytest.fixture
def comment(action, root, tmp_path, monkeypatch):
    """Return the program of the comment's step with a substitute for GitHub, and the comments."""
    assert 'scripts/comment.py" "$OUT" "$REPORT"' in action["runs"]["steps"][-1]["run"]
    spec = importlib.util.spec_from_file_location("comment", root / "scripts/comment.py")
    program, comments = importlib.util.module_from_spec(spec), []
    spec.loader.exec_module(program)
    event = tmp_path / "event.json"
    event.write_text('{"pull_request": {"number": 7, "head": {"sha": "0a1b2c"}}}')
    variables = {
        "API_URL": "https://api", "EVENT_PATH": str(event), "JOB": "check", "RUN_ID": "99",
        "REPOSITORY": "me/tcp", "SERVER_URL": "https://github.com", "SHA": "merge",
        "WORKFLOW": "a --> b",
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)

    def call(method, address, data=None):
        if method == "GET":
            page = int(address.rpartition("=")[2])
            return comments[100 * (page - 1) : 100 * page]
        if method == "POST":
            assert address == "https://api/repos/me/tcp/issues/7/comments"
            comments.append({"url": str(len(comments)), "html_url": "new"})
            address = comments[-1]["url"]
        comments[int(address)] |= data
        return comments[int(address)]

    def run(text, out="losslab-check"):
        (tmp_path / "a report.md").write_text(text)
        assert program.main(out, str(tmp_path / "a report.md")) == 0

    monkeypatch.setattr(program, "call", call)
    return SimpleNamespace(run=run, comments=comments, program=program)


def test_comment_after_another_workflows_run_is_that_of_the_open_pull_request_of_its_commit(
    comment, tmp_path, monkeypatch, capsys
):
    run = {
        "id": 5, "head_sha": "0a1b2c", "head_branch": "my branch",
        "head_repository": {"owner": {"login": "stranger"}},
    }  # fmt: skip
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": run}))
    pulls, asked, call = [{"number": 6, "head": {"sha": "older"}}], [], comment.program.call

    def answer(method, address, data=None):
        if "/pulls?" not in address:
            return call(method, address, data)
        asked.append(address)
        return pulls

    monkeypatch.setattr(comment.program, "call", answer)
    comment.run("first\n")
    assert "No comment: the job is not of an open pull request" in capsys.readouterr().out
    pulls.append({"number": 7, "head": {"sha": "0a1b2c"}})
    comment.run("second\n")
    assert asked[0] == "https://api/repos/me/tcp/pulls?state=open&head=stranger%3Amy+branch"
    [made] = comment.comments
    assert "second" in made["body"]
    assert "Commit 0a1b2c." in made["body"]
    assert "/actions/runs/5)" in made["body"]


def test_later_report_replaces_the_comment_of_the_earlier_one(comment, capsys):
    comment.comments += [{"body": "> <!-- losslab check: a", "url": "", "html_url": ""}] * 150
    comment.run("first\n")
    comment.run("second\n")
    comment.run("of another check\n", out="other")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "Created", "Updated", "Created",
    ]  # fmt: skip
    assert len(comment.comments) == 152
    mark, *rest = comment.comments[150]["body"].splitlines()
    assert mark == "<!-- losslab check: a -- b / check / losslab-check -->"
    assert rest[0] == "second"
    assert "0a1b2c" in rest[-1]
    assert "https://github.com/me/tcp/actions/runs/99" in rest[-1]


def test_comment_of_a_long_report_ends_at_a_paragraph(comment):
    comment.run("\n\n".join(f"paragraph {n} {'x' * 900}" for n in range(100)))
    [its] = comment.comments
    assert len(its["body"]) <= 65_536
    *_, last, note, _ = its["body"].split("\n\n")
    assert last.endswith("x")
    assert len(last) > 900
    assert "too long" in note


def test_refused_comment_is_a_warning_with_the_permission(comment, monkeypatch, capsys):
    def refuse(*_):
        raise OSError("403")

    monkeypatch.setattr(comment.program, "call", refuse)
    comment.run("text")
    said = capsys.readouterr().out
    assert said.startswith("::warning")
    assert "pull-requests: write" in said
