"""Input that makes no sense, or is meant to harm: refused before anything runs, with words."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.faults.kit import LOSSLAB, QUICK, ROOT, SNAKEMAKE, Outcome, first_line

CAMPAIGN = "studies: {loss: {main: {replicates: 2, duration_s: 1, warmup_s: 0}}}\n"
# No answer to wrong input takes longer on a busy machine.
LIMIT_S = 60


@dataclass(frozen=True)
class Input:
    """Wrong input: what a user types, and what the error must name.

    Attributes:
        done: What the user does, in words.
        words: The arguments of losslab, or of Snakemake for a campaign's file; `{file}` is the
            file's path.
        found: A word of the error.
        content: The file's content, if there is one.
        name: The file's name; a campaign's ends in .yaml.
        output: Where standard output goes.
    """

    done: str
    words: tuple[str, ...]
    found: str
    content: bytes = b""
    name: str = "input"
    output: str = ""


def _campaign(done: str, content: bytes, found: str) -> Input:
    # As `make report` reads it, before Snakemake, which has tracebacks for some of this.
    return Input(done, ("cells", "--config", "{file}"), found, content)


def _aliases(levels: int) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return ("\n".join(lines) + "\n" + CAMPAIGN).encode()


INPUTS = {
    "latin_1_letter": _campaign(
        "a Latin-1 letter in a campaign's comment", b"# caf\xe9\n" + CAMPAIGN.encode(), "UTF-8"
    ),
    "utf_16_campaign": _campaign("a campaign in UTF-16", CAMPAIGN.encode("utf-16"), "UTF-8"),
    "repeated_key": Input(
        "a key twice in a campaign of Snakemake's",
        ("-n", "--configfile", "{file}"),
        "twice",
        CAMPAIGN.encode() + b"studies: {}\n",
        "campaign.yaml",
    ),
    "alias_bomb": _campaign("nine levels of YAML aliases", _aliases(9), "must"),
    "deep_campaign": _campaign("100,000 brackets in a campaign", b"a: " + b"[" * 100_000, "must"),
    "manifest_that_is_null": Input(
        "`rerun` of a manifest that is null", ("rerun", "{file}"), "manifest", b"null"
    ),
    "manifest_with_endless_seed": Input(
        "`rerun` of a manifest with seed 1e400", ("rerun", "{file}"), "must", b'{"seed": 1e400}'
    ),
    "plot_of_garbage": Input("`plot` of garbage", ("plot", "{file}"), "must", b"\x00\xff"),
    "endless_sweep": Input(
        "`sweep --loss-percent 0:1000000000`",
        ("sweep", "--algorithm", "bbr", "--loss-percent", "0:1000000000", "--out", "{file}-sweep"),
        "must",
    ),
    "flows_that_are_no_number": Input(
        "`--flows` with nan",
        ("measure", *QUICK, "--flows", "cubic*nan", "--out", "{file}-run"),
        "found",
    ),
    "full_output": Input(
        "standard output on a full disk", ("cells",), "No space", output="/dev/full"
    ),
}


def _fault(wrong: Input) -> Callable[[Path], Outcome]:
    def fault(folder: Path) -> Outcome:
        file = folder / wrong.name
        if wrong.content:
            file.write_bytes(wrong.content)
        before = sorted(folder.rglob("*"))
        command = LOSSLAB
        if wrong.name.endswith(".yaml"):
            command = [*SNAKEMAKE, "--directory", str(folder)]
        words = [word.format(file=file) for word in wrong.words]
        said = folder / "said"
        with Path(wrong.output or said).open("w") as output:
            done = subprocess.run(
                [*command, *words], stdout=output, stderr=subprocess.PIPE, text=True,
                cwd=ROOT, timeout=LIMIT_S, check=False,
            )  # fmt: skip
        told = done.stderr + (said.read_text() if said.exists() else "")
        said.unlink(missing_ok=True)
        after = [path for path in sorted(folder.rglob("*")) if ".snakemake" not in path.parts]
        return Outcome(
            wrong.done,
            f"exit {done.returncode}: {first_line(told, wrong.found)}",
            "nothing" if after == before else "files were left behind",
            good=done.returncode in (1, 2) and wrong.found in told and "Traceback" not in told,
        )

    return fault


FAULTS = {name: _fault(wrong) for name, wrong in INPUTS.items()}
