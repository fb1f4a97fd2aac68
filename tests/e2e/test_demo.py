"""The demo on a real path, with a short sweep."""

from losslab import cli, demo


def test_demo_measures_its_path(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "PATH", demo.PATH | {"rate-mbit": 10, "duration-s": 3})
    monkeypatch.setattr(demo, "REPLICATES", 1)
    assert cli.main(["demo", "--out", str(tmp_path / "demo")]) == 0
    said = capsys.readouterr().out
    assert "CUBIC: 1 % loss costs" in said
    assert str(next((tmp_path / "demo/cells").glob("bbr_loss1_*"))) in said
    assert (tmp_path / "demo/sweep.svg").is_file()
