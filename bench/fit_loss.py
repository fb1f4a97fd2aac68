"""Fit of the base RTT to a number of the loss study: `python -m bench.fit_loss`.

The source states no RTT. The fitted RTT gives CUBIC the source's 235.5 Mbit/s at 1 % loss on the
symmetric path (slide 11). Nothing else is fitted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from losslab.campaign.instrument import instrument
from losslab.campaign.replicate import run
from losslab.study.condition import Condition, replicate_seed

SETUP = Condition(algorithm="cubic", loss_percent=1)
PUBLISHED_MBIT = 235.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure CUBIC at 1 % loss over each RTT and print a line per RTT and receive buffer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rtt-ms", type=float, nargs="+", default=[0.40, 0.42, 0.44, 0.46])
    parser.add_argument("--receive-buffer", nargs="+", default=["linux", "large"])
    parser.add_argument("--sender-queue", default="fq")
    parser.add_argument("--replicates", type=int, default=10)
    parser.add_argument("--duration-s", type=float, default=10)
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args(arguments)
    tools = instrument()

    def one(condition: Condition, number: int) -> tuple[float, float]:
        with tempfile.TemporaryDirectory(prefix="losslab-fit-") as folder:
            seed = replicate_seed(condition, number)
            manifest = run(condition, seed, Path(folder) / "0", tools)
        if not manifest["valid"]:
            raise SystemExit("; ".join(manifest["reasons"]))
        summary = manifest["summary"]
        return summary["goodput_mbit"], summary["rwnd_limited_percent"]

    with ThreadPoolExecutor(options.cores) as pool:
        for receive in options.receive_buffer:
            for rtt_ms in options.rtt_ms:
                setup = replace(
                    SETUP, rtt_ms=rtt_ms, receive_buffer=receive, duration_s=options.duration_s,
                    sender_queue=options.sender_queue,
                )  # fmt: skip
                n = options.replicates
                found = list(pool.map(one, n * [setup], range(n)))
                goodputs, limited = zip(*found, strict=True)
                error = statistics.stdev(goodputs) / n**0.5
                print(
                    f"RTT {rtt_ms:g} ms, receive {receive}: {statistics.fmean(goodputs):.1f} +- "
                    f"{error:.1f} Mbit/s (standard error, n = {n}), published {PUBLISHED_MBIT}; "
                    f"held back by the receiver's window {statistics.fmean(limited):.2f} % of the "
                    "time",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
