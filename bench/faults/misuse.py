"""Concurrent runs, invalid configurations, and options that name missing things."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from bench.faults.kit import (
    LOSSLAB,
    QUICK,
    REPLICATES,
    ROOT,
    SNAKEMAKE,
    WAIT_S,
    Outcome,
    SkippedError,
    campaign,
    cell_command,
    finished_replicates,
    first_line,
    run,
    wait_for,
)
from losslab.instrument import kernel


def two_workflows(folder: Path) -> Outcome:
    """A second Snakemake in the folder of a running one."""
    command = campaign(folder)
    first = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(lambda: list((folder / "results").rglob(".losslab-*")), "the first guest")
    # Otherwise it would finish while the second one starts.
    first.send_signal(signal.SIGSTOP)
    try:
        second = run(*command)
    finally:
        first.send_signal(signal.SIGCONT)
    status = first.wait(timeout=WAIT_S)
    words = second.stdout + second.stderr
    return Outcome(
        "a second workflow in the folder of a running one",
        f"refused: {first_line(words, 'another')}",
        good=status == 0 and second.returncode != 0 and "another" in words
        and len(finished_replicates(folder)) == REPLICATES,
    )  # fmt: skip


def two_jobs(folder: Path) -> Outcome:
    """Two jobs that measure the same cell."""
    command = cell_command(folder, 2)
    both = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    words = [process.communicate(timeout=WAIT_S)[0] for process in both]
    kept = [text.count("kept") for text in words]
    return Outcome(
        "two jobs that measure the same cell at once",
        "one measured; the other waited and found both replicates finished",
        good=all(p.returncode == 0 for p in both) and sorted(kept) == [0, 2],
    )


def unknown_kernel_option(folder: Path) -> Outcome:
    """A kernel configuration with an unknown symbol, compared with the built one."""
    built = kernel.existing()
    if built is None:
        raise SkippedError("no kernel is built")
    fragment = kernel.RECIPE / "fragment.config"
    wanted = fragment.read_text() + "CONFIG_TCP_CONG_NO_SUCH=y\n"
    dropped = kernel.dropped_symbols(wanted, (built / "config").read_text())
    return Outcome(
        "CONFIG_TCP_CONG_NO_SUCH=y in the kernel's fragment",
        f"the build is refused, symbols dropped: {', '.join(dropped)}",
        good=dropped == ["CONFIG_TCP_CONG_NO_SUCH"],
    )


def bad_configuration(folder: Path) -> Outcome:
    """A misspelt key of a configuration."""
    bad = folder / "bad.yaml"
    bad.write_text("studies: {loss: {main: {replicates: 2, duration_s: 1, warm_up: 0}}}\n")
    done = run(*SNAKEMAKE, "-n", "--configfile", bad, "--directory", folder)
    words = done.stdout + done.stderr
    return Outcome(
        "a misspelt key in the configuration",
        f"nothing ran: {first_line(words, 'warm_up')}",
        good=done.returncode != 0
        and "warm_up" in words
        and "Traceback" not in words
        and not (folder / "results").exists(),
    )


def unknown_study(folder: Path) -> Outcome:
    """A study that no campaign has."""
    done = run(*LOSSLAB, "cells", "nope")
    return Outcome(
        "`losslab cells nope`",
        f"exit {done.returncode}: {first_line(done.stderr, 'found nope')}",
        good=done.returncode == 2 and not done.stdout and "calibration" in done.stderr,
    )


def no_number(folder: Path) -> Outcome:
    """A delay of nan."""
    done = run(*LOSSLAB, "measure", *QUICK, "--rtt-ms", "nan", "--out", folder / "out")
    return Outcome(
        "`--rtt-ms nan`",
        f"exit {done.returncode}: {first_line(done.stderr, 'finite number')}",
        good=done.returncode == 2 and "found nan" in done.stderr and not (folder / "out").exists(),
    )
