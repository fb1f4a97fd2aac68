import copy

import pytest

from losslab import design
from losslab.errors import LosslabError

QUICK = "config/quick.yaml"


@pytest.fixture
def config(root):
    return design.load_yaml(root / QUICK)


@pytest.fixture
def study(root):
    return design.load_yaml(root / "config/studies/loss.yaml")


def test_the_main_block_has_the_sources_88_cells(root, config):
    cells = [c for c in design.load_cells(config, root) if c.block == "main"]
    assert len(cells) == 11 * 2 * 2 * 2
    assert all(c.replicates >= 3 and c.condition.duration_s >= 5 for c in cells)
    assert len({c.name for c in cells}) == 88


def test_full_campaign_has_at_least_ten_replicates_of_30_s(root):
    cells = design.load_cells(design.load_yaml(root / "config/config.yaml"), root)
    main = [c for c in cells if c.block == "main"]
    assert all(c.replicates >= 10 and c.condition.duration_s >= 30 for c in main)


def test_misspelt_key_is_named(root, config):
    config["studies"]["loss"]["main"]["replicate"] = 5
    with pytest.raises(LosslabError, match="'replicate' was unexpected"):
        design.load_cells(config, root)


def test_unknown_block_is_named(root, config):
    config["studies"]["loss"]["mian"] = config["studies"]["loss"]["main"]
    with pytest.raises(LosslabError, match="mian"):
        design.load_cells(config, root)


def test_unknown_study_is_named(root, config):
    config["studies"]["lost"] = config["studies"]["loss"]
    with pytest.raises(LosslabError, match=r"lost\.yaml"):
        design.load_cells(config, root)


@pytest.mark.parametrize(
    ("axis", "value", "word"),
    [("loss_percent", [120], "120"), ("loss", [1], "'loss'"), ("rtt_ms", -1, "-1")],
)
def test_schema_names_bad_axes(study, axis, value, word):
    broken = copy.deepcopy(study)
    broken["blocks"]["main"][axis] = value
    with pytest.raises(LosslabError, match=word):
        design.check_schema(broken, "study", "loss.yaml")


def test_unknown_algorithm_is_named(study, config):
    study["blocks"]["main"]["algorithm"] = ["cubic", "bbr9"]
    with pytest.raises(LosslabError, match="bbr9"):
        design.study_cells(study, config["studies"]["loss"], {"cubic", "bbr"})


def test_equal_cells_are_refused(study, config):
    study["blocks"]["main"]["algorithm"] = ["cubic", "cubic"]
    with pytest.raises(LosslabError, match="must differ"):
        design.study_cells(study, config["studies"]["loss"], {"cubic"})


def test_negative_duration_is_refused(root, config):
    config["studies"]["loss"]["main"]["duration_s"] = -5
    with pytest.raises(LosslabError, match="duration_s"):
        design.load_cells(config, root)


def test_repeated_yaml_key_is_refused(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("studies: {}\nstudies: {}\n")
    with pytest.raises(LosslabError, match="twice"):
        design.load_yaml(path)


def test_duplicate_algorithms_are_refused(tmp_path):
    path = tmp_path / "algorithms.tsv"
    row = "cubic\tCUBIC\t#0072B2\t16\n"
    path.write_text("name\tlabel\tcolour\tshape\n" + row + row)
    with pytest.raises(LosslabError, match="cubic"):
        design.load_algorithms(path)
