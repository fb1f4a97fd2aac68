import dataclasses

import pytest

from bench import duration
from losslab.campaign import cost
from losslab.study import condition
from losslab.study.condition import Condition

BULK = Condition(algorithm="cubic", rate_mbit=100, rtt_ms=20, duration_s=10)


def changed(**values):
    return cost.replicate_s(dataclasses.replace(BULK, **values), "virtual")


def test_estimated_goodput_follows_rate_loss_and_algorithm():
    assert cost.expected_mbit(BULK) == 100
    lossy = dataclasses.replace(BULK, loss_percent=1)
    # 1448 bytes times the square root of 150, per RTT of 20 ms.
    assert cost.expected_mbit(lossy) == pytest.approx(7.09, abs=0.01)
    assert cost.expected_mbit(dataclasses.replace(lossy, algorithm="bbr")) == pytest.approx(99)
    assert cost.expected_mbit(dataclasses.replace(BULK, app="web")) == 0


@pytest.mark.parametrize("app", condition.AXES["app"].choices)
def test_every_app_has_a_cost(app):
    assert changed(app=app) > 0


def test_replicate_with_more_work_costs_more():
    plain = changed()
    assert changed(duration_s=20) > plain
    assert changed(rate_mbit=1000) > plain
    assert changed(loss_percent=1) < plain
    assert changed(trace="cellular") > changed(rate_mbit=5)
    assert cost.replicate_s(BULK, "containernet") > plain
    assert changed(app="quic") > changed(app="command") >= plain
    few, many = changed(flows="same"), changed(flows="same,count=100")
    short = changed(flows="same,arrivals_per_s=100,size_kb=5")
    assert plain < few < many < few + 2
    assert few < short < few + 2
    # Several flows fill a link that a single flow does not.
    lossy = dataclasses.replace(BULK, loss_percent=1)
    assert cost.expected_mbit(dataclasses.replace(lossy, flows="same,count=3")) == pytest.approx(
        4 * cost.expected_mbit(lossy)
    )


def test_duration_bench_sums_and_compares_costs(tmp_path, capsys):
    campaign = tmp_path / "c.yaml"
    campaign.write_text(
        "studies: {loss: {main: {only: {loss_percent: 0, app: iperf3}, replicates: 3, "
        "max_replicates: 5, half_width_percent: 5, duration_s: 10, warmup_s: 1}}}\n"
    )
    folder = tmp_path / "results/cells/loss/bbr_loss0_symmetric_iperf3_rtt0.42_offloads-off"
    (folder / "0").mkdir(parents=True)
    (folder / "0/host.json").write_text('{"wall_s": 7.5}')
    words = ["--config", str(campaign), "--results", str(tmp_path / "results"), "--cores", "1"]
    assert duration.main(words) == 0
    _, block, total, minutes = capsys.readouterr().out.splitlines()
    assert block.split()[2:] == total.split()[1:]
    assert (block.split()[2], block.split()[-1]) == ("4", "(1)")
    assert " to " in block
    assert "1 cores" in minutes
