"""Comparison of remade files, by the same and by other software."""

from types import SimpleNamespace

import pytest

from losslab import extensions
from losslab.campaign import plan
from losslab.campaign.plan import RecordedCampaign
from losslab.errors import LosslabError
from losslab.repository import ROOT
from losslab.tools.artifact import remake

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
    "tables/a.csv": ("x\n1.0\n", "x\n1.01\n"),
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


def test_creation_time_of_a_pdf_does_not_count(compare):
    texts = [f"%PDF /CreationDate (D:2026010{day}000000Z) x" for day in (1, 2)]
    assert compare("figures/a.pdf", *texts, HERE) == ([], [])
    assert compare("figures/a.pdf", texts[0], texts[1] + "y", HERE) == (["figures/a.pdf"], [])


def test_error_of_a_rule_is_quoted_without_snakemakes_output(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "loss.log").write_text("note\nlosslab: error: a is damaged\n")
    done = SimpleNamespace(good=False, err="RuleException", out="")
    monkeypatch.setattr(remake.processes, "attempt", lambda *_, **__: done)
    with pytest.raises(LosslabError, match=r"^a is damaged$"):
        remake.run_workflow(RecordedCampaign(("a.yaml",), {}, [], {}), ROOT, tmp_path, 1)


def test_campaign_is_made_again_with_its_own_files(tmp_path, monkeypatch):
    folder = tmp_path / "campaign"
    (folder / "config").mkdir(parents=True)
    (folder / extensions.MARK).touch()
    monkeypatch.chdir(folder)
    (folder / "config/config.yaml").write_text("studies: {a: {}}\n")
    (folder / "more.yaml").write_text("seed_family: 2\n")

    def options(names, config):
        return remake.config_options(RecordedCampaign(names, config, [], {}), ROOT, tmp_path)

    file, more = folder / "config/config.yaml", folder / "more.yaml"
    names = plan.facts([file], {})["files"]
    assert names == ["config/config.yaml"]
    assert options(names, {"studies": {"a": {}}}) == ["--configfile", file]
    both = {"studies": {"a": {}}, "seed_family": 2}
    assert options(names, both) == ["--configfile", file, "--config", "seed_family=2"]
    assert options([*names, "more.yaml"], both) == ["--configfile", file, more]
    written = options(names, {"studies": {"b": {}}})
    assert written == ["--configfile", tmp_path / "config.yaml"]
    assert '"b"' in written[1].read_text()
