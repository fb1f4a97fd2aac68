"""Provenance table: instrument, place and time of cells, from their own records."""

from losslab import cli
from losslab.campaign import tables
from losslab.reading import read_rows
from tests import sealed
from tests.unit.study.test_condition import CONDITION

INSTRUMENT = {
    "kernel": {"version": "6.12.1", "patches": ["0001-a.patch", "0002-b.patch"]},
    "image": {"packages": {"iperf3": "3.18-2", "bash": "5.2"}, "packages_sha256": "00112233445566"},
}

HOST = {
    "started_utc": "2026-11-20T23:59:59+00:00", "losslab": "0.1.0", "host_cpu": "A processor",
    "host_kernel": "6.1", "wall_s": 900.0, "git": {"commit": "0123456789abcdef", "dirty": True},
}  # fmt: skip


def cell(folder, name, *instruments, host=HOST):
    path = folder / "results" / "cells" / "x" / name
    for number, instrument in enumerate(instruments):
        manifest = {
            "cell": CONDITION.to_json(), "seed": number, "valid": True, "reasons": [],
            "summary": {}, "instrument": instrument,
        }  # fmt: skip
        sealed.replicate(path / str(number), manifest, **host)
    sealed.cell(path, CONDITION.to_json(), len(instruments), study="x")


def test_provenance_counts_cells_by_part(tmp_path):
    later = HOST | {"started_utc": "2026-11-21T00:00:01+00:00", "git": {}}
    other = {"kernel": {"version": "6.1.2", "patches": ["0009-bbr3.patch"]}}
    cell(tmp_path, "a", INSTRUMENT, INSTRUMENT)
    cell(tmp_path, "b", INSTRUMENT, other, host=later)
    overview = tmp_path / "x_cells.csv"
    rows = [{"study": "x", "block": "main", "cell": name} for name in ("a", "b", "absent", "")]
    tables.write_csv(overview, list(rows[0]), rows)
    out = tmp_path / "origin.csv"
    arguments = ["origin", str(overview), "--results", str(tmp_path / "results")]
    assert cli.main([*arguments, "--out", str(out)]) == 0
    found = {(row["part"], row["what"]): row["cells"] for row in read_rows(out)}
    assert found == {
        ("measured on", "2026-11-20 to 2026-11-21"): "2",
        ("time", "1 h 0 min, the runs one after the other"): "2",
        ("losslab", "0.1.0, commit 0123456789ab with changes"): "1",
        ("losslab", "0.1.0"): "1",
        ("machine", "A processor, Linux 6.1"): "2",
        ("kernel", "Linux 6.12.1 with 2 patches of ours"): "2",
        ("kernel", "Linux 6.1.2 with 1 patches of ours"): "1",
        ("BBR", "version 1, tcp_bbr.c of Linux 6.12.1"): "2",
        ("BBR", "as in 0009-bbr3.patch"): "1",
        ("iperf3", "3.18-2"): "2",
        ("image's packages", "001122334455"): "2",
    }
    assert next(iter(found))[0] == "measured on"
