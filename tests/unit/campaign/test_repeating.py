import pytest

from losslab.campaign import repeating


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (["config/config.yaml"], "snakemake --cores all"),
        (["config/quick.yaml"], "make report"),
        (["config/map.yaml"], "make report CONFIG=config/map.yaml"),
        (
            ["config/map.yaml", "config/imc.yaml"],
            "snakemake --cores all --configfile map.yaml imc.yaml",
        ),
        (["../mine.yaml"], "snakemake --cores all --configfile mine.yaml"),
    ],
)
def test_a_campaign_says_how_it_is_measured_again(tmp_path, files, command):
    root = tmp_path / "clone"
    assert repeating.command([root / name for name in files], root) == command
