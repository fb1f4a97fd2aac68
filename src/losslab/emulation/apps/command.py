"""Two programs of which nothing is known, counted at the receiver's link."""

from __future__ import annotations

import bisect
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import App
from losslab.emulation.flows import ANY, ANY_PORT, Flow, Timed, Timeline
from losslab.emulation.goodput import INTERVAL_S, ROUNDING_S, read_rows, write_intervals
from losslab.emulation.topology import RECEIVER_ADDRESS, SENDER_ADDRESS
from losslab.errors import LosslabError
from losslab.study.axes import NONE, Seed, axis

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# In the job's folder: what was brought along, and the logs that programs write themselves.
BROUGHT, LOGS = "brought", "raw/logs"
JOB = Path("/mnt/out")
# Of Ethernet, IP without options, TCP with its time stamps, and UDP.
ETHERNET_BYTES, IP_BYTES, TCP_BYTES, UDP_BYTES = 14, 20, 32, 8
# A frame of neither is one of our own pings: 56 bytes behind 8 of ICMP's (probes/ping.py).
PING_BYTES = ETHERNET_BYTES + IP_BYTES + 8 + 56
ARRIVALS = "arrivals.csv"


def _program(host: str, words: str, condition: Condition) -> Timed:
    """Write the shell's command of a host's program."""
    folder = JOB / BROUGHT if condition.bring != NONE else Path("/tmp")
    variables = {
        "SENDER": SENDER_ADDRESS, "RECEIVER": RECEIVER_ADDRESS, "LOGS": str(JOB / LOGS),
        "DURATION_S": f"{condition.duration_s:g}",
    }  # fmt: skip
    said = " ".join(f"{name}={value}" for name, value in variables.items())
    text = f"export {said}; mkdir -p $LOGS; cd {folder} || exit; {words}"
    return Timed(host, ["sh", "-c", text], f"{host}.log", until_s=condition.duration_s)


def _rates(rows: list[dict[str, str]]) -> Iterator[tuple[float, float]]:
    """Give (end in s, the payload's Mbit/s) of intervals of `INTERVAL_S` or more."""
    before = rows[0]
    for row in rows[1:]:
        seconds = float(row["t_s"]) - float(before["t_s"])
        if seconds >= INTERVAL_S - ROUNDING_S:
            yield float(row["t_s"]), _payload(before, row) * 8 / 1e6 / seconds
            before = row


def _between(before: dict[str, str], after: dict[str, str], what: str) -> int:
    return int(after[what]) - int(before[what])


def _payload(before: dict[str, str], after: dict[str, str]) -> int:
    """Count the bytes behind TCP's and UDP's headers that arrived between two samples."""
    packets, octets, segments, datagrams = (
        _between(before, after, what)
        for what in ("packets", "bytes", "tcp_segments", "udp_datagrams")
    )
    pings = max(0, packets - segments - datagrams)
    headers = (segments + datagrams) * (ETHERNET_BYTES + IP_BYTES)
    headers += segments * TCP_BYTES + datagrams * UDP_BYTES
    return max(0, octets - headers - pings * PING_BYTES)


def _keep_logs(folder: Path) -> None:
    """Put what the programs left in their folder of logs beside the replicate's own files."""
    logs = folder / Path(LOGS).name
    if not logs.is_dir():
        return
    for path in sorted(logs.rglob("*")):
        if path.is_file():
            name = "-".join(path.relative_to(logs).parts)
            shutil.move(path, folder / f"program-{name}")
    shutil.rmtree(logs)


class Command(App):
    """Two programs, each a shell's words."""

    order = 5
    meaning = "two programs, whatever they are"
    udp_offloads, own_ecn, with_flows = True, True, False
    after = "write_kib"
    axes = {
        "sender_command": axis(
            NONE,
            help="of the app `command`: a shell's words, which send to `$RECEIVER`",
            named="sends-{}", digested=True,
        ),
        "receiver_command": axis(
            NONE,
            help="of the app `command`: a shell's words, which listen on a port and are started "
            "first",
            named="receives-{}", digested=True,
        ),
        "bring": axis(
            NONE,
            help="a folder that is brought along for the app `command`, which works in a copy of "
            "it",
            named="bring-{}", digested=True, seed=Seed.NEVER,
        ),
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        its, commands = condition, (condition.sender_command, condition.receiver_command)
        if any((said not in (NONE, "")) != self.used(its) for said in commands):
            yield (
                "sender_command, receiver_command and the app command need each other, found app "
                f"{its.app} with {its.sender_command!r} and {its.receiver_command!r}"
            )
        if its.bring != NONE and not self.used(its):
            yield f"bring needs the app command, found {its.app}"

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        return [
            Flow(
                name="command",
                algorithm=condition.algorithm,
                port=ANY_PORT,
                listener=_program("receiver", condition.receiver_command, condition),
                caller=_program("sender", condition.sender_command, condition),
                bulk=False,
                protocol=ANY,
            )
        ]

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Turn what arrived into intervals.csv and the summary; keep the programs' own logs.

        `throughput_mbit` counts IP packets, `goodput_mbit` what is in TCP's segments and UDP's
        datagrams, repeats included, both from the warm-up to the configured end.
        """
        _keep_logs(folder)
        rows = read_rows(folder / ARRIVALS)
        times = [float(row["t_s"]) for row in rows]
        first = bisect.bisect_left(times, plan.warmup_s - ROUNDING_S)
        last = bisect.bisect_right(times, plan.duration_s + ROUNDING_S) - 1
        if last <= first:
            raise LosslabError(
                f"programs must run beyond the warm-up of {plan.warmup_s:g} s, found them at an "
                f"end at {times[-1] if times else 0:.3g} s"
            )
        write_intervals(_rates(rows), folder / "intervals.csv")
        payload = _payload(rows[first], rows[last])
        if payload <= 0:
            raise LosslabError("TCP segments or UDP datagrams must arrive, found none")
        seconds = times[last] - times[first]
        packets = _between(rows[first], rows[last], "packets")
        octets = _between(rows[first], rows[last], "bytes") - ETHERNET_BYTES * packets
        return {
            "goodput_mbit": payload * 8 / 1e6 / seconds,
            "throughput_mbit": octets * 8 / 1e6 / seconds,
            "bytes_received": _payload(rows[0], rows[-1]),
            "packets_received": _between(rows[0], rows[-1], "packets"),
            # When the last of both programs had ended.
            "ended_s": times[-1],
        }


FEATURE = Command()
