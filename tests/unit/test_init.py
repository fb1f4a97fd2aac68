"""`losslab init`: the files of a campaign's folder."""

from losslab import cli
from losslab.doors import MARK
from losslab.reading import read_yaml
from losslab.repository import ROOT
from losslab.study import design


def test_init_writes_a_valid_campaign(tmp_path, capsys):
    folder = tmp_path / "mine"
    assert cli.main(["init", str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"cd {folder}" in said
    assert (folder / MARK).is_file()
    assert (folder / "workflow/Snakefile").is_file()
    assert "profiles/default/profile.yaml" in said
    cells = design.load_cells(read_yaml(folder / "config" / "config.yaml"), ROOT)
    assert {cell.study for cell in cells} == {"loss"}


def test_init_refuses_a_folder_with_files(tmp_path, capsys):
    (tmp_path / "notes").write_text("mine")
    assert cli.main(["init", str(tmp_path)]) == 2
    assert "must be new or empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]
