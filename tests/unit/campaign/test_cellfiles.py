"""Reading measured cells: damaged, repeated or missing ones are refused by name."""

import pytest

from losslab import cli
from losslab.campaign import cellfiles
from losslab.errors import LosslabError
from tests.unit.campaign.cells import write_cell

VALUES = [1, 2, 3]


@pytest.fixture
def cell(tmp_path):
    return write_cell(tmp_path / "a", "cell", VALUES)


def test_cell_has_its_condition_and_replicates(tmp_path, cell):
    [(name, found)] = cellfiles.load_cells(tmp_path).items()
    assert (name, found.file, found.condition.rate_mbit) == ("loss/cell", cell / "cell.json", 1000)
    assert [(each.seed, each.folder.name) for each in found.replicates] == [
        (0, "0"), (1, "1"), (2, "2"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("", "Expecting value"),
        ('{"replicates": []}', "no 'condition'"),
        ('{"condition": {}, "replicates": []}', "algorithm"),
        ('{"replicates": [{"seed": "1", "valid": true, "summary": {}}]}', "'1' instead of int"),
        ('{"replicates": [{"seed": 1, "valid": 1, "summary": {}}]}', "1 instead of bool"),
        ('{"replicates": [{"seed": 1, "valid": true, "summary": []}]}', "[] instead of dict"),
        pytest.param("[" * 100_000, "too many nested levels", id="levels"),
    ],
)
def test_damaged_cell_is_refused_by_name(tmp_path, cell, capsys, content, found):
    write_cell(tmp_path / "b", "cell", VALUES)
    (cell / "cell.json").write_text(content)
    assert cli.main(["diff", str(tmp_path / "b"), str(tmp_path / "a")]) == 2
    words = capsys.readouterr().err
    assert f"{cell / 'cell.json'} must be the cell.json of a measured cell, found " in words
    assert found in words


@pytest.mark.parametrize(("content", "kind"), [("[]", "list"), ("null", "NoneType")])
def test_cell_json_must_be_an_object(tmp_path, cell, content, kind):
    (cell / "cell.json").write_text(content)
    with pytest.raises(LosslabError, match=f"must be a JSON object, found a {kind}"):
        cellfiles.load_cells(tmp_path)


def test_two_replicates_of_one_seed_are_refused(tmp_path):
    write_cell(tmp_path, "cell", VALUES, seeds=[1, 2, 2])
    with pytest.raises(LosslabError, match="found two replicates with the same seed"):
        cellfiles.load_cells(tmp_path)


def test_repeated_cell_is_refused(tmp_path, cell):
    write_cell(tmp_path / "b", "cell", VALUES)
    with pytest.raises(LosslabError, match=r"must have each cell once, found .*/a/.* and .*/b/"):
        cellfiles.load_cells(tmp_path)


def test_folder_without_cells_is_refused(tmp_path):
    with pytest.raises(LosslabError, match="must contain measured cells"):
        cellfiles.load_cells(tmp_path)


def test_comparing_a_folder_with_itself_is_refused(tmp_path, cell, capsys):
    assert cli.main(["diff", str(tmp_path), str(tmp_path / "a" / "..")]) == 2
    assert "must compare two folders" in capsys.readouterr().err
