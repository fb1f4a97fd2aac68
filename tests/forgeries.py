"""Forgeries of an artifact: each edits files and then computes every digest again.

`python -m tests.forgeries` prints the table of docs/how-to/artifact.md.
"""

import argparse
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from losslab.artifact import commits, results
from losslab.campaign import integrity
from losslab.campaign.folder import HOST_FILE, MANIFEST_FILE, write_json

CUBIC = "cubic_loss0_symmetric_iperf3_rtt10_offloads-off_rate10_buffer20"
LOSSY = CUBIC.replace("loss0", "loss1")
BBR = CUBIC.replace("cubic", "bbr")
SLOW = "slow_cubic_loss0_symmetric_web_rtt10_offloads-off_rate0.01_buffer20"


class Forger:
    """Editor of an unpacked archive, who also recomputes the digests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.results = root / "results"

    def cell(self, name: str = CUBIC) -> Path:
        return self.results / "cells/tiny" / name

    def replicate(self, number: int = 0, name: str = CUBIC) -> Path:
        return self.cell(name) / str(number)

    def substitute(self, path: str | Path, pattern: str, text: str) -> None:
        """Replace the first match in a file."""
        path = self.root / path
        old = path.read_bytes()
        new = re.sub(pattern.encode(), text.encode(), old, count=1, flags=re.MULTILINE)
        assert new != old, f"{path} has no {pattern}"
        path.write_bytes(new)

    def manifest(self, change: Callable[[dict], object], number: int = 0, name: str = CUBIC):
        """Change a manifest and all digests that depend on it."""
        path = self.replicate(number, name) / MANIFEST_FILE
        content = json.loads(path.read_text())
        change(content)
        write_json(content, path)
        self.seal(number, name)

    def seal(self, number: int = 0, name: str = CUBIC) -> None:
        """Write the digests of a replicate again, and its cell's summary."""
        folder = self.replicate(number, name)
        content = json.loads((folder / MANIFEST_FILE).read_text())
        write_json(content | integrity.listed(folder), folder / MANIFEST_FILE)
        host = json.loads((folder / HOST_FILE).read_text())
        plain = {key: host[key] for key in host if key not in (integrity.FILES, integrity.SELF)}
        write_json(integrity.sealed(plain, folder), folder / HOST_FILE)
        self.summarise(name)

    def summarise(self, name: str = CUBIC, **changes: object) -> None:
        """Write cell.json from the replicates in its folder."""
        folder = self.cell(name)
        content = json.loads((folder / "cell.json").read_text())
        numbers = sorted(int(path.parent.name) for path in folder.glob(f"*/{MANIFEST_FILE}"))
        rows = [
            integrity.replicate_row(*integrity.read_replicate(folder / str(number)))
            for number in numbers
        ]
        write_json(content | {"replicates": rows} | changes, folder / "cell.json")

    def list_files(self) -> None:
        """Write the archive's list of digests again."""
        paths = [
            Path(name)
            for name in results.contents(self.root)
            if name not in (str(results.DIGESTS), str(results.SIGNATURE))
            and not (self.root / name).is_symlink()
        ]
        results.write_digests(self.root, paths, self.root / results.DIGESTS)


@dataclass(frozen=True)
class Forgery:
    """An edit, and the stage and path of the finding."""

    words: str
    edit: Callable[[Forger], object]
    stage: str
    path: str  # a regular expression, like the next field
    what: str
    lists_anew: bool = True


def every_goodput(f: Forger) -> None:
    for path in f.results.rglob("cell.json"):
        content = json.loads(path.read_text())
        for row in content["replicates"]:
            row["summary"] |= {"goodput_mbit": 999}
        write_json(content, path)
    f.substitute("results/claims.csv", "tiny-cubic", "tiny-bbr")


def without_replicate(f: Forger) -> None:
    last = max(int(path.name) for path in f.cell().iterdir() if path.name.isdigit())
    shutil.rmtree(f.replicate(last))
    f.summarise()


def one_replicate_unlisted(f: Forger) -> None:
    content = json.loads((f.cell() / "cell.json").read_text())
    content["replicates"] = content["replicates"][:-1]
    write_json(content, f.cell() / "cell.json")


def one_replicate_twice(f: Forger) -> None:
    count = len(list(f.cell().glob(f"*/{MANIFEST_FILE}")))
    shutil.copytree(f.replicate(), f.replicate(count))
    f.summarise()


