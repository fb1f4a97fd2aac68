"""The page lab.html, made of recorded runs, in a browser without a network.

tests/fixtures/lab has 98 cells of config/campaigns/lab.yaml, recorded by `losslab record` and
`losslab explorer --record`.
"""

import itertools
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from losslab import cli
from losslab.campaign import records
from losslab.tools.explorer import explorer
from tests import axe, browser

SHOWN = "(document.querySelector('#pane-a')?.dataset.shown ?? '')"
CONDITION = "lab.panes[0].cell.condition"
LESSONS = ("aimd", "bufferbloat", "bbr", "rtt-bias", "aqm", "loss")
CELLS = 98


def made(root, recorded, out):
    explorer.build(
        [], Path("results/cells"), out, recorded=recorded, title="Choose a path",
        report="results/report/report.html", teaching=root / "docs/how-to/teach.md",
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def lab(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    return made(root, root / "tests/fixtures/lab", folder / "lab.html")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.program() is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with browser.page(tmp_path_factory.mktemp("chromium"), browser.OFFLINE) as page:
        yield page


@pytest.fixture
def page(chromium, lab):
    chromium.complaints.clear()
    chromium.size(1280, 900)
    chromium.scheme("light")
    chromium.open(lab)
    chromium.wait(f"{SHOWN} !== ''")
    yield chromium
    assert chromium.complaints == []


def shows(page, block, **axes):
    """Show the mean of a cell of a block in the first pane."""
    wanted = " && ".join(f"c.condition.{name} === {value!r}" for name, value in axes.items())
    page.ask(
        "(cell => lab.choose(lab.panes[0], cell, lab.MEAN))"
        f"(lab.index.cells.find(c => c.block === '{block}' && {wanted}))"
    )
    page.wait(f"{SHOWN} === `lab/${{lab.panes[0].cell.cell}}/mean` && lab.panes[0].run")


GRID = {
    "algorithm": "cubic", "queue": "fifo", "rate_mbit": 20, "rtt_ms": 40, "loss_percent": 0,
    "buffer_packets": 264,
}  # fmt: skip


def test_page_answers_when_it_opens(page):
    assert page.ask("lab.index.cells.length") == CELLS
    assert page.ask("lab.panes.map(pane => pane.cell.condition.algorithm)") == ["cubic", "bbr"]
    page.wait("lab.panes[0].charts.length >= 4")
    assert "Goodput" in page.ask("document.querySelector('#pane-a .answer').textContent")
    assert "congestion window" in page.ask("document.querySelector('#pane-a .limits').textContent")


def test_figures_have_a_text(page):
    page.wait("lab.panes[0].charts.length >= 4")
    texts = page.ask(
        "[...document.querySelectorAll('canvas')]"
        ".map(c => c.closest('[role=img]')?.getAttribute('aria-label'))"
    )
    assert len(texts) >= 4
    assert all(" up to " in text for text in texts)


def test_keyboard_moves_a_slider_between_measured_values(page):
    shows(page, "grid", **GRID)
    for key, rate, buffer in (("ArrowLeft", 5, 66), ("ArrowLeft", 5, 66), ("ArrowRight", 20, 264)):
        page.ask("document.querySelector('#pane-a [name=rate_mbit]').focus()")
        page.press(key)
        page.wait(f"{CONDITION}.rate_mbit === {rate}")
        # Four bandwidth-delay products at either rate.
        assert page.ask(f"{CONDITION}.buffer_packets") == buffer
        assert page.ask("document.activeElement.name") == "rate_mbit"
        assert page.ask("document.activeElement.getAttribute('aria-valuetext')") == f"{rate} Mbit/s"
        page.wait(f"{SHOWN} === `lab/${{lab.panes[0].cell.cell}}/mean`")
        assert page.ask("location.hash").startswith(f"#a={page.ask(SHOWN)}")


def test_every_choice_is_a_measured_cell_with_the_chosen_value(page):
    wrong = page.ask(
        "lab.index.cells.flatMap(cell => lab.choices(cell).flatMap(({name, values}) => values"
        ".filter(value => { const other = lab.withValue(cell, name, value);"
        " return !other || other.condition[name] !== value || other.block !== cell.block; })"
        ".map(value => `${cell.cell} ${name} ${value}`)))"
    )
    assert wrong == []
    same = page.ask(
        "lab.index.cells.every(cell => lab.choices(cell)"
        ".every(({name, value}) => lab.withValue(cell, name, value) === cell))"
    )
    assert same


def test_commands_have_the_seeds_and_digests_of_the_shown_runs(page, root):
    shows(page, "grid", **GRID)
    name = page.ask("lab.panes[0].cell.cell")
    (numbers,) = records.read(root / "tests/fixtures/lab", "lab", {name}).values()
    seeds = [row["seed"] for row in numbers.content["replicates"]]
    lines = page.ask("document.querySelector('#pane-a .repeat pre').textContent").splitlines()
    assert len(lines) == 2 * len(seeds) == 6
    for seed, command, digest in zip(seeds, lines[::2], lines[1::2], strict=True):
        assert f"--seed {seed} " in command
        assert len(digest) == len("# ") + 64
    page.ask("lab.choose(lab.panes[0], lab.panes[0].cell, 1)")
    page.wait(f"{SHOWN} === 'lab/{name}/1'")
    one = page.ask("document.querySelector('#pane-a .repeat pre').textContent").splitlines()
    assert one == lines[2:4]


def test_six_lessons_open_from_their_addresses(page, lab, root):
    assert page.ask("lab.index.lessons.map(lesson => lesson.block)") == [*LESSONS]
    for name in LESSONS:
        page.open(lab, f"#lesson={name}")
        page.wait(f"{SHOWN} !== '' && lab.panes.every(pane => pane.charts.length > 3)")
        assert page.ask(f"document.getElementById('lesson-{name}').open")
        assert page.ask("lab.panes.map(pane => pane.cell.block)") == [name, name]
        assert page.ask("lab.panes[0].cell !== lab.panes[1].cell")
    text = (root / "docs/how-to/teach.md").read_text()
    assert text.count("**Predict**") + text.count("**Predict.**") >= len(LESSONS)


@pytest.mark.parametrize(
    ("lesson", "axes", "metric"),
    [
        ("aimd", {"algorithm": "reno", "rtt_ms": 80}, "window_cuts_per_s"),
        ("bufferbloat", {"queue": "pie"}, "download_s"),
        ("bbr", {"algorithm": "cubic", "buffer_packets": 1000}, "rtt_loaded_ms"),
        ("rtt-bias", {"algorithm": "bbr", "buffer_packets": 264}, "share_of_fair"),
        ("aqm", {"queue": "codel", "ecn": "on", "rtt_ms": 40}, "rtt_loaded_ms"),
        ("loss", {"algorithm": "bbr", "loss_percent": 5, "rtt_ms": 40}, "goodput_mbit"),
    ],
)
def test_a_lessons_question_is_answered_by_its_table(page, root, lesson, axes, metric):
    cells = records.read_all(root / "tests/fixtures/lab")
    (cell,) = (
        each.content
        for each in cells
        if each.content["block"] == lesson
        and all(each.content["condition"][name] == value for name, value in axes.items())
        and each.content["condition"]["competitor"]
        == ("cubic" if lesson == "bufferbloat" else "none")
    )
    values = [row["summary"][metric] for row in cell["replicates"]]
    shown = page.ask(
        "(rows => Object.fromEntries(rows.map(row => [row.querySelector('button').title, "
        "[...row.querySelectorAll('.number')].map(field => field.textContent)])))"
        f"([...document.querySelectorAll('#lesson-{lesson} tbody tr')])"
    )
    words = page.ask(f"lab.index.cells.find(c => c.cell === '{cell['cell']}').words")
    mean, *_ = shown[f"Show {words} in A"][0].split()
    assert float(mean) == pytest.approx(sum(values) / len(values), rel=1e-3)


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
@pytest.mark.parametrize("address", ["", "#lesson=aqm"])
def test_page_has_no_serious_problem_on_a_phone_or_a_screen(page, lab, width, scheme, address):
    if axe.program() is None:
        pytest.skip("axe-core is not available without npm and its registry")
    page.scheme(scheme)
    page.size(width, 844, phone=width < 500)
    page.open(lab, address)
    page.wait(f"{SHOWN} !== ''")
    page.ask("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert page.ask("document.documentElement.dataset.theme") == scheme
    assert page.ask("document.documentElement.scrollWidth") == width
    assert axe.faults(page) == []


@pytest.mark.parametrize(
    "words",
    [
        ["evidence", "tests/fixtures/lab", "--claims", "recorded/quick/claims.csv"],
        ["entries", "recorded/algorithms"],
    ],
    ids=["evidence", "algorithms"],
)
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_page_beside_it_has_no_serious_problem(
    chromium, root, tmp_path, monkeypatch, words, width, scheme
):
    if axe.program() is None:
        pytest.skip("axe-core is not available without npm and its registry")
    monkeypatch.chdir(root)
    assert cli.main([*words, "--out", str(tmp_path / "page.html")]) == 0
    chromium.scheme(scheme)
    chromium.size(width, 844, phone=width < 500)
    chromium.open(tmp_path / "page.html")
    chromium.wait("document.readyState === 'complete' && document.querySelector('table') !== null")
    assert chromium.ask("document.documentElement.scrollWidth") == width
    assert axe.faults(chromium) == []


@pytest.mark.nightly
def test_drawn_points_of_the_grid_are_the_bytes_of_their_commands(root, tmp_path, chromium):
    recorded = root / "recorded/lab"
    if not recorded.is_dir():
        pytest.skip("recorded/lab: measure config/campaigns/lab.yaml and record it")
    chromium.open(made(root, recorded, tmp_path / "lab.html"))
    chromium.wait(f"{SHOWN} !== ''")
    cells = chromium.ask("lab.index.cells.map(cell => cell.cell)")
    for name in itertools.islice(cells, 0, None, max(1, len(cells) // 50)):
        chromium.ask(f"lab.choose(lab.panes[0], lab.find('lab', '{name}'), 2)")
        chromium.wait(f"{SHOWN} === 'lab/{name}/2'")
        command, digest = chromium.ask(
            "document.querySelector('#pane-a .repeat pre').textContent"
        ).splitlines()
        program = shlex.quote(str(Path(sys.executable).parent / "losslab"))
        done = subprocess.run(
            ["sh", "-c", command.replace("losslab", program, 1).replace("run-2", name)],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == f"{digest.removeprefix('# ')}  -", done.stderr
