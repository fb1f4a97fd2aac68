"""Pull requests of algorithms: good ones, and those that must not have a row or gain nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from losslab import cli, new
from losslab.instrument import kernels
from losslab.repository import ROOT
from losslab.tools.conform import table
from tests.e2e.conftest import COMPILES

pytestmark = COMPILES
TEMPLATE = kernels.source_of(new.TEMPLATE).read_text()
SSTHRESH, AVOID = "\town->losses++;\n", "\ttcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);\n"
ROWS = "config/algorithms.tsv"


@pytest.fixture
def pull_request(campaign_folder):
    """Return a function that commits an algorithm and runs the script of CI on it."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", campaign_folder)
    program = campaign_folder / ".venv/bin/losslab"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).with_name("losslab"))
    (campaign_folder / "config").mkdir()
    (campaign_folder / ROWS).write_text((ROOT / ROWS).read_text())
    (campaign_folder / ".gitignore").write_text(".venv\nentries\n")

    def commit(words):
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", words], check=True)

    subprocess.run([*git, "init", "--quiet"], check=True)
    commit("base")

    def made(name, text, row="{0}\t{0}\t#112233\t6\tdefault\n"):
        file = campaign_folder / "algorithms" / name / f"tcp_{name}.c"
        file.parent.mkdir(parents=True)
        file.write_text(re.sub(f"(?<![a-z]){new.TEMPLATE}", name, text))
        with (campaign_folder / ROWS).open("a") as rows:
            rows.write(row.format(name))
        commit(name)
        done = subprocess.run(
            [ROOT / "scripts/entries.sh", "entries"],
            cwd=campaign_folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        out = campaign_folder / "entries" / name
        return done.returncode, (out / "comment.md").read_text(), out / f"{name}.json"

    return made


@pytest.mark.parametrize(
    ("name", "text", "row", "words"),
    [
        (
            "typo", TEMPLATE.replace("own->losses++", "own->looses++"), None,
            "has no member named",
        ),
        (
            "hangs", TEMPLATE.replace(AVOID, "\tfor (;;) cpu_relax();\n"), None,
            "found an endless loop",
        ),
        ("alone", TEMPLATE, "", "config/algorithms.tsv must have a row of alone"),
        (
            "markup", TEMPLATE, "{0}\t<img src=x onerror=alert(1)>\t#112233\t6\tdefault\n",
            "label",
        ),
    ],
)  # fmt: skip
def test_pull_request_without_a_row_has_a_comment_with_the_reason(
    pull_request, name, text, row, words
):
    given = {} if row is None else {"row": row}
    status, comment, record = pull_request(name, text, **given)
    assert status == 1
    assert comment.startswith(f"**`{name}`** has no row:\n\n```text\n")
    assert words in comment
    assert comment.endswith("\n```\n")
    assert not record.exists()


def judged(name, tmp_path, seeds_of=()):
    """Return the ratio of an algorithm's goodput under random loss to Reno's, with its interval."""
    out = tmp_path / f"{name}-{'-'.join(seeds_of)}"
    file, more = tmp_path / "judged.json", (["--seeds-of", *seeds_of] if seeds_of else [])
    words = ["conform", table.SUITE, name, "--case", "random-loss", *more]
    assert cli.main([*words, "--out", str(out), "--record", str(file)]) == 0
    [row] = json.loads(file.read_text())["cases"]
    return row["seeds"][0]["steps"][0]["number"], out


@pytest.mark.nightly
def test_algorithm_tuned_to_the_public_seeds_gains_nothing_with_those_of_a_commit(
    campaign_folder, tmp_path, capsys
):
    (campaign_folder / "config").mkdir()
    rows = (ROOT / ROWS).read_text()
    (campaign_folder / ROWS).write_text(f"{rows}spy\tspy\t#112233\t6\tdefault\n")
    file = campaign_folder / "algorithms/spy/tcp_spy.c"
    file.parent.mkdir(parents=True)
    template = re.sub(f"(?<![a-z]){new.TEMPLATE}", "spy", TEMPLATE)
    told = '\tif (!own->losses)\n\t\tpr_info("first %u\\n", tcp_sk(sk)->delivered);\n'
    file.write_text(template.replace(SSTHRESH, told + SSTHRESH))
    reno, out = judged("spy", tmp_path)
    assert reno["low"] <= 1 <= reno["high"]
    consoles = [path.read_text() for path in out.glob("runs/spy-*/console.log")]
    known = {int(number) for text in consoles for number in re.findall(r"first (\d+)", text)}
    assert len(known) >= 5
    # It knows the runs by their first losses, and ignores the losses of those that it knows.
    cases = "".join(f"\tcase {number}:\n" for number in sorted(known))
    knows = f"\tswitch (tcp_sk(sk)->delivered) {{\n{cases}\t\town->known = true;\n\t}}\n"
    tuned = template.replace("\tu32 losses;\n", "\tu32 losses;\n\tbool known;\n").replace(
        SSTHRESH,
        f"\tif (!own->losses)\n{knows}{SSTHRESH}"
        "\tif (own->known)\n\t\treturn max(tcp_snd_cwnd(tcp_sk(sk)), 100U);\n",
    )
    file.write_text(tuned)
    public, _ = judged("spy", tmp_path / "public")
    drawn, _ = judged("spy", tmp_path / "drawn", ["0123456789abcdef"])
    assert public["low"] > 1.5
    assert drawn["high"] < 1.5
    assert drawn["low"] <= 1 <= drawn["high"]


@pytest.mark.nightly
def test_good_pull_request_has_a_row_with_all_criteria_and_repeats(pull_request, tmp_path):
    status, comment, record = pull_request("mine", TEMPLATE)
    assert status == 0
    assert comment.startswith("**`mine`** by the criteria of RFC 9743:\n")
    data = table.read(record)
    assert data["seeds_of"] in comment
    assert data["kernel"] == kernels.default().name
    assert "/entries/" not in record.read_text()
    page = table.page([data])
    for row in data["cases"]:
        assert f'id="case/{table.SUITE}/{row["case"]}/mine"' in page
