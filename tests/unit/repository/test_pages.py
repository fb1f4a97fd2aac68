"""Commands on pages: each is parsed by its program, and quick ones are run."""

import importlib.util
import re
from math import sqrt
from statistics import median

from snakemake.cli import parse_args

from bench import readme
from losslab import cli, commands
from losslab.campaign import records
from losslab.reading import read_rows, read_yaml
from losslab.repository import ROOT
from losslab.study import design, metrics
from losslab.study.condition import AXES
from tests import pages
from tests.sources import tracked

SHOWN = pages.shown(ROOT)
EXAMPLES = [
    command
    for each in commands.installed().values()
    for line in each.examples
    for command in pages.commands(line, "commands.py")
]
# Other programs on pages, whose arguments are not checked.
OTHERS = {
    "apt-get", "cargo", "cat", "cd", "conda", "cp", "curl", "docker", "echo", "eval", "export",
    "git", "go", "grep", "ls", "mkdir", "mv", "pip", "python3", "sbatch", "scp", "squeue", "sudo",
    "tar", "unshare", "unzip",
}  # fmt: skip
# Pages whose commands use modules that the reader writes there.
OWN_MODULES = {"docs/how-to/modules.md"}
# Axes of every run, which have pages of their own.
TIMES = {"duration_s", "warmup_s"}
# Commands that are quick and change nothing are run, unless an option forbids it.
QUICK = {(), ("axes",), ("cells",), ("completion",), ("pins",), ("--version",)}
SLOW_OPTIONS = {"--check", "--write"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
SETTINGS = set(re.findall(r"^([A-Z]+) \?=", (ROOT / "Makefile").read_text(), re.MULTILINE))


def of(*programs):
    return [c for c in [*SHOWN, *EXAMPLES] if pages.program(c) in programs]


def test_every_program_named_in_pages_exists():
    known = {"losslab", "make", "python", "pytest", "snakemake"} | OTHERS
    known |= {path.name for path in tracked("scripts/*")}
    assert {str(c) for c in SHOWN if pages.program(c) not in known} == set()
    assert {"README.md", "docs/tutorial.md"} <= {command.page for command in SHOWN}


def test_scripts_accept_the_arguments_of_pages():
    groups = {path.stem for path in tracked("requirements/*.lock")}
    listed = (ROOT / "scripts/packages.txt").read_text()
    parts = set(re.findall(r"^([a-z]+) ", listed, re.MULTILINE))
    wrong = [str(c) for c in of("group.sh") if not groups.issuperset(c.words[1:])]
    wrong += [str(c) for c in of("packages.sh") if not parts.issuperset(c.words[1:])]
    assert wrong == []


def test_losslab_parses_the_commands_of_pages(capsys):
    parser, wrong = cli.parser(), []
    for command in of("losslab"):
        if command.page in OWN_MODULES:
            continue
        try:
            parser.parse_args(command.words[1:])
        except SystemExit as error:
            if error.code:
                wrong.append(f"{command}: {capsys.readouterr().err}")
    assert wrong == []


def test_quick_commands_of_pages_succeed(capsys, root, monkeypatch):
    monkeypatch.chdir(root)
    wrong = []
    for words in sorted({c.words[1:] for c in of("losslab")}):
        if words[:1] not in QUICK or SLOW_OPTIONS & set(words):
            continue
        try:
            status = cli.main(words)
        except SystemExit as error:
            status = error.code
        said = capsys.readouterr()
        if status or said.err or not said.out:
            wrong.append(f"{words}: {said.err}")
    assert wrong == []


def test_make_has_the_targets_of_pages():
    wrong = []
    for command in of("make"):
        for word in command.words[1:]:
            name, is_setting, value = word.partition("=")
            known = name in (SETTINGS if is_setting else TARGETS)
            if not known or (name == "CONFIG" and not (ROOT / value).is_file()):
                wrong.append(str(command))
    assert wrong == []


def test_snakemake_parses_the_commands_of_pages():
    slurm = importlib.util.find_spec("snakemake_executor_plugin_slurm")
    wrong = []
    for command in of("snakemake"):
        if "profiles/slurm" in command.words and not slurm:
            continue
        _, options = parse_args(list(command.words[1:]))
        profile = options.workflow_profile or options.profile or "none"
        files = [*(options.configfile or []), *([profile] if profile != "none" else [])]
        wrong += [f"{command}: {name}" for name in files if not (ROOT / name).exists()]
    assert wrong == []


# A path from the root, in a code span or in the list of folders; and a step of the layout page.
PATH = re.compile(
    r"(?:^|`)((?:src|config|workflow|containers|tests|analysis|studies|report|bench)/[\w/.-]+)",
    re.M,
)
STEP = re.compile(r"^\d+\. `(?:\w+\.)?(\w+)` \(([\w/.]+)\)", re.M)


def test_paths_and_functions_named_by_guides_exist():
    guides = tracked("README.md", "CONTRIBUTING.md", "docs/*.md")
    named = {(guide.name, path) for guide in guides for path in PATH.findall(guide.read_text())}
    assert len(named) > 40
    wrong = [f"{g}: {path}" for g, path in named if "NAME" not in path
             and not (ROOT / path).exists()]  # fmt: skip
    layout = (ROOT / "docs/explanation/layout.md").read_text()
    wrong += [f"{name} in {file}" for name, file in STEP.findall(layout)
              if not re.search(rf"(def|rule) {name}\b", (ROOT / file).read_text())]  # fmt: skip
    assert wrong == []


def test_modules_and_tests_named_in_pages_exist():
    """A page shows modules, not files."""
    wrong = [str(c) for c in of("python")
             if c.words[1] != "-m" or not importlib.util.find_spec(c.words[2])]  # fmt: skip
    wrong += [str(c) for c in of("pytest") for w in c.words[1:]
              if w.startswith("tests") and not (ROOT / w).exists()]  # fmt: skip
    assert wrong == []


def test_environment_variables_are_documented():
    text = (ROOT / "docs/reference/environment.md").read_text()
    explained = set(re.findall(r"^\| `(LOSSLAB_\w+)`", text, re.MULTILINE))
    code = tracked("src/*.py", "scripts/*.sh", "config/*.toml", "analysis/R/*.R")
    read = re.compile(
        r'(?:environ(?:\.get)?[(\[]|Sys\.getenv\(|= |variable = |\$\{)"?(LOSSLAB_[A-Z0-9_]+)'
    )
    found = {name for path in code for name in read.findall(path.read_text())}
    # Variables of the guest, which users do not set.
    assert found - {"LOSSLAB_SOURCE", "LOSSLAB_OUT", "LOSSLAB_HOST"} == explained
    named = {w.partition("=")[0] for c in SHOWN for w in c.variables}
    named |= {w.partition("=")[0] for c in of("export") for w in c.words[1:]}
    assert {name for name in named if name.startswith("LOSSLAB")} <= explained


def test_exit_statuses_equal_those_of_the_help():
    table = (ROOT / "docs/reference/environment.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", table, re.MULTILINE)
    said = [tuple(line.split(maxsplit=1)) for line in cli.STATUSES.splitlines()]
    assert [(number, words.replace("\\|", "|")) for number, words in rows] == said


def test_readme_states_the_recorded_results(root):
    """A campaign that is recorded again has other numbers."""
    text = (root / "README.md").read_text()
    said = [readme.answer(), readme.scoreboard()]
    assert [words for words in [*said, readme.full()] if words not in text] == []
    [answer] = re.findall(r"\*\*(1 % packet loss [^*]+)\*\*", " ".join(text.split()))
    assert f"**{answer}**" in (root / "docs/index.md").read_text()


def test_reference_pages_name_every_command_axis_and_metric(root):
    names = {
        "commands": commands.installed(),
        "axes": AXES.keys() - TIMES,
        "results": metrics.declared(),
    }
    for page, listed in names.items():
        text = (root / f"docs/reference/{page}.md").read_text()
        assert [name for name in listed if f"`{name}`" not in text] == [], page


def test_readme_names_the_script_of_each_item(root):
    text = (root / "README.md").read_text()
    scripts = re.findall(r"\]\((studies/[^)]+)\)", readme.items())
    assert len(scripts) > 3
    assert [script for script in scripts if script not in text] == []


# Cells of the findings: their common name, the part that varies, and the numbers' form.
WEB = "{}_cubic_loss0_symmetric_web_rtt20_offloads-off_rate1.5_buffer100{}_receive-large"
MAP = "{}_{{}}_loss0_symmetric_iperf3_rtt75_offloads-off_rate500_buffer66_receive-large{}"
CLOUD = "_loss0_symmetric_iperf3_rtt21_offloads-off_rate600_"


def test_findings_are_the_recorded_numbers(root):
    rows = read_rows(root / "recorded/full/record.tsv", "\t")
    means = {row["cell"]: float(row["mean"]) for row in rows}
    cells = [WEB.format(*each) for each in (("web", ""), ("web", "_vs-cubic"))]
    alone, separated = means[cells[0]], means[WEB.format("aqm", "_fq-codel_vs-cubic")]
    recorded = records.read(root / "recorded/full", "bufferbloat", cells)[cells[1]]
    times = sorted(run["summary"]["download_s"] for run in recorded.content["replicates"])
    page = (
        f"a web page takes {median(times):.1f} s instead of {alone:.1f} s",
        f"median of {len(times)} runs, which take {times[0]:.1f} to {times[-1]:.1f} s",
    )
    small, large, here, unpaced, link, paused = (
        means[cell.format("bbr")] / means[cell.format("cubic")]
        for cell in (
            f"published_{{}}{CLOUD}buffer45_sender-delay20",
            # Only the buffer differs.
            f"setup_{{}}{CLOUD}buffer1040_sender-delay20",
            MAP.format("imc", "_tbf"),
            MAP.format("shallow-unpaced", "_tbf_sender-fq-codel"),
            MAP.format("shallow-link", "_sender-fq-codel"),
            MAP.format("shallow-paused", "_sender-fq-codel_pauses-per-s0.62-min-ms0.8-max-ms8"),
        )
    )
    pages = ("README.md", "docs/explanation/belief.md")
    short, text = (" ".join((root / page).read_text().split()) for page in pages)
    assert [each for each in page if each not in short] == []
    said = [
        f"{page[0]}**, and {separated:.1f} s with",
        page[1],
        f"**{small:.2f} to 1 behind 45 packets, and {large:.3f} to 1 behind 1040**",
        f"it is {here:.1f} to 1 with pacing behind a token bucket, {unpaced:.1f} to 1 without "
        f"pacing, {link:.1f} to 1 over an exact link in place of the bucket, and {paused:.1f} to 1",
    ]
    assert [each for each in said if each not in text] == []


def test_finding_on_pauses_counts_only_rates_that_their_fit_did_not_use(root):
    replication: dict[tuple[str, str], list[float]] = {}
    for row in read_rows(root / "studies/map/published.csv"):
        whole = row["source"].startswith("datta2023") and not row["from_s"]
        if whole and row["buffer_packets"] == "66":
            condition = row["rtt_ms"], row["rate_mbit"]
            replication.setdefault(condition, []).append(float(row["cubic_mbit"]))
    factors: dict[bool, list[float]] = {True: [], False: []}
    for row in read_rows(root / "recorded/full/record.tsv", "\t"):
        if not row["cell"].startswith("shallow-paused_cubic_"):
            continue
        rtt_ms = re.search(r"_rtt([\d.]+)_", row["cell"])
        # A cell's name leaves out the default rate, which is that of the fit.
        rate = re.search(r"_rate([\d.]+)_", row["cell"])
        published = replication[rtt_ms[1], rate[1] if rate else "1000"]
        middle_mbit = sqrt(min(published) * max(published))
        # The share of an Ethernet frame that is TCP's payload.
        if middle_mbit < 0.8 * float(rate[1] if rate else 1000) * 1448 / 1538:
            factors[rate is None].append(float(row["mean"]) / middle_mbit)
    apart = sorted(max(factor, 1 / factor) for factor in factors[False])
    text = " ".join((root / "docs/explanation/belief.md").read_text().split())
    said = [
        f"a median factor of {median(apart):.2f} of the replication's, at most {apart[-1]:.2f} "
        f"(the {len(apart)} conditions",
        f"At 1 Gbit/s, ours has up to {max(factors[True]):.1f} times as much.",
    ]
    assert [each for each in said if each not in text] == []


def test_findings_on_quic_stacks_are_those_of_the_table(root):
    rows = [line.strip("| ").split(" | ") for line in readme.stacks_table().splitlines()[2:]]
    # Mean and confidence interval of each column.
    found = {(stack, its): [[*map(float, re.findall(r"[\d.]+", each))] for each in columns]
             for stack, its, *columns in rows}  # fmt: skip
    bbr = {stack: numbers for (stack, its), numbers in found.items() if its == "bbr"}
    text = " ".join((root / "docs/how-to/quic.md").read_text().split())
    for column in (2, 1):
        low, high = (pick(bbr, key=lambda stack: bbr[stack][column][0]) for pick in (min, max))
        assert (
            f"BBR has from {bbr[low][column][0]:g} ({low}) "
            f"to {bbr[high][column][0]:g} Mbit/s ({high})"
        ) in text
    above = [s for s in bbr if bbr[s][2][1] > found[s, "cubic"][2][2]]
    assert f"above CUBIC's in {len(above)} of the {len(bbr)} stacks" in text
    assert set(bbr) - set(above) == {"quiche"}
    [(slow, numbers)] = [(key, each) for key, each in found.items() if each[0][0] < 17]
    assert slow == ("quiche", "cubic")
    assert f"with {numbers[0][0]:g} Mbit/s" in text


def test_readme_has_the_number_of_cells(root, capsys):
    text = (root / "README.md").read_text()
    cli.main(["cells", "--config", str(root / "config/campaigns/quick.yaml")])
    assert f"measures {len(capsys.readouterr().out.splitlines())} cells" in text
    known = len(tracked("studies/*/study.yaml"))
    quick = read_yaml(root / "config/campaigns/quick.yaml")
    measured = len(design.load_studies(quick, root))
    said = f"{known} studies. `make report` runs the quick campaign: {measured} of these studies"
    assert said in " ".join(text.split())
    for page in ("docs/how-to/campaign.md", "config/README.md"):
        line = next(li for li in (root / page).read_text().splitlines() if "make report" in li)
        assert f": {measured} studies" in line, page
