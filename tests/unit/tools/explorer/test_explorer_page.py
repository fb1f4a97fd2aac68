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
from losslab.reading import read_config, read_rows
from losslab.tools.explorer import explorer
from losslab.ui import lessons, series
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


# Recorded runs


@pytest.fixture
def kept(campaign, tmp_path):
    """Record the cells' numbers and runs; return the folder and the cells' rows."""
    _, cells, _ = campaign
    rows = [results.read_cell(path) for path in sorted(cells.glob("seam/*/cell.json"))]
    contents = [row.content for row in rows]
    explorer.record(contents, cells, tmp_path / "recorded")
    return tmp_path / "recorded", contents


def test_recorded_run_has_the_lines_limits_and_digest_of_its_files(kept, campaign):
    folder, contents = kept
    _, cells, _ = campaign
    known = explorer._read_series(contents, folder)
    assert len(known) == sum(len(content["replicates"]) for content in contents)
    for content in contents:
        run = known[explorer._key(content, 0)]
        files = cells / "seam" / content["cell"] / "0"
        octets = b"".join(path.read_bytes() for path in sorted(files.glob("*.csv")))
        assert run["sha256"] == hashlib.sha256(octets).hexdigest()
        assert {len(line["v"]) for line in run["lines"]} == {2 * explorer.RECORDED_SLICES}
    bulk = next(c for c in contents if c["cell"].startswith("bulk_cubic"))
    assert sum(known[explorer._key(bulk, 0)]["limits"].values()) == pytest.approx(100, abs=0.5)


def test_series_of_a_run_with_other_numbers_are_not_drawn(kept):
    folder, contents = kept
    changed = json.loads(json.dumps(contents))
    changed[0]["replicates"][0]["summary"]["goodput_mbit"] = 1e3
    missing = set(explorer._read_series(contents, folder)) - set(
        explorer._read_series(changed, folder)
    )
    assert missing == {explorer._key(contents[0], 0)}


def test_recording_a_part_keeps_the_other_cells(kept, campaign):
    folder, contents = kept
    path = folder / f"seam{explorer.SERIES_SUFFIX}"
    whole = path.read_bytes()
    explorer.record(contents[:1], campaign[1], folder)
    assert path.read_bytes() == whole


def test_damaged_series_are_an_error(kept):
    folder, contents = kept
    (folder / f"seam{explorer.SERIES_SUFFIX}").write_bytes(b"no")
    with pytest.raises(LosslabError, match="must have recorded runs over time"):
        explorer._read_series(contents, folder)


# Lessons


def test_lessons_have_their_block_axes_metrics_and_texts(root):
    found = {each["block"]: each for each in lessons.read(root / "docs/how-to/teach.md")}
    blocks = read_config(root / "config/campaigns/lab.yaml")["studies"]["lab"]
    assert [*found] == [name for name in blocks if name != "grid"]
    assert found["bbr"]["metrics"] == ["rtt_loaded_ms", "retransmits"]
    assert found["bbr"]["axes"]["buffer_packets"] == ["10", "100", "1000"]
    assert found["rtt-bias"]["axes"]["flows"] == ["same,rtt_ms=80"]
    assert found["aqm"]["commands"][0].startswith(
        "losslab sweep --algorithm cubic --queue fifo,codel "
    )
    for lesson in found.values():
        assert "?" in lesson["predict"]
        assert "](" not in lesson["predict"] + "".join(lesson["explain"])
    assert "<code>losslab plot --state</code>" in "".join(found["bbr"]["explain"])


def test_blocks_of_the_lessons_have_the_runs_of_their_commands(root):
    blocks = read_config(root / "config/campaigns/lab.yaml")["studies"]["lab"]
    for lesson in lessons.read(root / "docs/how-to/teach.md"):
        for name in ("duration_s", "warmup_s"):
            assert lesson["axes"][name] == [f"{blocks[lesson['block']][name]:g}"]


def test_text_of_a_lesson_cannot_be_html():
    assert lessons.inline("a <b> & `c<d` *e* [f](g)") == (
        "a &lt;b&gt; &amp; <code>c&lt;d</code> <em>e</em> f"
    )


def test_page_without_lessons_is_refused(tmp_path):
    (tmp_path / "page.md").write_text("# Title\n\n## Section\n\nText.\n")
    with pytest.raises(LosslabError, match="found no section with"):
        lessons.read(tmp_path / "page.md")
