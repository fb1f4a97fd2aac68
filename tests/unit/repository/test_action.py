"""The GitHub Action `action.yml`, its metadata and shell script; and the development container."""

import http.server
import json
import os
import re
import subprocess
import threading
from typing import ClassVar

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


def test_expressions_name_inputs_and_outputs_that_exist(action):
    known = {f"inputs.{name}" for name in action["inputs"]}
    # Not github.action_path, which is wrong in a container's job.
    known |= {"github.sha", "runner.os", "runner.arch"}
    for each in action["runs"]["steps"]:
        for name in re.findall(r"(\w+)=.*GITHUB_OUTPUT", each.get("run", "")):
            known.add(f"steps.{each['id']}.outputs.{name}")
    expressions = EXPRESSION.findall(yaml.safe_dump(action))
    used = {name for text in expressions for name in re.findall(r"\b\w+\.[\w.-]+", text)}
    assert used <= known
    assert {f"inputs.{name}" for name in action["inputs"]} <= used
    # Inputs inside of a script would be code.
    assert not any(EXPRESSION.search(each.get("run", "")) for each in action["runs"]["steps"])


def test_key_of_the_cache_is_the_digest_of_the_sources(action, root, tmp_path):
    output = tmp_path / "output"
    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step(action, "sources")["run"]], check=True,
        env=os.environ | {"GITHUB_ACTION_PATH": str(root), "GITHUB_OUTPUT": str(output)},
    )  # fmt: skip
    assert re.fullmatch(r"digest=[0-9a-f]{64}\n", output.read_text())


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
                     fail_on="worse")  # fmt: skip
    assert done.returncode == 0, done.stderr
    options = cli.parser().parse_args(said)
    assert (options.change, options.base) == (["a.c", "b*.patch"], ["old/a.c", "old/b.c"])
    assert options.annotations
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


def test_set_up_of_an_unpacked_artifact_needs_no_compiler(root, tmp_path):
    (tmp_path / "SHA256SUMS").touch()
    (tmp_path / "instruments").mkdir()
    said = packages_of('"$GITHUB_ACTION_PATH/scripts/setup.sh"', root, tmp_path)
    assert said == ["packages: --check python analysis tests", "packages: python"]


class GitHub(http.server.BaseHTTPRequestHandler):
    """A substitute for GitHub's interface: comments of one pull request, 100 per page."""

    comments: ClassVar[list] = []
    refuse: ClassVar[bool] = False

    def answer(self):
        length = int(self.headers["Content-Length"] or 0)
        data = json.loads(self.rfile.read(length) or "{}")
        path, _, query = self.path.partition("?")
        if self.refuse or self.headers["Authorization"] != "Bearer secret":
            self.send_error(403, "Resource not accessible by integration")
            return
        if self.command == "GET":
            page = int(re.search(r"[?&]page=(\d+)", f"?{query}")[1])
            found = self.comments[100 * (page - 1) : 100 * page]
        elif self.command == "POST":
            assert path == "/repos/me/tcp/issues/7/comments"
            found = data | {"url": f"{self.server.place}/{len(self.comments)}", "html_url": "new"}
            self.comments.append(found)
        else:
            found = self.comments[int(path.strip("/"))]
            found["body"] = data["body"]
        text = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = answer  # noqa: N815 names of http.server

    def log_message(self, *words):
        pass


@pytest.fixture
def comment(action, root, tmp_path):
    """Return a function that runs the step of the comment against a substitute for GitHub."""
    GitHub.comments, GitHub.refuse = [], False
    event = tmp_path / "event.json"
    event.write_text('{"pull_request": {"number": 7, "head": {"sha": "0a1b2c"}}}')
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), GitHub)
    server.place = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever).start()

    def run(text, out="losslab-check", token="secret"):
        report = tmp_path / "a report.md"
        report.write_text(text)
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", action["runs"]["steps"][-1]["run"]],
            env=os.environ | {
                "GITHUB_ACTION_PATH": str(root), "GITHUB_API_URL": server.place,
                "GITHUB_EVENT_PATH": str(event), "GITHUB_JOB": "check", "GITHUB_RUN_ID": "99",
                "GITHUB_REPOSITORY": "me/tcp", "GITHUB_SERVER_URL": "https://github.com",
                "GITHUB_SHA": "merge", "GITHUB_WORKFLOW": "a --> b", "OUT": out,
                "REPORT": str(report), "TOKEN": token, "no_proxy": "127.0.0.1",
            },
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip

    yield run
    server.shutdown()
    server.server_close()


def test_later_report_replaces_the_comment_of_the_earlier_one(comment):
    GitHub.comments = [{"body": "> <!-- losslab check: a", "url": "", "html_url": ""}] * 150
    assert comment("first\n").startswith("Created")
    assert comment("second\n").startswith("Updated")
    comment("of another check\n", out="other")
    assert len(GitHub.comments) == 152
    mark, *rest = GitHub.comments[150]["body"].splitlines()
    assert mark == "<!-- losslab check: a -- b / check / losslab-check -->"
    assert rest[0] == "second"
    assert "0a1b2c" in rest[-1]
    assert "https://github.com/me/tcp/actions/runs/99" in rest[-1]


def test_comment_of_a_long_report_ends_at_a_paragraph(comment):
    comment("\n\n".join(f"paragraph {n} {'x' * 900}" for n in range(100)))
    [its] = GitHub.comments
    assert len(its["body"]) <= 65_536
    *_, last, note, _ = its["body"].split("\n\n")
    assert last.endswith("x")
    assert len(last) > 900
    assert "too long" in note


@pytest.mark.parametrize("token", ["secret", "of a fork"])
def test_refused_comment_is_a_warning_with_the_permission(comment, token):
    GitHub.refuse = token == "secret"
    said = comment("text", token=token)
    assert said.startswith("::warning")
    assert "pull-requests: write" in said
