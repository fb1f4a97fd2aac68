"""A campaign of one study."""

import pytest

from losslab.workflow.campaign import Campaign

CONFIG = {
    "campaign": "mine",
    "studies": {
        "loss": {
            "main": {
                "only": {"app": "iperf3", "path": "symmetric"},
                "replicates": 5,
                "max_replicates": 9,
                "half_width_percent": 3,
                "duration_s": 4,
                "warmup_s": 2,
            }
        }
    },
}


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Campaign(CONFIG, [])
