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


def test_commands_and_speeds_in_the_texts_exist(root):
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
    speed = (root / "docs/reference/speed.md").read_text()
    speeds = re.findall(r"^\| 1000 \| (?:cubic|bbr) \| 0 \| ([\d.]+) \|", speed, re.M)
    assert len(speeds) == 4
    wrong = []
    for name in PAGES:
        text = (root / name).read_text()
        wrong += [f"{name}: {each}" for each in speeds if not re.search(rf"\b{each}\b", text)]
        for command in COMMAND.findall(text):
            program, *words = shlex.split(command)
            known = words[0] in targets if program == "make" else True
            if program == "python":
                known = importlib.util.find_spec(words[1]) is not None
            elif program == "losslab" and not words[0].startswith("-"):
                with pytest.raises(SystemExit) as end:
                    cli.parser().parse_args([*words, "--help"])
                known = end.value.code == 0
            wrong += [] if known else [f"{name}: {command}"]
    assert wrong == []
