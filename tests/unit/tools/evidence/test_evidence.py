"""Page of evidence: an address for each claim, case and cell."""

import re
import shlex

import pytest

from losslab import cli
from losslab.campaign import records
from losslab.reading import read_rows
from losslab.repository import ROOT
from losslab.tools.evidence import evidence

LAB = ROOT / "tests/fixtures/lab"
CLAIM = {
    "study": "lab", "claim": "loss-costs-cubic", "sentence": "1 % costs <more>", "measured": "3.25",
    "low": "NA", "high": "NA", "unit": "Mbit/s", "tolerance": "at most 10", "verdict": "reproduced",
}  # fmt: skip


@pytest.fixture(scope="module")
def cells():
    return evidence.read(LAB)


def test_every_recorded_cell_has_an_address_with_its_value_digest_and_command(cells):
    text = evidence.page([], [], cells)
    rows = records.read_record(LAB / "record.tsv")
    assert set(re.findall(r'id="cell/([^"]+)"', text)) == set(rows)
    for row in rows.values():
        assert f"<code>{row.sha256}</code>" in text
    some = next(each for each in cells if each.record.cell.startswith("bbr_cubic"))
    assert shlex.split(some.command)[:4] == ["losslab", "measure", "--algorithm", "cubic"]
    assert f"--seed {some.content['replicates'][0]['seed']} " in some.command


def test_claim_links_to_the_cells_it_is_about(cells):
    text = evidence.page([CLAIM], [], cells)
    assert 'id="claim/lab/loss-costs-cubic"' in text
    assert "1 % costs &lt;more&gt;" in text
    [row] = re.findall(r"<tr><td><a id=\"claim/.*?</tr>", text, re.S)
    links = re.findall(r'href="#(cell/[^"]+)"', row)
    assert links == ["cell/lab/loss_cubic_loss1_symmetric_iperf3_rtt40_offloads-off_rate20_link"]
    assert all(f'id="{link}"' in text for link in links)
    assert "3.25 Mbit/s" in row


def test_addresses_of_recorded_cases_are_unique_and_have_no_number_of_a_row():
    cases = read_rows(ROOT / "recorded/conform.tsv", "\t", evidence.CASE_COLUMNS)
    addresses = [evidence.case_address(row) for row in cases]
    assert len(set(addresses)) == len(addresses) > 100
    assert "case/bbr-draft/1/bbr3" in addresses


def test_command_writes_the_page(tmp_path, capsys):
    out = tmp_path / "evidence.html"
    cases = str(ROOT / "recorded/conform.tsv")
    assert cli.main(["evidence", str(LAB), "--cases", cases, "--out", str(out)]) == 0
    assert "98 cells" in capsys.readouterr().out
    assert out.read_text().count("<tr>") > 98
