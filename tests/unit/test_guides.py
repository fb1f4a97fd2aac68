"""What the guides name is there, and in the order in which they say."""

import ast
import itertools
import re

import pytest

STEP = re.compile(r"`(\w+)` \(([\w/.]+)\)")
# A path from the root, in a code span or in the list of folders.
PATH = re.compile(
    r"(?:^|`)((?:src|config|workflow|containers|tests|analysis|report|bench)/[\w/.-]+)"
)


def steps(root):
    return STEP.findall((root / "docs" / "explanation" / "layout.md").read_text())


def test_seven_files_lie_between_the_snakefile_and_the_packets(root):
    found = steps(root)
    assert len(found) == 8  # the last sends
    for name, file in found:
        text = (root / file).read_text()
        if file.endswith(".py"):
            functions = [n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
            assert name in functions, file
        else:
            assert f"rule {name}:" in text


def test_each_of_them_leads_to_the_next_and_none_back(root):
    files = [file for _, file in steps(root)]
    assert len(set(files)) == len(files)
    assert 'include: "workflow/rules/measure.smk"' in (root / "Snakefile").read_text()
    assert "losslab cell" in (root / files[0]).read_text()
    # The guest's init starts the job.
    assert "losslab.emulation.jobs.guest" in (root / "containers/host/init").read_text()
    for one, other in itertools.pairwise(files[1:]):
        if "jobs" not in other:
            module = other.removeprefix("src/losslab/").removesuffix(".py")
            package, _, name = module.replace("/", ".").rpartition(".")
            words = rf"from losslab\.{package}(\.{name})? import [^\n]*"
            assert re.search(words, (root / one).read_text()), f"{one} leads to {other}"


@pytest.mark.parametrize(
    ("guides", "least"),
    [("README.md", 0), ("CONTRIBUTING.md", 10), ("docs/**/*.md", 20)],
)
def test_paths_are_there(root, guides, least):
    lines = [line for guide in root.glob(guides) for line in guide.read_text().splitlines()]
    named = {m for line in lines for m in PATH.findall(line)}
    assert len(named) > least
    assert [p for p in sorted(named) if "NAME" not in p and not (root / p).exists()] == []
