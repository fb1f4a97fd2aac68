"""Show that `losslab check` and `losslab bisect` report changes with an effect, and no others.

    python -m bench.check                        all three parts, an hour on two cores
    python -m bench.check neutral --count 10     changes without effect report nothing
    python -m bench.check planted                mutations are reported with the right cells
    python -m bench.check bisect                 planted commits are found in trees of 64

Changes without effect are drawn from a seed: comments, blank lines and spaces, renamed locals,
equivalent statements, and another order of functions or of the build. A mutation of an algorithm
must change the cells in which its statement certainly acts, at least one cell, and only cells in
which one of the algorithm's flows runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.instrument import kernel, kernels, kerneltree
from losslab.instrument.archive import unpinned_allowed

NEUTRAL, COMMITS, TREES = 50, 64, 5
CUBIC, BBR, MAKEFILE = (f"net/ipv4/{name}" for name in ("tcp_cubic.c", "tcp_bbr.c", "Makefile"))
CELLS = [f"{s}/{a}" for s in ("loss", "deep", "fast", "shared", "short", "steps")
         for a in ("cubic", "bbr")]  # fmt: skip
# Cells with a flow of the algorithm: `shared` has a CUBIC flow in any case.
OF = {
    CUBIC: {cell for cell in CELLS if cell.endswith("cubic")} | {"shared/bbr"},
    BBR: {cell for cell in CELLS if cell.endswith("bbr")},
}


@dataclass(frozen=True)
class Mutation:
    """A change of one place, and cells in which its statement certainly acts."""

    name: str
    path: str
    before: str
    after: str
    changes: frozenset[str]

    def applied(self, text: str) -> str:
        """Return a source with the mutation."""
        assert text.count(self.before) == 1, f"{self.name}: {text.count(self.before)} places"
        return text.replace(self.before, self.after)


MUTATIONS = [
    Mutation("constant: beta 0.7 to 0.5", CUBIC, "beta __read_mostly = 717;",
             "beta __read_mostly = 512;", frozenset({"loss/cubic", "fast/cubic", "shared/bbr"})),
    Mutation("missing branch: no fast convergence", CUBIC,
             "tcp_snd_cwnd(tp) < ca->last_max_cwnd && fast_convergence",
             "0 && fast_convergence", frozenset({"loss/cubic"})),
    Mutation("off by one: samples of HyStart", CUBIC, "ca->sample_cnt < HYSTART_MIN_SAMPLES",
             "ca->sample_cnt <= HYSTART_MIN_SAMPLES", frozenset()),
    Mutation("wrong sign: above the origin", CUBIC,
             "bic_target = ca->bic_origin_point + delta;",
             "bic_target = ca->bic_origin_point - delta;", frozenset()),
    Mutation("constant: gain of cwnd 2 to 3", BBR, "bbr_cwnd_gain  = BBR_UNIT * 2;",
             "bbr_cwnd_gain  = BBR_UNIT * 3;", frozenset(OF[BBR])),
    Mutation("off by one: rounds until the pipe is full", BBR, "bbr_full_bw_cnt = 3;",
             "bbr_full_bw_cnt = 2;", frozenset({"deep/bbr", "fast/bbr"})),
    Mutation("missing statement: cwnd is not rounded up", BBR,
             "\tcwnd = (cwnd + 1) & ~1U;\n", "", frozenset({"loss/bbr"})),
    Mutation("constant: pacing margin 1 % to 2 %", BBR, "bbr_pacing_margin_percent = 1;",
             "bbr_pacing_margin_percent = 2;", frozenset(OF[BBR])),
]  # fmt: skip

# Locals of one function each, which nothing else is called like.
LOCALS = {
    CUBIC: ("bic_target", "max_cnt", "offs", "threshold", "shift"),
    BBR: ("segs", "is_full_length", "expected_acked", "mss", "bytes"),
}
EQUIVALENT = {
    CUBIC: [("ca->tcp_cwnd++;", "ca->tcp_cwnd += 1;"), ("ca->sample_cnt++;", "++ca->sample_cnt;"),
            ("ca->found = 1;", "ca->found = 1U;")],
    BBR: [("cwnd += 2;", "cwnd = cwnd + 2;"), ("rate *= gain;", "rate = rate * gain;")],
}  # fmt: skip
FUNCTION = re.compile(r"^(?:__bpf_kfunc )?static [^;=]*\n\{\n.*?^\}\n\n", re.M | re.S)


def sources() -> dict[str, str]:
    """Return the files of the kernel that are changed here, by path."""
    kept = kernel.kept_objects(kernels.default(), unpinned_allowed(False))
    with kerneltree.own_files(kept) as tree:
        found = {path: (tree / path).read_text() for path in (CUBIC, BBR)}
    return found | {MAKEFILE: (kept / kerneltree.MAKEFILE).read_text()}


def comment(text: str, path: str, draw: random.Random) -> str:
    """Insert comments of one to five lines before functions."""
    starts = [found.start() for found in FUNCTION.finditer(text)]
    lines = "".join(f" * line {n}\n" for n in range(draw.randint(1, 5)))
    at = draw.choice(starts)
    return f"{text[:at]}/*\n{lines} */\n{text[at:]}"


def spaces(text: str, path: str, draw: random.Random) -> str:
    """Add blank lines and spaces at the ends of lines."""
    lines = text.split("\n")
    for _ in range(10):
        at = draw.randrange(len(lines))
        if not lines[at].endswith("\\") and not lines[at].startswith(("#", '"')):
            lines[at] += draw.choice((" ", "\t", "\n"))
    return "\n".join(lines)


def renamed(text: str, path: str, draw: random.Random) -> str:
    """Rename a local."""
    known = [name for name in LOCALS[path] if re.search(rf"\b{name}\b", text)]
    name = draw.choice(known or sorted(set(re.findall(r"\bits_\d+\b", text))))
    return re.sub(rf"\b{name}\b", f"its_{draw.randrange(100_000)}", text)


def equivalent(text: str, path: str, draw: random.Random) -> str:
    """Write a statement in another way."""
    pairs = [*EQUIVALENT[path], *((after, before) for before, after in EQUIVALENT[path])]
    before, after = draw.choice([pair for pair in pairs if pair[0] in text])
    return text.replace(before, after)


def reordered(text: str, path: str, draw: random.Random) -> str:
    """Define a function later, after the one that follows it and does not call it."""
    found = list(FUNCTION.finditer(text))
    pairs = [
        (one, other) for one, other in itertools.pairwise(found)
        if one.end() == other.start() and _name(one[0]) not in other[0]
    ]  # fmt: skip
    one, other = draw.choice(pairs)
    return text[: one.start()] + other[0] + one[0] + text[other.end() :]


def _name(function: str) -> str:
    found = re.search(r"(\w+)\(", function)
    assert found
    return found[1]


def build_order(text: str, path: str, draw: random.Random) -> str:
    """Compile and link congestion controls in another order."""
    lines = text.splitlines(keepends=True)
    own = [n for n, line in enumerate(lines) if line.startswith("obj-$(CONFIG_TCP_CONG_")]
    shuffled = [lines[n] for n in own]
    draw.shuffle(shuffled)
    for n, line in zip(own, shuffled, strict=True):
        lines[n] = line
    return "".join(lines)


KINDS: list[Callable[[str, str, random.Random], str]] = [
    comment, spaces, renamed, equivalent, reordered, build_order,
]  # fmt: skip


def neutral(number: int, texts: dict[str, str]) -> tuple[str, str, str]:
    """Return a change without effect: its kind, its path and the file's text."""
    kind, draw = KINDS[number % len(KINDS)], random.Random(number)
    path = MAKEFILE if kind is build_order else (CUBIC, BBR)[number // len(KINDS) % 2]
    return kind.__name__, path, kind(texts[path], path, draw)


def losslab(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of losslab."""
    command = [sys.executable, "-m", "losslab.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def check(texts: dict[str, str], out: Path, baseline: Path, *more: str) -> dict[str, object]:
    """Run `losslab check` on changed files, texts by path; return its report."""
    out.mkdir()
    change = []
    for path, text in texts.items():
        file = out / Path(path).name
        file.write_text(text)
        change.append(f"{path}={file}")
    done = losslab("check", *change, "--baseline", baseline, "--out", out, "--json", *more)
    if done.returncode not in (0, 1) or not done.stdout:
        raise SystemExit(f"check: error: {done.stderr}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def neutral_part(folder: Path, options: argparse.Namespace) -> int:
    """Check changes without effect; return how many were reported."""
    own, wrong, same = sources(), 0, 0
    for first in range(0, options.count, options.at_once):
        texts, kinds = dict(own), []
        numbers = range(first, min(first + options.at_once, options.count))
        for number in numbers:
            kind, path, text = neutral(number, texts)
            assert text != texts[path], f"{kind} {number} changes nothing"
            texts[path] = text
            kinds.append(f"{kind} of {Path(path).name}")
        changed_texts = {path: text for path, text in texts.items() if text != own[path]}
        found = check(changed_texts, folder / f"{first}", folder / "baseline.json", *options.more)
        changed, all_same = found["changed"], found["same_kernel"] == found["cells"]
        wrong += len(numbers) * bool(changed)
        same += len(numbers) * all_same
        how = "the kernel has the same binary" if all_same else f"{found['runs']} runs measured"
        cells = [row["cell"] for row in changed]  # type: ignore[attr-defined]
        state = f"REPORTED: {cells}" if cells else "nothing"
        print(f"{first:3} {', '.join(kinds)}: {how}: {state}", flush=True)
    print(f"{options.count - wrong} of {options.count} changes without effect report nothing, "
          f"{options.at_once} in a check; {same} leave the kernel's binary as it was")  # fmt: skip
    return wrong


def planted_part(folder: Path, options: argparse.Namespace) -> int:
    """Check mutations; return how many were not reported, or with wrong cells."""
    texts, wrong, times = sources(), 0, []
    for number, its in enumerate(MUTATIONS):
        begin = time.monotonic()
        found = check({its.path: its.applied(texts[its.path])}, folder / f"mutation-{number}",
                      folder / "baseline.json", *options.more)  # fmt: skip
        times.append(time.monotonic() - begin)
        rows: list[dict[str, object]] = found["changed"]  # type: ignore[assignment]
        changed = {str(row["cell"]) for row in rows}
        moved = sum(1 for row in rows for d in row["differences"] if d["verdict"])  # type: ignore
        expected = its.changes & {*found["cells"]}  # type: ignore[misc]
        right = bool(changed) and expected <= changed <= OF[its.path]
        wrong += not right
        print(f"{_word(right)}  {its.path} {its.name}: {len(changed)} cells, {moved} metrics "
              f"moved, {times[-1]:.0f} s: {' '.join(sorted(changed))}", flush=True)  # fmt: skip
    print(f"{len(MUTATIONS) - wrong} of {len(MUTATIONS)} mutations are reported with the right "
          f"cells; a check took {min(times):.0f} to {max(times):.0f} s (n = {len(times)}), with "
          "the baseline in the first")  # fmt: skip
    return wrong


def _word(right: bool) -> str:
    return "right" if right else "WRONG"


def tree(folder: Path, planted: Mutation, at: int, commits: int, seed: int) -> list[str]:
    """Make a repository whose commits have no effect but one; return the commits."""
    texts = {path: text for path, text in sources().items() if path != MAKEFILE}
    draw = random.Random(seed)

    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    folder.mkdir()
    git("init", "--quiet")
    found = []
    for number in range(commits):
        path = draw.choice((CUBIC, BBR))
        if number == at:
            texts[planted.path] = planted.applied(texts[planted.path])
        elif number:
            text = draw.choice((comment, spaces))(texts[path], path, draw)
            # The mutation must still find its place.
            if number > at or path != planted.path or planted.before in text:
                texts[path] = text
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--allow-empty", "--message", f"Commit {number}")
        found.append(git("rev-parse", "HEAD"))
    return found


def bisect_part(folder: Path, options: argparse.Namespace) -> int:
    """Search for planted commits; return how many were not found."""
    wrong, draw = 0, random.Random(32)
    for number, planted in enumerate(draw.sample(MUTATIONS, options.trees)):
        at = draw.randrange(1, options.commits)
        repository = folder / f"tree-{number}"
        commits = tree(repository, planted, at, options.commits, number)
        begin = time.monotonic()
        done = losslab("bisect", "--git", repository, "--good", commits[0], "--out",
                       folder / f"bisect-{number}", "--json", *options.more)  # fmt: skip
        if done.returncode:
            print(f"WRONG  {planted.name}: {done.stderr}", flush=True)
            wrong += 1
            continue
        found = json.loads(done.stdout)
        right = found["step"] == commits[at] and found["cell"] in OF[planted.path]
        wrong += not right
        print(f"{_word(right)}  commit {at} ({planted.name}), cell {found['cell']}: "
              f"{found['title']}, {time.monotonic() - begin:.0f} s; "
              f"{found['first_difference'][0]}", flush=True)  # fmt: skip
    print(f"{options.trees - wrong} of {options.trees} planted commits are found in trees of "
          f"{options.commits}")  # fmt: skip
    return wrong


PARTS = {"neutral": neutral_part, "planted": planted_part, "bisect": bisect_part}


def _chosen(names: Sequence[str]) -> Iterator[Callable[[Path, argparse.Namespace], int]]:
    yield from (PARTS[name] for name in names or PARTS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; return 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.check", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    parser.add_argument("--count", type=int, default=NEUTRAL, help="changes without effect")
    parser.add_argument("--at-once", type=int, default=1, help="changes without effect in a check")
    parser.add_argument("--commits", type=int, default=COMMITS, help="commits of a tree")
    parser.add_argument("--trees", type=int, default=TREES, help="trees")
    parser.add_argument("--only", action="append", default=[], help="cells, as of `losslab check`")
    options = parser.parse_args(arguments)
    options.more = [word for name in options.only for word in ("--only", name)]
    with tempfile.TemporaryDirectory(prefix="losslab-bench-check-") as name:
        return 1 if sum(part(Path(name), options) for part in _chosen(options.parts)) else 0


if __name__ == "__main__":
    sys.exit(main())
