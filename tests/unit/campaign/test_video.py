"""The stream that the ffmpeg app sends; no guest."""

import pytest

from losslab.backends import runner
from losslab.campaign import instrument
from losslab.campaign.replicate import Instrument
from losslab.errors import GuestLostError


@pytest.mark.parametrize(
    ("asked_s", "limit_s"), [(0.3, 0.3), (None, instrument.ENCODE_TIMEOUT_S), (900.0, 900.0)]
)
def test_the_encoder_has_the_time_that_was_asked_for(monkeypatch, tmp_path, asked_s, limit_s):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path))
    limits = []

    def run(backend, tools, job):
        limits.append(job.timeout_s)
        raise GuestLostError("the guest must end in time, found it still running")

    monkeypatch.setattr(runner, "run", run)
    tools = Instrument(tmp_path / "linux", tmp_path / "root", {"image": {"hash": "0"}})
    with pytest.raises(GuestLostError):
        instrument.video("128x64", 1.0, tools, asked_s)
    assert limits == [limit_s]
