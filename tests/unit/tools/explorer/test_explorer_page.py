"""Run explorer: its data and its single file."""

import base64
import hashlib
import json
import re
import shutil
import tomllib
import zlib

import numpy as np
import pytest

from losslab.campaign import results, tables
from losslab.errors import LosslabError
from losslab.reading import read_rows
from losslab.tools.explorer import explorer
from losslab.ui import series
from losslab.ui.series import Series


def inflated(text):
    return json.loads(zlib.decompress(base64.b64decode(text)))


def undone(top, steps):
    """Return the values that the page draws."""
    step, values = 0, []
    for difference in steps:
        step += difference or 0
        values.append(None if difference is None else step / explorer.STEPS * top)
    return values


def line(t_s, values):
    return Series("cwnd", "cwnd", "first", np.array(t_s, float), np.array(values, float))


def test_slice_keeps_minimum_and_maximum_in_order():
    per_slice = [[1, 9, 3], [9, 2], [4]]
    t_s = [
        number + part / 4 for number, values in enumerate(per_slice) for part in range(len(values))
    ]
    values = [value for values in per_slice for value in values]
    top, steps = explorer.sliced(line(t_s, values), float(explorer.SLICES))
    assert top == 9
    drawn = undone(top, steps)
    assert len(drawn) == 2 * explorer.SLICES
    assert drawn[:6] == pytest.approx([1, 9, 9, 2, 4, None], abs=9 / explorer.STEPS)
    assert set(drawn[6:]) == {None}


def test_last_sample_zeros_and_runs_without_time_are_in_slices():
    _, steps = explorer.sliced(line([0, 5], [1, 2]), 5.0)
    assert steps[-2] is not None
    assert set(undone(*explorer.sliced(line([0, 1], [0, 0]), 1.0))) == {0, None}
    assert set(undone(*explorer.sliced(line([], []), 0.0))) == {None}


def test_packed_run_equals_the_recorded_series(recorded):
    folder = recorded("rivals") / "0"
    packed = inflated(explorer.pack(folder))
    run = series.load(folder)
    assert len(packed["lines"]) == len(run.series)
    for drawn, whole in zip(packed["lines"], run.series, strict=True):
        assert (drawn["p"], drawn["n"], drawn["f"]) == (whole.panel, whole.label, whole.flow)
        values = [value for value in undone(drawn["top"], drawn["v"]) if value is not None]
        real = whole.values[~np.isnan(whole.values)]
        step = max(real) / explorer.STEPS
        assert (max(values), min(values)) == pytest.approx((max(real), min(real)), abs=step)


@pytest.fixture
def campaign(unpacked, tmp_path):
    """Return a campaign's results with the recorded cells, in a separate folder."""
    (tmp_path / "results/cells").mkdir(parents=True)
    (tmp_path / "results/cells/seam").symlink_to(unpacked)
    files = sorted(unpacked.glob("*/cell.json"))
    found = tables.gather(map(tables.numbers_of, map(results.read_cell, files)))
    for row in found.cells:
        row["study"] = "seam"
    overview = tmp_path / "results/summary/seam/cells.csv"
    tables.write_csv(overview, tables.CELL_COLUMNS, [*found.cells, {"study": "seam"}])
    return overview, tmp_path / "results/cells", tmp_path / "results/report/explorer.html"


def parts(page):
    text = page.read_text()
    index = re.search(r'id="index">(.*?)</script>', text, re.DOTALL)[1]
    runs = re.search(r'id="runs">(.*?)</script>', text, re.DOTALL)[1].split()
    return text, inflated(index), runs


def test_explorer_page_is_self_contained(campaign):
    overview, cells, out = campaign
    said = explorer.build([overview], cells, out)
    text, index, runs = parts(out)
    files = sorted(cells.glob("seam/*/cell.json"))
    assert {cell["cell"] for cell in index["cells"]} == {path.parent.name for path in files}
    assert f"{len(files)} cells, {len(runs)} runs, {len(runs)} of them drawn" in said
    places = [run["series"] for cell in index["cells"] for run in cell["runs"]]
    assert sorted(places) == list(range(len(runs)))
    invalid = [run for cell in index["cells"] for run in cell["runs"] if not run["valid"]]
    assert all(run["reasons"] for run in invalid)
    assert invalid
    assert index["cells_folder"] == "../cells"
    assert re.findall(r'(?:src|href)="(?!report\.html|#)[^"]*"', text) == []
    assert "{{" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_runs_beyond_the_size_limit_are_listed_without_series(campaign, monkeypatch):
    overview, cells, out = campaign
    explorer.build([overview], cells, out)
    _, _, every = parts(out)
    monkeypatch.setattr(explorer, "SERIES_BUDGET", len(every[0]) + len(every[1]))
    explorer.build([overview], cells, out)
    _, index, runs = parts(out)
    assert runs == every[:2]
    places = [run["series"] for cell in index["cells"] for run in cell["runs"]]
    assert sorted(places) == [-1] * (len(every) - 2) + [0, 1]
    drawn_invalid = [r["series"] for c in index["cells"] for r in c["runs"] if not r["valid"]]
    assert drawn_invalid == [0]


def test_run_without_a_folder_is_listed_without_series(campaign, unpacked, tmp_path):
    overview, cells, out = campaign
    (cells / "seam").unlink()
    shutil.copytree(unpacked, cells / "seam")
    gone = next(cells.glob("seam/bulk_cubic*")) / "1"
    shutil.rmtree(gone)
    explorer.build([overview], cells, out)
    _, index, _ = parts(out)
    (cell,) = (each for each in index["cells"] if each["cell"] == gone.parent.name)
    assert [run["series"] >= 0 for run in cell["runs"]] == [True, False]
    assert cell["runs"][1]["files"] == []


def test_same_runs_give_the_same_bytes(campaign):
    overview, cells, out = campaign
    explorer.build([overview], cells, out)
    first = out.read_bytes()
    explorer.build([overview], cells, out, processes=2)
    assert out.read_bytes() == first


def test_missing_cell_is_named(campaign):
    overview, cells, out = campaign
    overview.write_text(overview.read_text().replace("seam,video", "seam,gone", 1))
    rows = read_rows(overview)
    rows[0]["cell"] = "gone"
    tables.write_csv(overview, tables.CELL_COLUMNS, rows)
    with pytest.raises(LosslabError, match=r"gone/cell\.json does not exist"):
        explorer.build([overview], cells, out)


def test_library_is_the_pinned_one():
    folder = explorer.FOLDER / "uplot"
    pin = tomllib.loads((folder / "source.toml").read_text())
    files = {path.name for path in folder.iterdir()} - {"source.toml"}
    assert set(pin["sha256"]) == files
    for name, digest in pin["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert f"(v{pin['version']})" in (folder / "uPlot.iife.min.js").read_text()[:200]
    assert "MIT" in (folder / "LICENSE").read_text()
