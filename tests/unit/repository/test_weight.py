"""Weight of the repository: lines and files, which go down unless a feature is added."""

from tests.sources import tracked

# Lower these when a change removes code, and raise them for a new feature only. They are rounded
# up to the next hundred lines.
LINES = {"src": 53_700, "tests": 38_500, "bench": 6_000, "kernel": 5_000}
FILES = {"src": 255, "tests": 281, "bench": 28, "kernel": 38}

PATTERNS = {
    "src": ["src/*.py"],
    "tests": ["tests/*.py"],
    "bench": ["bench/*.py"],
    # What losslab adds to Linux: patches of every series, and new files.
    "kernel": ["containers/kernel/*.patch", "containers/kernel/*.[ch]"],
}


def test_sources_tests_benches_and_patches_are_no_heavier_than_before():
    files = {kind: tracked(*PATTERNS[kind]) for kind in LINES}
    lines = {
        kind: sum(len(path.read_text().splitlines()) for path in paths)
        for kind, paths in files.items()
    }
    assert [
        f"{kind}: {lines[kind]} lines in {len(files[kind])} files"
        for kind in LINES
        if lines[kind] > LINES[kind] or len(files[kind]) > FILES[kind]
    ] == []
