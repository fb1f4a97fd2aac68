"""Pauses of the map's replication, from the losses in its logs: `python -m bench.fit_pauses`.

    git clone https://github.com/sdatta97/imcbbrrepro
    python -m bench.fit_pauses imcbbrrepro/data/*_cubic_bbr.tgz    (Linux 4.15 and 5.15)

A pause fills the bottleneck's buffer if it lasts longer than the link takes to empty it. Packets of
an unpaced flow arrive at the rate R of the link, for a share of the time: goodput / R. The losses
per second of such arrivals are therefore the pauses per second that are longer than the buffer's
size over R. At low rates and short RTTs, the flow itself fills the shallow buffer; at 200 ms and
1 Gbit/s, it hardly sends. The map's block `shallow-paused` therefore takes its parameters from
CUBIC's runs at 1 Gbit/s and 25 to 150 ms.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from losslab.study.packetsizes import DEFAULT

NAME = re.compile(r"(?P<buffer>\d+)_(?P<rate>\d+)_(?P<rtt>\d+)_\d+_(?P<algorithm>\w+)\.txt")
# A line of a second of iperf3: start, rate in kbit/s, retransmissions.
SECOND = re.compile(
    r"\[ *\d+\] +(\d+)\.00-\d+\.00 +sec .* ([\d.]+) Kbits/sec +(\d+) +[\d.]+ .?Bytes"
)
SHALLOW_KB, BUFFER_PACKETS = 100, 66
# Slow start and its losses are over.
SINCE_S = 5
FITTED_MBIT, FITTED_RTTS_MS = 1000, (25, 50, 75, 100, 150)


@dataclass
class Found:
    """Runs of a condition."""

    losses: int = 0  # seconds with retransmissions after one without
    packets: int = 0  # most retransmissions of one loss
    sent_mbit: float = 0.0

    def add(self, seconds: Iterable[tuple[int, float, int]]) -> None:
        """Add a run: start of each second, its rate in Mbit/s and its retransmissions."""
        lost = 0
        for begin_s, mbit, again in seconds:
            if begin_s >= SINCE_S:
                self.sent_mbit += mbit
                self.losses += again > 0 and lost == 0
                self.packets = max(self.packets, again)
            lost = again


def seconds_of(log: str) -> Iterator[tuple[int, float, int]]:
    """Yield the seconds of a log of iperf3."""
    for line in log.splitlines():
        if match := SECOND.match(line):
            yield int(match[1]), float(match[2]) / 1e3, int(match[3])


def conditions_of(archives: Iterable[Path]) -> dict[tuple[int, int, int], Found]:
    """Read CUBIC's runs, by buffer in KB, rate in Mbit/s and RTT in ms."""
    found: dict[tuple[int, int, int], Found] = defaultdict(Found)
    for archive in archives:
        with tarfile.open(archive) as tar:
            for member in tar:
                match = NAME.fullmatch(Path(member.name).name)
                if match and match["algorithm"] == "cubic":
                    log = tar.extractfile(member)
                    assert log is not None
                    key = int(match["buffer"]), int(match["rate"]), int(match["rtt"])
                    found[key].add(seconds_of(log.read().decode()))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the parameters of the axis `pauses`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archives", type=Path, nargs="+", metavar="ARCHIVE")
    try:
        found = conditions_of(parser.parse_args(arguments).archives)
    except (OSError, tarfile.TarError) as error:
        parser.error(f"each ARCHIVE must be a readable tar file, found {error}")
    fitted = [found[SHALLOW_KB, FITTED_MBIT, rtt] for rtt in FITTED_RTTS_MS]
    if not all(each.sent_mbit for each in fitted):
        parser.error(f"the archives must have CUBIC's runs of 100 KB and {FITTED_MBIT} Mbit/s")
    often = statistics.median(its.losses / (its.sent_mbit / FITTED_MBIT) for its in fitted)
    longest = BUFFER_PACKETS + max(each.packets for each in fitted)
    # Times that the link takes for full packets.
    packet_ms = DEFAULT.frame_bytes * 8 / FITTED_MBIT / 1e3
    min_ms, max_ms = BUFFER_PACKETS * packet_ms, longest * packet_ms
    print(f"at {FITTED_MBIT} Mbit/s: per_s={often:.2f},min_ms={min_ms:.1f},max_ms={max_ms:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
