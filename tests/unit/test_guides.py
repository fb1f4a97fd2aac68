"""What the guides name is there, and in the order in which they say."""

import ast
import re

import pytest

STATION = re.compile(r"^(\d+)\. `([\w.]+)` \(([\w/.]+)\)", re.M)
# A path from the root, in a code span or in the list of folders.
PATH = re.compile(
    r"(?:^|`)((?:src|config|workflow|containers|tests|analysis|report|bench)/[\w/.-]+)"
)


def stations(root):
    """The stations of a cell's way: number, function or rule, file."""
    found = STATION.findall((root / "docs" / "explanation" / "layout.md").read_text())
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    return [(name, file) for _, name, file in found]


def defined(tree, inside=""):
    """The functions of a module, and the methods of its classes, as `Class.method`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield inside + node.name
        elif isinstance(node, ast.ClassDef):
            yield from defined(node, f"{node.name}.")


def test_every_station_of_a_cells_way_is_there(root):
    found = stations(root)
    names = [name for name, _ in found]
    assert names.index("Batch.do") < 15  # the one that writes to tc
    assert len(set(found)) == len(found)
    for name, file in found:
        text = (root / file).read_text()
        if file.endswith(".py"):
            assert name in defined(ast.parse(text)), file
        else:
            assert f"rule {name}:" in text


def test_each_station_is_named_by_one_before_it(root):
    texts = [(root / "workflow/Snakefile").read_text()]
    assert 'include: "workflow/Snakefile"' in (root / "Snakefile").read_text()
    for name, file in stations(root):
        # A rule's file is included; a command is started by its name; the init starts the guest's.
        called = {"measure_cell": "measure.smk", "_cell": "losslab cell", "serve": "serve",
                  "plot_figure": "analyse.smk", "render": "report.smk",
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
def test_paths_are_there(root, guides, least):
    lines = [line for guide in root.glob(guides) for line in guide.read_text().splitlines()]
    named = {m for line in lines for m in PATH.findall(line)}
    assert len(named) > least
    assert [p for p in sorted(named) if "NAME" not in p and not (root / p).exists()] == []
