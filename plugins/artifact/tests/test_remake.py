"""Comparison of remade files, by the same and by other software."""

import pytest

from losslab.campaign import plan
from losslab.campaign.plan import RecordedCampaign
from losslab_artifact import remake

HERE = {"r-base": "4.5.0", "python": "3.13"}
PAGE = "<html><body><svg>{drawn}</svg></body></html>"


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Compare a file of a results folder with its remade version."""
    monkeypatch.setattr(plan, "software", lambda: HERE)

    def compare(name, then, now, software):
        for place, text in (("then", then), ("now", now)):
            path = tmp_path / place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        campaign = RecordedCampaign(("a.yaml",), {}, [], software)
        found = remake.compare(tmp_path / "then", tmp_path / "now", campaign)
        return [each.path for each in found.findings], found.not_compared

    return compare


SAME, OTHER = HERE, HERE | {"r-base": "4.2.2"}
FILES = {
    "summary/a.csv": ("x\n1.0\n", "x\n1.00000001\n"),
    "claims.csv": ("x\nreproduced\n", "x\ndiffers\n"),
    "figures/a.svg": ("<svg>1</svg>", "<svg>2</svg>"),
    "figures/a.txt": ("one", "two"),
    "report/report.html": (PAGE.format(drawn=1), PAGE.format(drawn=2)),
}


@pytest.mark.parametrize("name", FILES)
def test_other_software_may_only_draw_and_round_differently(compare, name):
    assert compare(name, *FILES[name], SAME) == ([name], [])
    assert compare(name, *FILES[name][:1] * 2, SAME) == ([], [])
    drawn = [name.rpartition("/")[2]] if name.endswith(("svg", "html")) else []
    findings = [] if drawn or name == "summary/a.csv" else [name]
    assert compare(name, *FILES[name], OTHER) == (findings, drawn)


def test_other_software_may_not_change_numbers(compare):
    assert compare("summary/a.csv", "x\n1.0\n", "x\n1.01\n", OTHER)[0] == ["summary/a.csv"]


def test_creation_time_of_a_pdf_does_not_count(compare):
    texts = [f"%PDF /CreationDate (D:2026010{day}000000Z) x" for day in (1, 2)]
    assert compare("figures/a.pdf", *texts, HERE) == ([], [])
    assert compare("figures/a.pdf", texts[0], texts[1] + "y", HERE) == (["figures/a.pdf"], [])


def test_own_campaign_is_written_to_the_remade_folder(tmp_path):
    (tmp_path / "mine.yaml").write_text("studies: {a: {}}\n")
    same = RecordedCampaign(("mine.yaml",), {"studies": {"a": {}}}, [], {})
    assert remake.config_files(same, tmp_path, tmp_path / "folder") == [tmp_path / "mine.yaml"]
    other = RecordedCampaign(("mine.yaml",), {"studies": {"b": {}}}, [], {})
    (tmp_path / "folder").mkdir()
    [written] = remake.config_files(other, tmp_path, tmp_path / "folder")
    assert written == tmp_path / "folder/mine.yaml"
    assert '"b"' in written.read_text()
