"""What host.json says of the checkout."""

from datetime import UTC, datetime

from losslab import processes
from losslab.campaign import replicate


def test_a_cells_replicates_ask_git_once(monkeypatch):
    asked = []
    attempt = processes.attempt

    def counted(command, **more):
        asked.append(command)
        return attempt(command, **more)

    monkeypatch.setattr(processes, "attempt", counted)
    replicate.git_state.cache_clear()
    said = [replicate.host(datetime.now(UTC), 1.0, [], None)["git"] for _ in range(3)]
    assert said[0] == said[1] == said[2]
    assert set(said[0]) == {"commit", "dirty"}
    assert len(asked) == 2


def test_outside_a_checkout_nothing_is_known(tmp_path):
    assert replicate.git_state(tmp_path) == {"commit": None, "dirty": None}
