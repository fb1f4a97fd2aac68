import pytest

from losslab.errors import LosslabError
from losslab.reading import read_yaml
from losslab.study import design
from losslab.study.intervals import StoppingRule
from losslab.study.names import Names
from tests.unit.study.test_condition import BARE

NAMES = Names({"cubic": "default", "bbr": "default"})
RUN = {"replicates": 1, "duration_s": 5, "warmup_s": 1}


@pytest.fixture
def config(root):
    return read_yaml(root / "config/config.yaml")


@pytest.fixture
def study(root):
    return read_yaml(root / "studies/loss/study.yaml")


def test_quick_campaign_has_every_study_with_enough_replicates(root):
    studies = design.load_studies(read_yaml(root / "config/campaigns/quick.yaml"), root)
    assert {study.name for study in studies} >= {"calibration", "loss", "cloud", "bufferbloat",
                                                 "map", "cellular"}  # fmt: skip
    assert min(cell.stopping.minimum for study in studies for cell in study.cells) >= 5
    main = [c for s in studies for c in s.cells if c.study == "loss" and c.block == "main"]
    bulk = [c for c in main if c.condition.app == "iperf3"]
    assert len(bulk) == 44
    assert min(c.stopping.maximum for c in bulk) == 10


def test_cells_of_a_campaign_may_stop_early_but_for_blocks_with_their_own_rule(root):
    def stopping(early, **run):
        lengths = {"duration_s": 30, "warmup_s": 2, "only": {"loss_percent": 1, "app": "iperf3"}}
        config = {"studies": {"loss": {"main": lengths | run}}} | early
        [rule] = {cell.stopping for cell in design.load_cells(config, root)}
        return rule

    early = {"stop_early": {"replicates": 5, "half_width_percent": 0.5}}
    assert stopping({}, replicates=10) == StoppingRule(10, 10)
    assert stopping(early, replicates=10) == StoppingRule(5, 10, 0.5)
    assert stopping(early, replicates=5) == StoppingRule(5, 5)
    own = {"replicates": 10, "max_replicates": 20, "half_width_percent": 5}
    assert stopping(early, **own) == StoppingRule(10, 20, 5)
    with pytest.raises(LosslabError, match="half_width_percent"):
        stopping({"stop_early": {"replicates": 5}}, replicates=10)


def test_block_may_have_several_runs_each_for_some_of_its_cells(root):
    main = [
        RUN | {"only": {"app": "iperf3", "loss_percent": [0, 1]}},
        RUN | {"only": {"app": "ffmpeg", "loss_percent": 0}, "replicates": 3},
    ]
    config = {"studies": {"loss": {"main": main}}}
    (study,) = design.load_studies(config, root)
    found = {
        (c.condition.app, c.condition.loss_percent): c.stopping.minimum for c in study.cells
    }  # fmt: skip
    assert found == {("iperf3", 0): 1, ("iperf3", 1): 1, ("ffmpeg", 0): 3}
    assert len(study.cells) == 8 + 4
    assert study.left_out["main"] == 88 - 12
    assert study.left_out["sensitivity"] == 48
    # An axis that the study does not name has its default.
    main[1]["only"] |= {"queue": "fifo"}
    assert len(design.load_cells(config, root)) == 12


@pytest.mark.parametrize(
    ("only", "words"),
    [
        ({"loss_percent": 77}, "of study loss: loss_percent must be one of 0, .*found 77"),
        ({"loss_percent": [1, 77]}, "loss_percent must be one of 0, .*found 77"),
        ({"los": 1}, "'los' was unexpected"),
        ({"duration_s": 5}, "'duration_s' was unexpected"),
        ({"app": "iperf3"}, "must have each cell once, found twice"),
    ],
)
def test_run_must_select_existing_cells_once(root, only, words):
    config = {
        "studies": {"loss": {"main": [RUN | {"only": {"app": "iperf3"}}, RUN | {"only": only}]}}
    }
    with pytest.raises(LosslabError, match=words):
        design.load_cells(config, root)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"algorithms": ["bbbr"]}, "found bbbr.*did you mean bbr"),
        ({"algorithms": ["bbr"]}, "of a study with a suite, found only loss"),
        ({"conform": {"bbr-draft": {"algorithms": ["nosuch"], "seeds": 1}}}, "found nosuch"),
    ],
)
def test_algorithms_of_a_campaign_must_be_known_and_used(root, more, words):
    with pytest.raises(LosslabError, match=words):
        design.load_studies({"studies": {"loss": {"main": RUN}}} | more, root)


