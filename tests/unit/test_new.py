import re

import pytest

from losslab import cli, new
from losslab.cellspec import UsageError
from losslab.instrument import kernels
from losslab.repository import ROOT
from losslab.study import palette
from losslab.study.names import load_algorithms


@pytest.fixture
def copy(root, tmp_path):
    for part in (ROOT / "config" / "algorithms.tsv", kernels.source_of(new.TEMPLATE)):
        target = tmp_path / part.relative_to(root)
        target.parent.mkdir(parents=True)
        target.write_text(part.read_text())
    return tmp_path


def test_new_algorithm_adds_a_file_and_a_row(copy):
    path = new.new_algorithm("mine", "Mine", copy)
    assert str(path) == "algorithms/mine/tcp_mine.c"
    text = (copy / path).read_text()
    assert '.name\t\t= "mine"' in text
    assert "mine_ssthresh" in text
    assert not re.search("template", text)
    rows = load_algorithms(copy / "config" / "algorithms.tsv")
    assert rows[-1]["name"] == "mine"
    others = rows[:-1]
    assert rows[-1]["shape"] not in {row["shape"] for row in others}
    for name in ("a1", "a2", "a3", "a4"):
        new.new_algorithm(name, name, copy)
    rows = load_algorithms(copy / "config" / "algorithms.tsv")
    assert [row["name"] for row in rows[-4:]] == ["a1", "a2", "a3", "a4"]


def test_new_algorithm_has_a_colour_for_print_unlike_cubics_and_bbrs(copy):
    new.new_algorithm("mine", "Mine", copy)
    colours = {
        row["name"]: row["colour"] for row in load_algorithms(copy / "config" / "algorithms.tsv")
    }
    assert palette.contrast(colours["mine"]) >= palette.MIN_CONTRAST
    # More than half of the distance between blue and vermilion.
    least = palette.distance(colours["cubic"], colours["bbr"]) / 2
    assert all(palette.distance(colours["mine"], colours[n]) > least for n in ("cubic", "bbr"))


@pytest.mark.parametrize("name", ["", "Mine", "1st", "two words", "a-b", "a" * 16, "../x"])
def test_name_that_the_kernel_does_not_accept_is_refused(copy, name):
    with pytest.raises(UsageError, match="must match"):
        new.new_algorithm(name, "x", copy)
    assert len(list((copy / "algorithms").iterdir())) == 1


@pytest.mark.parametrize("name", ["cubic", "template"])
def test_existing_name_is_refused(copy, name):
    with pytest.raises(UsageError, match="must be new"):
        new.new_algorithm(name, "x", copy)


def test_new_algorithm_refuses_an_existing_name(capsys):
    assert cli.main(["new", "algorithm", "cubic"]) == 2
    assert "must be new, found cubic" in capsys.readouterr().err


def test_every_algorithms_file_registers_its_folders_name():
    found = sorted(kernels.ALGORITHMS.glob("*/*.c"))
    assert len(found) >= 2
    for path in found:
        assert path == kernels.source_of(path.parent.name)
        assert f'"{path.parent.name}"' in path.read_text()
