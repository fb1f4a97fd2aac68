"""Post a report as a comment of a pull request on GitHub, and update it in later runs.

    python3 scripts/comment.py NAME REPORT.md

A step of `action.yml`, and of a workflow that follows the run of another one (`workflow_run`),
whose pull request may be from a fork. The comment begins with an invisible line that has the
workflow, the job and NAME, and a later run replaces the comment with the same line. TOKEN is a
token with the permission `pull-requests: write`; GitHub sets the other variables. Outside of a pull
request, nothing happens. A refusal is a warning of the job, as on a pull request from a fork, whose
token may only read. Only the standard library: the job's image may have no `gh`.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# GitHub refuses longer comments; the job's summary has the whole report.
MOST_CHARACTERS = 65_000
PER_PAGE = 100
TIMEOUT_S = 30


def call(method: str, address: str, data: Mapping[str, Any] | None = None) -> Any:
    """Return the answer of GitHub's interface; OSError if it refuses or cannot be reached."""
    request = urllib.request.Request(
        address,
        json.dumps(data).encode() if data else None,
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['TOKEN']}",
            "Content-Type": "application/json",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def earlier(comments: str, mark: str) -> str | None:
    """Return the address of the comment that begins with a mark."""
    page = 1
    while found := call("GET", f"{comments}?per_page={PER_PAGE}&page={page}"):
        for each in found:
            if (each["body"] or "").startswith(mark):
                return str(each["url"])
        page += 1
    return None


def body(mark: str, report: str, environment: Mapping[str, str]) -> str:
    """Return the text of the comment: mark, report, and a link to the run."""
    run = "{GITHUB_SERVER_URL}/{GITHUB_REPOSITORY}/actions/runs/{GITHUB_RUN_ID}"
    commit = environment["HEAD_SHA"] or environment["GITHUB_SHA"]
    end = f"\n\nCommit {commit}. [The run and its whole report]({run.format_map(environment)})\n"
    text = report.rstrip()
    if len(mark) + len(text) + len(end) > MOST_CHARACTERS:
        # At the end of a paragraph, so that no table or folded part remains open for long.
        text = text[: MOST_CHARACTERS - len(mark) - len(end)].rpartition("\n\n")[0]
        end = f"\n\n**The report is too long for a comment; this is its beginning.**{end}"
    return f"{mark}\n{text}{end}"


def pull_of(event: Mapping[str, Any], repository: str) -> dict[str, Any] | None:
    """Return the open pull request of an event, or of the run that it follows; None without one."""
    run = event.get("workflow_run")
    if not run:
        pull: dict[str, Any] | None = event.get("pull_request")
        return pull
    branch = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    query = urllib.parse.urlencode({"state": "open", "head": branch})
    pulls = call("GET", f"{repository}/pulls?{query}")
    return next((pull for pull in pulls if pull["head"]["sha"] == run["head_sha"]), None)


def main(name: str, report: str) -> int:
    """Create or update the comment; return 0 also if GitHub refuses it."""
    its = dict(os.environ)
    event = json.loads(Path(its["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    repository = f"{its['GITHUB_API_URL']}/repos/{its['GITHUB_REPOSITORY']}"
    pull = pull_of(event, repository)
    if not pull:
        print("No comment: the job is not of an open pull request.")
        return 0
    if "workflow_run" in event:
        its["GITHUB_RUN_ID"] = str(event["workflow_run"]["id"])
    comments = f"{repository}/issues/{pull['number']}/comments"
    which = f"{its['GITHUB_WORKFLOW']} / {its['GITHUB_JOB']} / {name}".replace(">", "")
    mark = f"<!-- losslab check: {which} -->"
    text = Path(report).read_text(encoding="utf-8")
    data = {"body": body(mark, text, {**its, "HEAD_SHA": pull["head"]["sha"]})}
    try:
        known = earlier(comments, mark)
        answer = call("PATCH", known, data) if known else call("POST", comments, data)
    except OSError as error:
        print(
            "::warning title=losslab check::The report is in the job's summary, but GitHub refused "
            f"the comment: {error}. The token needs the permission `pull-requests: write`; on a "
            "pull request from a fork, it may only read."
        )
        return 0
    print(f"{'Updated' if known else 'Created'} {answer['html_url']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