def swap_seeds(f: Forger) -> None:
    one, other, aside = f.replicate(0), f.replicate(1), f.cell() / "aside"
    os.rename(one, aside)
    os.rename(other, one)
    os.rename(aside, other)
    f.summarise()


def swap_cells(f: Forger) -> None:
    shutil.rmtree(f.replicate(0))
    shutil.copytree(f.replicate(0, BBR), f.replicate(0))
    f.summarise()


def relabel(f: Forger) -> None:
    """Relabel BBR's replicate of the same seed as CUBIC's."""
    swap_cells(f)
    f.manifest(lambda m: m["cell"].update(algorithm="cubic"))


def other_condition(f: Forger) -> None:
    """Relabel a replicate with loss as one without."""
    shutil.rmtree(f.replicate(0))
    shutil.copytree(f.replicate(0, LOSSY), f.replicate(0))
    f.manifest(lambda m: m["cell"].update(loss_percent=0.0))


def whole_cell_elsewhere(f: Forger) -> None:
    """Replace the cell without loss by the one with loss, including manifests."""
    shutil.rmtree(f.cell())
    shutil.copytree(f.cell(LOSSY), f.cell())
    f.summarise(cell=CUBIC)


def lose(f: Forger) -> None:
    def change(manifest: dict) -> None:
        for key in ("plan", "observed", "machine"):
            del manifest[key]
        manifest |= {"lost": True, "valid": False, "reasons": ["lost"], "summary": {}}

    last = max(int(path.name) for path in f.cell().iterdir() if path.name.isdigit())
    for path in f.replicate(last).iterdir():
        if path.name not in (MANIFEST_FILE, HOST_FILE):
            path.unlink()
    f.manifest(change, last)


def cell_gone(f: Forger) -> None:
    shutil.rmtree(f.cell(BBR))


def cell_added(f: Forger) -> None:
    shutil.copytree(f.cell(BBR), f.cell("another"))
    f.summarise("another", cell="another")


def another_source(f: Forger) -> None:
    f.substitute("src/losslab/study/stopping.py", "/ 2 / abs", "/ 3 / abs")


def new_commit(f: Forger) -> None:
    """Change a source, and commit it."""
    another_source(f)
    names = [name for name in results.contents(f.root) if results.is_source(name)]
    tree = commits.tree_of(f.root, map(Path, names), 40)
    text = re.sub(rb"^tree .*", f"tree {tree}".encode(), (f.root / "COMMIT.text").read_bytes())
    (f.root / "COMMIT.text").write_bytes(text)
    (f.root / "COMMIT").write_text(commits.name_of("commit", text, 40) + "\n")


def key_twice(f: Forger) -> None:
    path = f.replicate() / MANIFEST_FILE
    f.substitute(path, r'^ "seed"', ' "seed": 7,\n "seed"')
    host = json.loads((path.parent / HOST_FILE).read_text())
    plain = {key: host[key] for key in host if key not in (integrity.FILES, integrity.SELF)}
    write_json(integrity.sealed(plain, path.parent), path.parent / HOST_FILE)
    f.summarise()


def raw(name: str, pattern: str, text: str) -> Callable[[Forger], object]:
    """Edit a raw file of a replicate, and seal it."""

    def edit(f: Forger) -> None:
        f.substitute(f.replicate() / name, pattern, text)
        f.seal()

    return edit


def manifest(change: Callable[[dict], object], name: str = CUBIC) -> Callable[[Forger], object]:
    return lambda f: f.manifest(change, 0, name)


def made(name: str, pattern: str, text: str) -> Callable[[Forger], object]:
    """Edit a file that was made from the cells."""
    return lambda f: f.substitute(f"results/{name}", pattern, text)


def add(name: str) -> Callable[[Forger], object]:
    return lambda f: (f.root / name).write_text("more\n")


def link(name: str) -> Callable[[Forger], object]:
    def edit(f: Forger) -> None:
        target = f.root.parent / "outside"
        (f.root / name).rename(target)
        (f.root / name).symlink_to(target)

    return edit


def drop_from_campaign(f: Forger) -> None:
    path = f.results / "campaign.json"
    content = json.loads(path.read_text())
    del content["config"]["studies"]["tiny"]["slow"]
    write_json(content, path)


def balanced_counters(m: dict) -> None:
    m["observed"]["traffic"]["retransmits"] += 1


