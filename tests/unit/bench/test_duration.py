"""The comparison of estimated and measured times."""

from bench import duration


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
