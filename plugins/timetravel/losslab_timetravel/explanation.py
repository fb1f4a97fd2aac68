"""Explanation of a cause: which packets it dropped, and what the sender did with and without it.

It reads the captures of both runs (see `why.from_start`) and their samples in tcp.csv.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from losslab.campaign.packets import SENDERS_LINK, Segment, segments, sent
from losslab.campaign.rerun import load_manifest
from losslab.emulation import capture
from losslab.emulation.topology import interface
from losslab_timetravel.futures import Drop, drops_of
from losslab_timetravel.symptoms import longest_stall, samples, timeouts

# Where data packets are captured just before netem drops some.
BEFORE_LOSS = interface("r2", "r1").name

# The clocks of captures and of tables begin some microseconds apart.
SAME_S = 1e-4


def packets(folder: Path, cause: Sequence[Drop]) -> Iterator[str]:
    """Yield a line for each packet of a cause, given the run that drops the cause alone.

    Times are those of this run: after the first packet, they may differ from the original's.
    """
    lost = _lost(folder)
    origin_ns, own = _segments(folder, SENDERS_LINK)
    names = {(drop.direction, drop.number) for drop in cause}
    for drop in drops_of(folder):
        name = drop.direction, drop.number
        if name in names:
            text = f"{drop.direction} packet {drop.number}, dropped at {drop.t_s:.6f} s"
            its = lost.get(name)
            yield text if its is None else f"{text}: {_described(its, drop.t_s, origin_ns, own)}"


def _lost(folder: Path) -> dict[tuple[str, int], Segment]:
    """Return the segments that were dropped, by direction and number.

    netem drops the n-th packet of the traffic that is captured on the link before, at that time.
    """
    file = folder / capture.name(BEFORE_LOSS)
    if not file.exists():
        return {}
    origin_ns, arrivals = sent(file.read_bytes())
    found = {}
    for drop in drops_of(folder):
        segment = arrivals[drop.number - 1] if drop.number <= len(arrivals) else None
        if drop.direction != "data" or segment is None:
            continue
        if abs(drop.t_s - (segment.at_ns - origin_ns) / 1e9) < SAME_S:
            found[drop.direction, drop.number] = segment
    return found


def _described(lost: Segment, t_s: float, origin_ns: int, sent: Sequence[Segment]) -> str:
    """Describe a lost segment: its bytes, and when they were sent before and after."""
    if not lost.octets:
        return f"no data, port {lost.port}"
    own = [each for each in sent if each.sent and each.port == lost.port and each.octets]
    first = own[0].begin
    times = [
        (each.at_ns - origin_ns) / 1e9
        for each in own
        if (lost.begin - each.begin) % (1 << 32) < each.octets
    ]
    earlier = sum(time_s <= t_s for time_s in times)
    begin = (lost.begin - first) % (1 << 32)
    what = f"bytes {begin} to {begin + lost.octets - 1} of port {lost.port}"
    which = "first sent" if earlier == 1 else f"transmission {earlier}, sent"
    text = f"{what}, {which} at {times[earlier - 1]:.6f} s"
    after = f", again at {times[earlier]:.6f} s" if earlier < len(times) else ", not sent again"
    return text + after


def lines(cause: Path, without: Path, from_s: float, until_s: float) -> Iterator[str]:
    """Yield what the sender did in the runs with the cause alone and without it.

    The cut is at `from_s`; the symptom ends at `until_s`.
    """
    for name, folder in (("only the cause", cause), ("all drops but the cause", without)):
        stall = longest_stall(folder, from_s, until_s)
        windows = [
            int(row["cwnd_packets"])
            for row in samples(folder)
            if from_s < float(row["t_s"]) <= until_s
        ]
        span = f"cwnd from {min(windows)} to {max(windows)} packets" if windows else "no samples"
        yield (
            f"{name}: until {until_s:.3g} s, longest stall {stall.length_s:.3f} s, "
            f"timeouts: {timeouts(load_manifest(folder))}, {span}"
        )


def _segments(folder: Path, link: str) -> tuple[int, list[Segment]]:
    return segments((folder / capture.name(link)).read_bytes())
