"""Invalid or hostile input: refused with an explanation before anything runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.faults.kit import LOSSLAB, QUICK, ROOT, SNAKEMAKE, Outcome, first_line

CAMPAIGN = "studies: {loss: {main: {replicates: 2, duration_s: 1, warmup_s: 0}}}\n"
# Time limit of an answer to wrong input, on a busy machine.
LIMIT_S = 600


@dataclass(frozen=True)
class Input:
    """Wrong input, and the expected error.

    Attributes:
        done: Description of the user's action.
        words: Arguments of losslab, or of Snakemake for a campaign's file; `{file}` stands for the
            file's path.
        found: Word of the error message.
        content: Content of the file, if there is one.
        name: Name of the file; that of a campaign ends in .yaml.
        output: Destination of standard output.
    """

    done: str
    words: tuple[str, ...]
    found: str
    content: bytes = b""
    name: str = "input"
    output: str = ""


def _campaign(done: str, content: bytes, found: str) -> Input:
    # Like `make report`, which reads it before Snakemake: Snakemake has tracebacks for some errors.
    return Input(done, ("cells", "--config", "{file}"), found, content)


def _aliases(levels: int) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return ("\n".join(lines) + "\n" + CAMPAIGN).encode()


INPUTS = {
    "latin_1_letter": _campaign(
        "a Latin-1 character in a campaign's comment", b"# caf\xe9\n" + CAMPAIGN.encode(), "UTF-8"
    ),
    "utf_16_campaign": _campaign("a campaign in UTF-16", CAMPAIGN.encode("utf-16"), "UTF-8"),
    "repeated_key": Input(
        "a repeated key in a campaign that Snakemake reads",
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
        stdout_file = folder / "said"
        with Path(wrong.output or stdout_file).open("w") as output:
            done = subprocess.run(
                [*command, *words], stdout=output, stderr=subprocess.PIPE, text=True,
                cwd=ROOT, timeout=LIMIT_S, check=False,
            )  # fmt: skip
        text = done.stderr + (stdout_file.read_text() if stdout_file.exists() else "")
        stdout_file.unlink(missing_ok=True)
        after = [path for path in sorted(folder.rglob("*")) if ".snakemake" not in path.parts]
        return Outcome(
            wrong.done,
            f"exit {done.returncode}: {first_line(text, wrong.found)}",
            "nothing" if after == before else "files were left behind",
            good=done.returncode in (1, 2) and wrong.found in text and "Traceback" not in text,
        )

    return fault


FAULTS = {name: _fault(wrong) for name, wrong in INPUTS.items()}
