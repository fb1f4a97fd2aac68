"""Weight of the repository: lines and files, which go down unless a feature is added."""

import subprocess

from tests.conftest import ROOT

# Lower these when a change removes code, and raise them for a new feature only. They are rounded
# up to the next hundred lines.
LINES = {"src": 43_100, "tests": 30_100, "bench": 3_000}
FILES = {"src": 206, "tests": 236, "bench": 15}
LONGEST = 600

PATTERNS = {
    "src": ["src/*.py"],
    "tests": ["tests/*.py"],
    "bench": ["bench/*.py"],
}


def listed(kind):
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *PATTERNS[kind]],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def lengths(kind):
    """Return the number of lines of each Python file of a kind."""
    return {name: len((ROOT / name).read_text().splitlines()) for name in listed(kind)}


def test_source_tests_and_benches_are_no_heavier_than_before():
    found = {kind: lengths(kind) for kind in LINES}
    heavier = [
        f"{kind}: {sum(files.values())} lines in {len(files)} files"
        for kind, files in found.items()
        if sum(files.values()) > LINES[kind] or len(files) > FILES[kind]
    ]
    assert heavier == []
    assert [
        f"{name}: {lines} lines"
        for files in found.values()
        for name, lines in files.items()
        if lines > LONGEST
    ] == []
