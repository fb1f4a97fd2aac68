"""Fit of buffer, rate and offloads to the cloud study's numbers: `python -m bench.fit_cloud`.

The fit uses two numbers: the goodputs of CUBIC and BBR without added loss (section 5.2 of the
source). The table also has the set-up's other results beside the source's. The authors' log
(data/stats.txt of their repository) also counts retransmissions: 172 of CUBIC, 169 of them in the
first second, and 0 of BBR.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from losslab.backends.base import Instrument
from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.emulation.apps.iperf3 import SOURCE_PORT
from losslab.study.condition import Condition, replicate_seed

# Like the study's block `published`: netem of 20 ms on the sender, 5 s, no warm-up.
SETUP = Condition(
    algorithm="cubic", rtt_ms=21, sender_delay_ms=20, duration_s=5, warmup_s=0
)  # fmt: skip
COLUMNS = (
    "offloads", "receive", "rate", "buffer", "cubic", "bbr", "bbr/cubic", "cubic 0.1 %",
    "retransmits", "in 1st s", "of bbr", "n",
)  # fmt: skip
PUBLISHED = ("", "", "", "", "78.6", "503", "6.4", "20.5", "172", "169", "0", "1")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the grid and print a line per set-up, with means over replicates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buffer-packets", type=int, nargs="+", default=[20, 30, 40, 50, 60, 80])
    parser.add_argument("--rate-mbit", type=float, nargs="+", default=[600])
    parser.add_argument("--offloads", nargs="+", default=["off", "on"])
    parser.add_argument("--receive-buffer", nargs="+", default=["linux", "large"])
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--fitted-only", action="store_true", help="CUBIC without added loss")
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args(arguments)
    tools = instrument()
    if not options.fitted_only:
        print("  ".join(f"{word:>11}" for word in COLUMNS))
        print("  ".join(f"{word:>11}" for word in PUBLISHED))
    grid = itertools.product(
        options.offloads, options.receive_buffer, options.rate_mbit, options.buffer_packets
    )
    with ThreadPoolExecutor(options.cores) as pool:
        for offloads, receive, rate, buffer in grid:
            setup = replace(
                SETUP, offloads=offloads, receive_buffer=receive, rate_mbit=rate,
                buffer_packets=buffer,
            )  # fmt: skip
            wanted = [
                (condition, number)
                for condition in (
                    setup, replace(setup, algorithm="bbr"), replace(setup, loss_percent=0.1)
                )[: 1 if options.fitted_only else None]
                for number in range(options.replicates)
            ]  # fmt: skip
            found = list(pool.map(lambda job: _one(*job, tools), wanted))
            n = options.replicates
            if options.fitted_only:
                goodputs = sorted(f[0] for f in found)
                error = statistics.stdev(goodputs) / n**0.5
                print(
                    f"offloads {offloads}, receive {receive}, {rate:g} Mbit/s, {buffer} packets: "
                    f"CUBIC {statistics.fmean(goodputs):.1f} +- {error:.1f} Mbit/s (standard "
                    f"error, n = {n}; {goodputs[0]:.1f} to {goodputs[-1]:.1f})",
                    flush=True,
                )
                continue
            cubic, bbr, lossy = found[:n], found[n : 2 * n], found[2 * n :]
            goodputs = [statistics.fmean(f[0] for f in each) for each in (cubic, bbr, lossy)]
            words = (
                offloads, receive, f"{rate:g}", str(buffer), f"{goodputs[0]:.1f}",
                f"{goodputs[1]:.0f}", f"{goodputs[1] / goodputs[0]:.2f}", f"{goodputs[2]:.1f}",
                f"{statistics.fmean(f[1] for f in cubic):.0f}",
                f"{statistics.fmean(f[2] for f in cubic):.0f}",
                f"{statistics.fmean(f[1] for f in bbr):.0f}", str(n),
            )  # fmt: skip
            print("  ".join(f"{word:>11}" for word in words), flush=True)
    return 0


def _one(condition: Condition, number: int, tools: Instrument) -> tuple[float, int, int]:
    """Measure a replicate; return goodput in Mbit/s, retransmissions, and those of the first s.

    Raises:
        SystemExit: The replicate is not valid.
    """
    with tempfile.TemporaryDirectory(prefix="losslab-fit-") as folder:
        out = Path(folder) / "0"
        manifest = run(condition, replicate_seed(condition, number), out, tools)
        if not manifest["valid"]:
            raise SystemExit("; ".join(manifest["reasons"]))
        with (out / "tcp.csv").open(newline="") as file:
            early = [
                int(row["retransmits"])
                for row in csv.DictReader(file)
                if row["flow"] == str(SOURCE_PORT) and float(row["t_s"]) <= 1
            ]
    summary = manifest["summary"]
    return summary["goodput_mbit"], summary["retransmits"], max(early, default=0)


if __name__ == "__main__":
    sys.exit(main())
