"""Names of earlier versions end in an error with the new place."""

import pytest

from losslab import cli, moved
from losslab.campaign import records
from losslab.errors import LosslabError
from losslab.reading import read_config


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("config/map.yaml", "config/campaigns/map.yaml"),
        ("config/suites/ci.yaml", "suites/ci/suite.yaml"),
        ("config/suites/bbr3-repaired.patch", "suites/bbr-draft/bbr3-repaired.patch"),
        ("docs/results/full", "recorded/full"),
        ("docs/results/quick.tsv", "recorded/quick/record.tsv"),
        ("docs/results/conform.tsv", "recorded/conform.tsv"),
    ],
)
def test_new_place_of_an_earlier_file_exists(root, old, new):
    assert not (root / old).exists()
    assert moved.new_place(root / old) == new
    assert (root / new).exists()
    assert moved.new_place(root / f"x{old}") == ""


def test_old_names_in_commands_are_refused_with_the_new_place(root, tmp_path):
    with pytest.raises(LosslabError, match=r"it is now config/campaigns/quick\.yaml"):
        read_config(root / "config/quick.yaml")  # which Snakemake must find
    with pytest.raises(LosslabError, match=r"it is now config/campaigns/map\.yaml"):
        read_config(root / "config/map.yaml")
    with pytest.raises(LosslabError, match=r"it is now recorded/full"):
        records.available(tmp_path / "docs/results/full", [])


def test_files_of_an_earlier_campaigns_folder_are_named_at_once(campaign_folder, capsys):
    places = {
        "config/studies/mine.yaml": "studies/mine/study.yaml",
        "config/published/mine_curves.csv": "studies/mine/curves.csv",
        "report/_mine.qmd": "studies/mine/chapter.qmd",
        "analysis/studies/mine/figures/goodput.R": "studies/mine/figures/goodput.R",
        "config/suites/mine.yaml": "suites/mine/suite.yaml",
        "report/verdicts.tsv": "remove it; `losslab claims --record CAMPAIGN` makes its new form",
    }
    for name in (*places, "config/config.yaml", "studies/other/study.yaml", "suites/other.yaml"):
        (campaign_folder / name).parent.mkdir(parents=True, exist_ok=True)
        (campaign_folder / name).touch()
    assert cli.main(["axes"]) == 1
    message = capsys.readouterr().err
    assert f"found {len(places)} in those of an earlier one" in message
    assert all(f"{old} -> {new}\n" in message for old, new in places.items())
