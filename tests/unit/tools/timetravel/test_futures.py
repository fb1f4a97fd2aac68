"""Refusals of replicates that cannot be cut."""

import pytest

from losslab.backends.base import Instrument
from losslab.campaign.instrument import CUT_PATCH, SNAPSHOT_PATCH
from losslab.errors import LosslabError
from losslab.instrument import kernels
from losslab.reading import UsageError
from losslab.study.condition import Condition
from losslab.tools.timetravel import futures, whatif

CONDITION = Condition(algorithm="cubic", duration_s=2)


def cut(folder, at_s=1.0, condition=CONDITION, **abilities):
    tools = Instrument(folder / "linux", folder, {"kernel": {"version": "6.1"}}, **abilities)
    with futures.past({"seed": 1}, (condition, tools, None), at_s, folder):
        pass


@pytest.mark.parametrize("abilities", [{"cuts": False}, {"snapshots": False}])
def test_kernel_that_cannot_wait_is_refused_with_the_reason(tmp_path, abilities):
    with pytest.raises(LosslabError, match=r"virtual on the guest with kernel 6\.1") as error:
        cut(tmp_path, **abilities)
    assert "0015" in error.value.hint


def test_cut_after_the_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="must be within the run, 0 to 2 s, found 2"):
        cut(tmp_path, 2.0)


@pytest.mark.parametrize(
    ("name", "can"), [("6.12", True), ("6.12-bbr3", True), ("6.1", False), ("7.2", True)]
)
def test_series_with_the_patches_can_be_cut(root, name, can):
    folder = root / kernels.get(name).series.folder / "patches"
    patches = {path.name for path in folder.iterdir()}
    assert ({CUT_PATCH, SNAPSHOT_PATCH} <= patches) == can


def test_packet_that_a_future_did_not_drop_is_named(tmp_path, capsys):
    change = futures.Change("drop 5,6,ack", drop={"data": (5, 6), "ack": (7,)})
    drops = [futures.Drop("data", 6, 2.0, 1514), futures.Drop("ack", 7, 0.5, 66)]
    whatif._note_not_dropped(futures.Future(change, None, 1.0, tmp_path, {}, drops), 1.0)
    notes = capsys.readouterr().err
    assert "ack packet 7 was not" in notes and "data packet 5 was not" in notes
    assert "packet 6" not in notes
