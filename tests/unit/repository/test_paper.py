"""The paper and the comparison with other tools: length, citations, commands and numbers."""

import importlib.util
import re
import shlex

import pytest

from losslab import cli

# What JOSS asks for: the number of words, and the sections in their order, without the disclosure
# that authors write when they submit.
WORDS = range(750, 1751)
TITLES = [
    "Summary", "Statement of need", "State of the field", "Software design",
    "Research impact statement", "Acknowledgements", "References",
]  # fmt: skip
PAGES = ["paper/paper.md", "docs/explanation/compared.md"]
COMMAND = re.compile(r"`((?:losslab|make|python -m|snakemake)[^`]*)`")
ENTRY = re.compile(r"^@\w+\{(\w+),.*?^\}$", re.M | re.S)


@pytest.fixture
def body(root):
    return (root / "paper" / "paper.md").read_text().split("\n---\n", 1)[1]


def test_paper_has_the_sections_and_the_length_that_joss_asks_for(body):
    assert re.findall(r"^# (.+)$", body, re.M) == TITLES
    assert len(re.findall(r"\w+(?:[-'.]\w+)*", body)) in WORDS


def test_paper_cites_exactly_the_entries_of_its_bibliography(root, body):
    entries, others = (
        {found[1]: found[0] for found in ENTRY.finditer((root / name).read_text())}
        for name in ("paper/paper.bib", "report/references.bib")
    )
    assert set(re.findall(r"@(\w+)", body)) == set(entries)
    shared = entries.keys() & others.keys()
    assert len(shared) > 4
    assert {name for name in shared if entries[name] != others[name]} == set()


@pytest.mark.parametrize("name", PAGES)
def test_commands_in_the_text_exist(root, name, capsys):
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
    found = COMMAND.findall((root / name).read_text())
    assert found
    for text in found:
        program, *words = shlex.split(text)
        if program == "make":
            assert words[0] in targets, text
        elif program == "python":
            assert importlib.util.find_spec(words[1]), text
        elif words and not words[0].startswith("-"):
            with pytest.raises(SystemExit) as end:
                cli.parser().parse_args([*words, "--help"])
            assert end.value.code == 0, text


@pytest.mark.parametrize("name", PAGES)
def test_speeds_in_the_text_are_those_that_were_measured(root, name):
    text = (root / name).read_text()
    speed = (root / "docs/reference/speed.md").read_text()
    rows = re.findall(r"^\| 1000 \| (cubic|bbr) \| 0 \| ([\d.]+) \|", speed, re.M)
    assert [algorithm for algorithm, _ in rows] == ["cubic", "bbr", "cubic", "bbr"]
    assert [value for _, value in rows if not re.search(rf"\b{re.escape(value)}\b", text)] == []
