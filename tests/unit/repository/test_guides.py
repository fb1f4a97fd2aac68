"""Guides: files and functions that they name exist, in the stated order."""

import ast
import re

import pytest

STATION = re.compile(r"^(\d+)\. `([\w.]+)` \(([\w/.]+)\)", re.M)
# Matches a path from the root, in a code span or in the list of folders.
PATH = re.compile(
    r"(?:^|`)((?:src|config|workflow|containers|tests|analysis|report|bench)/[\w/.-]+)"
)


def stations(root):
    """Return the steps of a cell: number, function or rule, file."""
    found = STATION.findall((root / "docs" / "explanation" / "layout.md").read_text())
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    return [(name, file) for _, name, file in found]


def defined(tree, inside=""):
    """Return the functions of a module, and methods of its classes as `Class.method`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield inside + node.name
        elif isinstance(node, ast.ClassDef):
            yield from defined(node, f"{node.name}.")


def test_every_step_of_the_layout_page_exists(root):
    found = stations(root)
    names = [name for name, _ in found]
    assert names.index("Batch.do") < 15  # it writes to tc
    assert len(set(found)) == len(found)
    for name, file in found:
        text = (root / file).read_text()
        if file.endswith(".py"):
            assert name in defined(ast.parse(text)), file
        else:
            assert f"rule {name}:" in text


def test_each_step_of_the_layout_page_is_called_by_an_earlier_one(root):
    texts = [(root / "workflow/Snakefile").read_text()]
    assert 'include: "workflow/Snakefile"' in (root / "Snakefile").read_text()
    for name, file in stations(root):
        # Rules are included, commands are started by name, and the init starts the guest's program.
        called = {"measure_cell": "measure.smk", "_cell": "losslab cell", "serve": "serve",
                  "summarise_study": "analyse.smk", "render": "report.smk",
                  "gather": "losslab collect"}  # fmt: skip
        word = called.get(name, name.rpartition(".")[2])
        if name == "serve":
            texts.append((root / "src/losslab/emulation/jobs/guest.py").read_text())
        assert any(word in text for text in texts), f"{name} ({file})"
        texts.append((root / file).read_text())
    assert "losslab.emulation.jobs.guest" in (root / "containers/host/init").read_text()


@pytest.mark.parametrize(
    ("guides", "least"),
    [("README.md", 0), ("CONTRIBUTING.md", 10), ("docs/**/*.md", 20)],
)
def test_paths_named_by_guides_exist(root, guides, least):
    lines = [line for guide in root.glob(guides) for line in guide.read_text().splitlines()]
    named = {m for line in lines for m in PATH.findall(line)}
    assert len(named) > least
    assert [p for p in sorted(named) if "NAME" not in p and not (root / p).exists()] == []
