"""What README.md and CONTRIBUTING.md name is there, and in the order in which they say."""

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
    text = (root / "README.md").read_text()
    return STEP.findall(text[text.index("## Where things are") :])


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


@pytest.mark.parametrize("guide", ["README.md", "CONTRIBUTING.md"])
def test_paths_are_there(root, guide):
    named = {m for line in (root / guide).read_text().splitlines() for m in PATH.findall(line)}
    assert len(named) > 10
    assert [p for p in sorted(named) if "NAME" not in p and not (root / p).exists()] == []
