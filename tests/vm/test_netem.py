"""On Debian's own kernel in an emulated machine: what this one's may lack."""

import json
import os
import shutil

import pytest

from bench import vm
from losslab.instrument import image, kernel
from tests.vm import netem

# What an emulated machine may be too slow for.
OF_TIME = ("RTT of the idle path", "pings in the traffic", "timers must", "the bottleneck must")

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which(vm.EMULATOR) is None, reason=f"as root: {vm.INSTALL}"
    ),
    pytest.mark.skipif(None in (kernel.existing(), image.existing()), reason="make setup"),
]


def test_delay_and_loss_are_those_of_netem_and_nothing_is_left_behind(tmp_path):
    cell = (
        "measure --where host --algorithm bbr --rate-mbit 1 --rtt-ms 160 --buffer-packets 30 "
        "--loss-percent 2 --duration-s 8 --out /share/out"
    )
    outcome = netem.run(f"python3 -m bench.host_state -- python3 -m losslab.cli {cell}", tmp_path)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [r for r in manifest["reasons"] if not r.startswith(OF_TIME)] == [], outcome.console
    summary, qdiscs = manifest["summary"], manifest["observed"]["state"]["sender"]["qdiscs"]
    assert "fq" in [qdisc["kind"] for qdisc in qdiscs]
    assert 160 <= summary["rtt_ms"] < 170
    assert summary["loss_packets"] > 0
    assert summary["unexplained_packets"] == 0
    assert manifest["machine"]["kernel"].endswith("-amd64")
    # No module of a protocol that no one speaks, among others.
    assert "nothing left behind" in outcome.console
