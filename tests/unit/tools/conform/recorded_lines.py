"""Recorded time lines of the BBR draft's cases, thinned: BBRv3's, with the variables of the suite.

`python tests/unit/tools/conform/recorded_lines.py FOLDER` writes them anew from the folder of
`losslab conform bbr-draft bbr3 --out FOLDER`.
"""

import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from losslab.campaign.results import Replicate
from losslab.repository import ROOT
from losslab.study import studyfiles
from losslab.study.condition import Condition
from losslab.tools.conform import conform, runs, suite
from losslab.tools.conform.timeline import Timeline

NAME = "bbr-draft"
FILE = Path(__file__).with_name("recorded.json.gz")
COMMON = (
    "t_s", "event", "ca_state", "cwnd_packets", "in_flight_packets", "delivered_packets",
    "lost_packets", "sample_packets", "app_limited", "departs_ms", "phase", "max_bw_mbit",
    "min_rtt_ms",
)  # fmt: skip
# Variables that change with each ACK; rows in which only these change are kept one in EVERY.
GRADUAL = {*COMMON, "extra_acked_packets"} - {"event", "ca_state", "lost_packets", "phase"}
EVERY = 40


def cases():
    """Return the cases of the suite."""
    return {case.name: case for case in suite.cases(suite.load(NAME), [])}


def lines():
    """Return the recorded time line of each case."""
    known = cases()
    content = json.loads(gzip.decompress(FILE.read_bytes()))
    return {
        name: Timeline(
            pd.DataFrame(content["rows"][its["rows"]]), Condition.from_json(its["condition"]),
            suite.phases("bbr3"), known[name].groups, known[name].interrupts, its["begin_s"],
        )
        for name, its in content["cases"].items()
    }  # fmt: skip


def thinned(line):
    """Return the rows in which a state changes, or a round begins, and some of the others."""
    words = set(re.findall(r"\w+", studyfiles.suite_path(NAME, ROOT).read_text()))
    rows = line.rows[[*COMMON, *sorted({*line.rows} & words - {*COMMON})]]
    texts = rows.drop(columns=[*GRADUAL & {*rows}]).astype(str).to_numpy()
    kept = np.arange(len(rows)) % EVERY == 0
    kept[1:] |= (texts[1:] != texts[:-1]).any(axis=1)
    kept |= np.roll(kept, -1)
    kept[[*line.round_starts, -1]] = True
    if line.condition.ack_batch_ms:
        kept[:2000] = True  # whole batches
    return rows[kept].round(6)


def main(folder):
    """Write the file from a record and its runs."""
    found, tables = {}, {}
    for row in json.loads((folder / conform.RECORD).read_text())["cases"]:
        its = row["seeds"][0]
        path, case = Path(its["folder"]), cases()[row["case"]]
        condition = Condition.from_json(Replicate(path).manifest["cell"])
        begin_s = its.get("at_s", 0.0)
        line = runs.Runs(folder, 1).line(case, condition, its["seed"], begin_s)
        tables[path.name] = thinned(line).to_dict(orient="list")
        found[row["case"]] = {
            "rows": path.name, "begin_s": begin_s, "condition": condition.to_json(),
        }  # fmt: skip
    text = json.dumps({"cases": found, "rows": tables}, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