REPLICATE = r"cells/tiny/cubic_loss0.*/0"
A_CELL = r"cells/tiny/cubic_loss0[^/]*"
FORGERIES = (
    # Values.
    Forgery("every goodput in every cell.json", every_goodput, "damage", A_CELL, "values differ"),
    Forgery("a metric in the manifest and cell.json",
            manifest(lambda m: m["summary"].update(goodput_mbit=9.99)), "cells", REPLICATE,
            r"goodput_mbit 9\.99, but"),
    Forgery("a metric that no raw file has",
            manifest(lambda m: m["summary"].update(made_up=1.0)), "cells", REPLICATE,
            "made_up 1.0, but none"),
    Forgery("intervals.csv", raw("intervals.csv", r",\d\.\d+$", ",9.9"), "cells", REPLICATE,
            "intervals.csv does not follow"),
    Forgery("tcp.csv", raw("tcp.csv", r"^(1\.\d+,40001,.*),\d+$", r"\1,99999999"),
            "cells", REPLICATE, "goodput_mbit"),
    Forgery("ping.csv", raw("ping.csv", r"^(1\.\d+),.*", r"\1,500.0"), "cells", REPLICATE,
            "rtt_loaded_ms"),
    Forgery("ping_idle.csv", raw("ping_idle.csv", r",\d.*", ",5.0"), "cells", REPLICATE, "rtt_ms"),
    Forgery("queue.csv", raw("queue.csv", r"^(1\.\d+),\d+", r"\1,9999"), "cells", REPLICATE,
            "queue_max_packets"),
    Forgery("the receiver's log",
            raw("receiver.log", r'("sum":\s*\{[^}]*"bytes":\s*)\d+', r"\g<1>99999999"),
            "cells", REPLICATE, "bytes_received|received_mbit"),
    Forgery("a raw file, where no number depends on it",
            raw("sender.log", r'"cookie":\s*"\w', '"cookie": "0'), "rerun", REPLICATE,
            "sender.log: another file"),
    Forgery("a counter in the manifest, where no number depends on it",
            manifest(balanced_counters), "rerun", REPLICATE, "manifest.json: another observed"),
    # Validity.
    Forgery("an invalid replicate made valid",
            manifest(lambda m: m.update(valid=True, reasons=[]), SLOW), "cells",
            "cells/tiny/slow.*/0", "cannot be summarised: curl must get|missing|must"),
    Forgery("a valid replicate made invalid",
            manifest(lambda m: m.update(valid=False, reasons=["RTT must be 10 ms"])), "rerun",
            REPLICATE, "manifest.json: another reasons"),
    Forgery("a valid replicate made lost", lose, "rerun", "cells/tiny/cubic_loss0.*", "one side"),
    Forgery("valid with a violation", manifest(lambda m: m.update(reasons=["made up"])), "cells",
            REPLICATE, "valid with violations"),
    # Replicates and cells.
    Forgery("a replicate dropped", without_replicate, "cells", A_CELL, "stopping rule"),
    Forgery("a replicate dropped from cell.json alone", one_replicate_unlisted, "cells", A_CELL,
            "not in cell.json|stopping rule"),
    Forgery("a replicate twice", one_replicate_twice, "cells", "cells/tiny/cubic_loss0.*", "seed"),
    Forgery("two replicates swapped", swap_seeds, "cells", REPLICATE, "seed"),
    Forgery("another cell's replicate", swap_cells, "damage", A_CELL, "the condition differs"),
    Forgery("another algorithm's replicate, relabelled", relabel, "cells", REPLICATE,
            "the plan does not follow"),
    Forgery("a replicate of another loss, relabelled", other_condition, "cells", REPLICATE, "seed"),
    Forgery("a whole cell of another condition", whole_cell_elsewhere, "cells", A_CELL,
            "cell.json does not follow"),
    Forgery("a cell removed", cell_gone, "damage", "cells/tiny/bbr_loss0.*", "is unreadable"),
    Forgery("a cell added", cell_added, "cells", "cells/tiny/another", "not among"),
    Forgery("another instrument",
            manifest(lambda m: m["instrument"]["kernel"].update(hash="0" * 16)), "cells", REPLICATE,
            "kernel must be"),
    Forgery("another code", manifest(lambda m: m["fingerprint"]["parts"].update(code="0" * 16)),
            "cells", REPLICATE, "code in the fingerprint differs"),
    Forgery("a fingerprint of other parts",
            manifest(lambda m: m["fingerprint"].update(digest="0" * 16)), "cells", REPLICATE,
            "digest does not follow"),
    Forgery("a manifest with a key twice", key_twice, "cells", REPLICATE, "not written by losslab"),
    # Made from the cells.
    Forgery("claims.csv", made("claims.csv", "tiny-cubic", "tiny-bbr"), "tables",
            "claims.csv", "differs from"),
    Forgery("a statistic", made("summary/tiny.csv", r",9\.\d", ",8.8"), "tables",
            "summary/tiny.csv", "differs from"),
    Forgery("a ratio", made("summary/tiny_ratios.csv", r"\d\.\d{3}", "7.777"), "tables",
            "summary/tiny_ratios.csv", "differs from"),
    Forgery("a table", made("tables/tiny_goodput.csv", r",9\.\d", ",8.8"), "tables",
            "tables/tiny_goodput.csv", "differs from"),
    Forgery("a figure's data", made("figures/tiny_goodput.csv", r",9\.\d", ",8.8"), "tables",
            r"figures/tiny_goodput.csv", "differs from"),
    Forgery("a figure", made("figures/tiny_goodput.svg", r"circle cx='\d", "circle cx='9"),
            "tables", "figures/tiny_goodput.svg", "differs from"),
    Forgery("the report's page", made("report/report.html", "reproduced", "proved"), "tables",
            "report/report.html", "differs from"),
    Forgery("the report's PDF", made("report/report.pdf", r"%%EOF", "%%EOF\n"), "tables",
            "report/report.pdf", "differs from"),
    Forgery("the run explorer", made("report/explorer.html", "</body>", "9</body>"), "tables",
            "report/explorer.html", "differs from"),
    Forgery("a table removed", lambda f: (f.results / "tables/tiny_goodput.csv").unlink(), "tables",
            "tables/tiny_goodput.csv", "missing"),
    Forgery("a table added", add("results/tables/tiny_more.csv"), "tables",
            "tables/tiny_more.csv", "not made by"),
    Forgery("a file of no campaign", add("results/more.csv"), "cells", "more.csv", "not among"),
    Forgery("a file beside cells", add("results/cells/tiny/more.csv"), "cells",
            "cells/tiny/more.csv", "not among"),
    Forgery("a campaign that no source has",
            lambda f: (f.root / "campaign").write_text("../tiny.yaml\n"), "sources", "campaign",
            "a file of the sources"),
    Forgery("a block dropped from the recorded campaign", drop_from_campaign, "sources",
            "results/campaign.json", "not the campaign"),
    Forgery("another campaign", lambda f: (f.root / "campaign").write_text("config/quick.yaml\n"),
            "sources", "results/campaign.json", "not the campaign"),
    # Sources and files.
    Forgery("a source", another_source, "sources", "COMMIT", "other files than those of commit"),
    Forgery("a source, and a commit that has it", new_commit, "sources",
            "src/losslab/study/stopping.py", "verifying program"),
    Forgery("a source added", add("src/losslab/sitecustomize.py"), "sources", "COMMIT",
            "other files"),
    Forgery("a source that can be run", lambda f: (f.root / "README.md").chmod(0o755), "sources",
            "COMMIT", "other files"),
    Forgery("another commit's name", lambda f: (f.root / "COMMIT").write_text("0" * 40 + "\n"),
            "sources", "COMMIT", "another commit"),
    Forgery("a file that is not listed", add("results/tables/more.csv"), "files",
            "results/tables/more.csv", "not listed", lists_anew=False),
    Forgery("a hidden file that is not listed", add(".more"), "files", ".more",
            "not listed", lists_anew=False),
    Forgery("a file removed", lambda f: (f.results / "claims.csv").unlink(), "files",
            "results/claims.csv", "missing", lists_anew=False),
    Forgery("a file changed", made("claims.csv", "tiny-cubic", "tiny-bbr"), "files",
            "results/claims.csv", "changed", lists_anew=False),
    Forgery("a file behind a link", link("results/claims.csv"), "files", "results/claims.csv",
            "not a regular file"),
    Forgery("a folder behind a link", link("results/tables"), "files", "results/tables",
            "not a regular file"),
)  # fmt: skip


def table() -> str:
    """Return a Markdown table of the forgeries by the stage that finds them."""
    lines = ["| what is forged | found by | at |", "|---|---|---|"]
    for each in FORGERIES:
        cell = "its replicate" if each.path.endswith("/0") else "its cell"
        below = "results/" if each.stage in ("cells", "tables") else ""
        place = cell if "*" in each.path else f"`{below}{each.path}`"
        lines.append(f"| {each.words} | {each.stage} | {place} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    argparse.ArgumentParser(prog="python -m tests.forgeries", description=__doc__).parse_args()
    print(table(), end="")
