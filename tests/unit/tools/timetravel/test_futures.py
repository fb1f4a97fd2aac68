"""Refusals of replicates that cannot be cut."""

import pytest

from losslab.backends.base import CONTAINERNET, HOST, Instrument
from losslab.errors import LosslabError
from losslab.reading import UsageError
from losslab.study.condition import Condition
from losslab.tools.timetravel import futures, whatif

CONDITION = Condition(algorithm="cubic", duration_s=2)


def cut(folder, at_s=1.0, condition=CONDITION, **backend):
    tools = Instrument(folder / "linux", folder, {}, **backend)
    with futures.past({"seed": 1}, (condition, tools, None), at_s, folder):
        pass


def test_run_on_this_machines_kernel_is_refused(tmp_path):
    with pytest.raises(LosslabError, match="a cut needs a guest, found a run of containernet on "):
        cut(tmp_path, backend=CONTAINERNET, where=HOST)


def test_cut_after_the_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match="must be within the run, 0 to 2 s, found 2"):
        cut(tmp_path, 2.0)


def test_packet_that_a_future_did_not_drop_is_named(tmp_path, capsys):
    change = futures.Change("drop 5,6,ack", drop={"data": (5, 6), "ack": (7,)})
    drops = [futures.Drop("data", 6, 2.0, 1514), futures.Drop("ack", 7, 0.5, 66)]
    whatif._note_not_dropped(futures.Future(change, None, 1.0, tmp_path, {}, drops), 1.0)
    notes = capsys.readouterr().err
    assert "ack packet 7 was not" in notes and "data packet 5 was not" in notes
    assert "packet 6" not in notes
