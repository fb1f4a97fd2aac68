"""Guides: files and functions that they name exist."""

import ast
import re

STATION = re.compile(r"^(\d+)\. `([\w.]+)` \(([\w/.]+)\)", re.M)
# Matches a path from the root, in a code span or in the list of folders.
PATH = re.compile(
    r"(?:^|`)((?:src|config|workflow|containers|tests|analysis|report|bench)/[\w/.-]+)", re.M
)


def defined(tree, inside=""):
    """Return the functions of a module, and methods of its classes as `Class.method`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield inside + node.name
        elif isinstance(node, ast.ClassDef):
            yield from defined(node, f"{node.name}.")


def test_every_step_of_the_layout_page_exists_in_order(root):
    found = STATION.findall((root / "docs" / "explanation" / "layout.md").read_text())
    assert [int(number) for number, _, _ in found] == list(range(1, len(found) + 1))
    wrong = []
    for _, name, file in found:
        text = (root / file).read_text()
        known = (
            defined(ast.parse(text)) if file.endswith(".py") else re.findall(r"rule (\w+):", text)
        )
        if name not in known:
            wrong.append(f"{name} in {file}")
    assert wrong == []


def test_paths_named_by_guides_exist(root):
    guides = [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/**/*.md")]
    named = {(guide.name, path) for guide in guides for path in PATH.findall(guide.read_text())}
    assert len(named) > 40
    assert [
        f"{guide}: {path}"
        for guide, path in sorted(named)
        if "NAME" not in path and not (root / path).exists()
    ] == []