def test_backends_must_have_their_own_blocks(root):
    runs = [RUN | {"backend": "virtual"}, RUN | {"where": "host"}]
    with pytest.raises(LosslabError, match="found twice: virtual ") as error:
        design.load_cells({"studies": {"backends": {"virtual": runs}}}, root)
    assert "a block of its own" in error.value.hint


def test_unknown_or_missing_algorithm_is_named(study, config):
    study["blocks"]["main"]["algorithm"] = ["cubic", "bbr9"]
    with pytest.raises(LosslabError, match="bbr9"):
        design.study_cells(study, config["studies"]["loss"], NAMES)
    study["defaults"].pop("algorithm", None)
    for block in study["blocks"].values():
        block.pop("algorithm", None)
    with pytest.raises(LosslabError, match="a condition must set algorithm"):
        design.study_cells(study, {"main": RUN}, NAMES)


def test_time_series_are_kept_for_matching_cells(root, config):
    loss = next(s for s in design.load_studies(config, root) if s.name == "loss")
    chosen = [c.condition for c in loss.cells if c.name in loss.series]
    assert {c.loss_percent for c in chosen} == {0, 1, 5}
    assert {c.app for c in chosen} == {"iperf3"}
    assert len(chosen) == 12
    config["studies"]["loss"]["main"]["only"] = {"loss_percent": 1}
    (loss,) = [s for s in design.load_studies(config, root) if s.name == "loss"]
    assert len(loss.series) == 4


def test_campaign_can_be_measured_in_containers(root, config):
    # Studies with their own kernels are not.
    config |= {"backend": "containernet", "where": "host", "others": False}
    config["studies"] = {"backends": {"bare": dict(RUN), "virtual": RUN | {"backend": "virtual"}}}
    cells = design.load_cells(config, root)
    assert {c.real_time for c in cells if c.block == "bare"} == {True}
    others = {(c.backend, c.where) for c in cells if c.block == "virtual"}
    assert others == {("virtual", "host")}


def test_exact_links_are_refused_on_this_machines_kernel(root):
    with pytest.raises(LosslabError, match=r"set it to tbf \(`--shaper tbf`\)") as error:
        design.load_cells({"studies": {"loss": {"main": RUN | {"where": "host"}}}}, root)
    assert "edit studies/loss/study.yaml" in error.value.hint


def test_cells_in_real_time_have_separate_names_and_folders():
    cells = {
        (backend, where): design.Cell("s", "main", BARE, None, backend, where)
        for backend in ("virtual", "containernet")
        for where in ("guest", "host")
    }
    assert len({each.name for each in cells.values()}) == 4
    assert cells["virtual", "guest"].name == BARE.slug()
    assert cells["virtual", "host"].name.endswith("_virtual-host")
    assert [key for key, each in cells.items() if each.real_time] == [
        ("virtual", "host"), ("containernet", "host"),
    ]  # fmt: skip


def test_block_of_too_many_cells_is_refused_at_once(study):
    study["blocks"]["main"]["loss_percent"] = [number / 1000 for number in range(20_000)]
    with pytest.raises(LosslabError, match="must have at most 10000 cells, found "):
        design.study_cells(study, {"main": RUN}, NAMES)


def test_block_with_any_backend_has_the_campaigns_hosts_and_one_name(root, config):
    config["studies"] = {"loss": {"small": config["studies"]["loss"]["small"] | {"backend": "any"}}}
    config["others"] = False
    plain = design.load_cells(config, root)
    inside = design.load_cells(config | {"hosts": "containernet"}, root)
    assert {c.backend for c in plain} == {"virtual"}
    assert {c.backend for c in inside} == {"containernet"}
    assert [c.name for c in plain] == [c.name for c in inside]
    named = design.load_cells(config | {"backend": "containernet", "where": "guest"}, root)
    assert all(c.name.endswith("_containernet-guest") for c in named)
