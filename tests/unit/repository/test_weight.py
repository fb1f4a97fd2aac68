"""Weight of the repository: lines and files, which go down unless a feature is added."""

import subprocess

from tests.conftest import ROOT

# Lower these when a change removes code, and raise them for a new feature only. They are rounded
# up to the next hundred lines.
LINES = {"src": 38_400, "tests": 30_900, "bench": 2_700}
FILES = {"src": 175, "tests": 223, "bench": 14}
LONGEST = 600


# Those of plug-ins count, too.
PLUGINS = {"src": ["plugins/*/losslab_*.py"], "tests": ["plugins/*/tests/*.py"]}


def listed(folder):
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", f"{folder}/*.py",
         *PLUGINS.get(folder, [])],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def lengths(folder):
    """Return the number of lines of each Python file of a folder."""
    return {name: len((ROOT / name).read_text().splitlines()) for name in listed(folder)}


def test_source_tests_and_benches_are_no_heavier_than_before():
    found = {folder: lengths(folder) for folder in LINES}
    heavier = [
        f"{folder}: {sum(files.values())} lines in {len(files)} files"
        for folder, files in found.items()
        if sum(files.values()) > LINES[folder] or len(files) > FILES[folder]
    ]
    assert heavier == []
    assert [
        f"{name}: {lines} lines"
        for files in found.values()
        for name, lines in files.items()
        if lines > LONGEST
    ] == []
