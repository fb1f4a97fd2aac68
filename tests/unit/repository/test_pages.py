"""Commands on pages: each is parsed by its program, and quick ones are run."""

import importlib.util
import re
from pathlib import Path

import pytest
from snakemake.cli import parse_args

from bench import readme
from losslab import cli, examples
from losslab.study import design
from tests import pages

ROOT = Path(__file__).resolve().parents[3]
SHOWN = pages.shown(ROOT)
EXAMPLES = [
    command
    for lines in examples.EXAMPLES.values()
    for line in lines
    for command in pages.commands(line, "examples.py")
]
# Other programs on pages, whose arguments are not checked.
OTHERS = {
    "apt-get", "cd", "conda", "cp", "curl", "docker", "eval", "export", "git", "ls",
    "mkdir", "mv", "python3", "sbatch", "squeue", "tar", "scp", "unshare", "unzip",
}  # fmt: skip
# Pages whose commands use modules that a reader writes; tests/e2e/test_doors.py runs the like.
OWN_MODULES = {"docs/how-to/modules.md", "docs/how-to/scheme.md"}
# Commands that are quick and change nothing are run, unless an option forbids it.
QUICK = {(), ("axes",), ("cells",), ("completion",), ("pins",), ("--version",)}
SLOW_OPTIONS = {"--check", "--write"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SETTINGS = set(re.findall(r"^([A-Z]+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE))


def of(program):
    return [c for c in [*SHOWN, *EXAMPLES] if pages.program(c) == program]


def test_pages_and_their_commands_are_found():
    names = {command.page for command in SHOWN}
    assert {"README.md", "docs/tutorial.md", "docs/how-to/campaign.md"} <= names
    assert len(of("losslab")) > 30
    assert len(of("make")) > 5


def test_every_program_named_in_pages_exists():
    known = {"losslab", "make", "python", "pytest", "snakemake"} | OTHERS
    known |= {path.name for path in (ROOT / "scripts").iterdir()}
    assert {str(c) for c in SHOWN if pages.program(c) not in known} == set()


@pytest.mark.parametrize("command", [*of("group.sh"), *of("packages.sh")], ids=str)
def test_scripts_accept_the_arguments_of_pages(command):
    if pages.program(command) == "group.sh":
        assert [
            w for w in command.words[1:] if not (ROOT / f"requirements/{w}.lock").exists()
        ] == []
    else:
        listed = (ROOT / "scripts/packages.txt").read_text()
        parts = set(re.findall(r"^([a-z]+) ", listed, re.MULTILINE))
        assert set(command.words[1:]) <= parts


PARSER = cli.parser()


@pytest.mark.parametrize("command", of("losslab"), ids=str)
def test_losslab_parses_the_commands_of_pages(command, capsys):
    if command.words[1:] == ("--version",) or command.page in OWN_MODULES:
        return
    try:
        PARSER.parse_args(command.words[1:])
    except SystemExit as error:
        assert error.code == 0, capsys.readouterr().err


QUICK_ONES = [c for c in of("losslab") if c.words[1:2] in QUICK and not SLOW_OPTIONS & set(c.words)]


@pytest.mark.parametrize("words", sorted({c.words[1:] for c in QUICK_ONES}), ids=" ".join)
def test_quick_commands_of_pages_succeed(words, capsys, root, monkeypatch):
    monkeypatch.chdir(root)
    try:
        status = cli.main(words)
    except SystemExit as error:
        status = error.code
    said = capsys.readouterr()
    assert status == 0, said.err
    assert said.out
    assert said.err == ""


@pytest.mark.parametrize("command", of("make"), ids=str)
def test_make_has_the_targets_of_pages(command):
    for word in command.words[1:]:
        name, is_setting, value = word.partition("=")
        assert name in (SETTINGS if is_setting else TARGETS), word
        if name == "CONFIG":
            assert (ROOT / value).is_file(), value


@pytest.mark.parametrize("command", of("snakemake"), ids=str)
def test_snakemake_parses_the_commands_of_pages(command):
    if "profiles/slurm" in command.words:
        pytest.importorskip("snakemake_executor_plugin_slurm", reason="scripts/group.sh slurm")
    _, options = parse_args(list(command.words[1:]))
    assert [f for f in options.configfile or [] if not Path(ROOT / f).is_file()] == []
    profile = options.workflow_profile or options.profile
    assert profile is None or (ROOT / profile).is_dir() or profile == "none"


@pytest.mark.parametrize("command", [*of("python"), *of("pytest")], ids=str)
def test_modules_and_tests_named_in_pages_exist(command):
    words = command.words[1:]
    if pages.program(command) == "python":
        assert words[0] == "-m", "a page shows modules, not files"
        assert importlib.util.find_spec(words[1]), words[1]
    else:
        assert [w for w in words if w.startswith("tests") and not (ROOT / w).exists()] == []


def test_environment_variables_are_documented():
    text = (ROOT / "docs/reference/environment.md").read_text()
    explained = set(re.findall(r"^\| `(LOSSLAB_\w+)`", text, re.MULTILINE))
    code = [*ROOT.glob("src/**/*.py"), *ROOT.glob("scripts/*.sh"), *ROOT.glob("config/*.toml"),
            *ROOT.glob("analysis/R/*.R")]  # fmt: skip
    read = re.compile(
        r'(?:environ(?:\.get)?[(\[]|Sys\.getenv\(|= |variable = |\$\{)"?(LOSSLAB_[A-Z0-9_]+)'
    )
    found = {name for path in code for name in read.findall(path.read_text())}
    # Variables of the guest, which users do not set.
    assert found - {"LOSSLAB_SOURCE", "LOSSLAB_OUT"} == explained
    named = {w.partition("=")[0] for c in SHOWN for w in c.variables}
    named |= {w.partition("=")[0] for c in of("export") for w in c.words[1:]}
    assert {name for name in named if name.startswith("LOSSLAB")} <= explained


def test_exit_statuses_equal_those_of_the_help():
    table = (ROOT / "docs/reference/environment.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE)
    said = [tuple(line.split(maxsplit=1)) for line in cli.STATUSES.splitlines()]
    assert [(number, words.replace("\\|", "|")) for number, words in rows] == said


def test_every_command_has_examples_of_its_use():
    names = [name for name, _, _ in examples.leaves(cli.parser())]
    assert set(examples.EXAMPLES) == set(names)
    for name, lines in examples.EXAMPLES.items():
        words = ("losslab", *name.split())
        for line in lines:
            assert words in {c.words[: len(words)] for c in pages.commands(line)}, line


def test_readmes_sentence_equals_its_figures_numbers(root):
    text = (root / "README.md").read_text()
    said = readme.answer(root / "docs/figures/loss_decrease.csv")
    assert readme.replaced(text, readme.MARK, said) == text
    assert "docs/figures/loss_goodput.svg" in text


def test_readmes_table_counts_the_recorded_verdicts_by_evidence(root):
    text = (root / "README.md").read_text()
    table = readme.verdicts()
    assert readme.replaced(text, readme.VERDICTS_MARK, table) == text
    # Our own expectations and numbers that were fitted are no evidence.
    assert "calibration" not in table
    *studies, total = [line.split("|")[1:-1] for line in table.splitlines()[2:]]
    for column in (2, 3, 5):
        counts = [int(row[column].split()[0]) for row in studies]
        assert sum(counts) == int(total[column].split()[0])


def test_readmes_comparison_with_the_full_campaign_counts_its_recorded_verdicts(root, monkeypatch):
    said = readme.full()
    text = (root / "README.md").read_text()
    assert readme.replaced(text, readme.FULL_MARK, said) == text
    monkeypatch.setattr(readme, "FULL", root / "report/verdicts/quick.tsv")
    same = " ".join(readme.full().split())
    quick = readme.verdicts().splitlines()[-1].split("|")
    assert f"There, {quick[2].strip()} predictions are reproduced" in same
    assert same.endswith(" 0 differ.")
    assert not said.endswith(" 0 differ.\n")


@pytest.mark.parametrize(
    "cell",
    [
        readme.GAPS[1].format("cubic"),
        readme.MAP.format("imc", "cubic", 75, "_rate500"),
        readme.MAP.format("shallow-paused", "cubic", 75, "_rate500") + readme.PAUSED,
    ],
)
def test_readmes_findings_follow_the_recorded_means(cell, root, tmp_path, monkeypatch):
    said = readme.findings()
    text = (root / "README.md").read_text()
    assert readme.replaced(text, readme.FINDINGS_MARK, said) == text
    rows = readme.FULL_CELLS.read_text()
    row = next(line for line in rows.splitlines() if f"\t{cell}\t" in line)
    fields = row.split("\t")
    fields[5] = str(float(fields[5]) / 4)
    monkeypatch.setattr(readme, "FULL_CELLS", tmp_path / "full.tsv")
    readme.FULL_CELLS.write_text(rows.replace(row, "\t".join(fields)))
    with pytest.raises(SystemExit, match="must hold"):
        readme.findings()


def test_readmes_sentence_follows_the_numbers(root, tmp_path):
    text = (root / "docs/figures/loss_decrease.csv").read_text()
    row = next(line for line in text.splitlines() if line.startswith("symmetric,cubic,1,"))
    other = tmp_path / "table.csv"
    other.write_text(text.replace(row, "symmetric,cubic,1,-42.3,-43,-41,10,-70.7"))
    assert "costs CUBIC 42 %" in readme.answer(other)
    other.write_text(text.replace(row, "symmetric,cubic,1,-0.5,-0.6,-0.4,10,-70.7"))
    with pytest.raises(SystemExit, match="BBR must keep more"):
        readme.answer(other)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("make docs  # a comment", [("make", "docs")]),
        ("losslab axes | less -S", [("losslab", "axes"), ("less", "-S")]),
        ('eval "$(losslab completion bash)"',
         [("losslab", "completion", "bash"), ("eval", "$(losslab completion bash)")]),
        ("A=1 B=2 losslab axes && ls", [("losslab", "axes"), ("ls",)]),
        ("losslab shell -c 'a | b'", [("losslab", "shell", "-c", "a | b")]),
    ],
)  # fmt: skip
def test_command_lines_are_split_like_in_a_shell(line, words):
    assert [c.words for c in pages.commands(line)] == words


def test_readme_has_the_number_of_cells(root, capsys):
    text = (root / "README.md").read_text()
    cli.main(["cells", "--config", str(root / "config/quick.yaml")])
    assert f"measures {len(capsys.readouterr().out.splitlines())} cells" in text
    known = len(list((root / "config/studies").glob("*.yaml")))
    quick = design.load_yaml(root / "config/quick.yaml")
    measured = len(design.load_studies(quick, root))
    said = f"one of {known} studies. `make report` measures the quick campaign, {measured} of them"
    assert said in text
    for page in ("docs/how-to/campaign.md", "config/README.md"):
        line = next(li for li in (root / page).read_text().splitlines() if "make report" in li)
        assert f": {measured} studies" in line, page
