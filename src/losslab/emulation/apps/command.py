"""Programs of the user: two shell commands, measured at the receiver's link."""

from __future__ import annotations

import bisect
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import USER_FILES, App
from losslab.emulation.flows import ANY, ANY_PORT, Flow, Timed, Timeline
from losslab.emulation.goodput import INTERVAL_S, ROUNDING_S, Goodput, read_rows, write_intervals
from losslab.emulation.topology import RECEIVER_ADDRESS, SENDER_ADDRESS
from losslab.errors import LosslabError
from losslab.study.axes import NONE, Seed, axis

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# In the job's folder: the logs that the programs write themselves.
LOGS = "raw/logs"
JOB = Path("/mnt/out")
# Headers of Ethernet, IP without options, TCP with timestamps, and UDP.
ETHERNET_BYTES, IP_BYTES, TCP_BYTES, UDP_BYTES = 14, 20, 32, 8
# Any other frame is one of losslab's pings: 8 bytes of ICMP header and 56 bytes (probes/ping.py).
PING_BYTES = ETHERNET_BYTES + IP_BYTES + 8 + 56
ARRIVALS = "arrivals.csv"


def _program(host: str, command: str, condition: Condition) -> Timed:
    folder = JOB / USER_FILES if condition.bring != NONE else Path("/tmp")
    variables = {
        "SENDER": SENDER_ADDRESS, "RECEIVER": RECEIVER_ADDRESS, "LOGS": str(JOB / LOGS),
        "DURATION_S": f"{condition.duration_s:g}",
    }  # fmt: skip
    exports = " ".join(f"{name}={value}" for name, value in variables.items())
    text = f"export {exports}; mkdir -p $LOGS; cd {folder} || exit; {command}"
    return Timed(host, ["sh", "-c", text], f"{host}.log", until_s=condition.duration_s)


def _rates(rows: list[dict[str, str]]) -> Iterator[tuple[float, float]]:
    """Yield (end in s, payload rate in Mbit/s) of intervals of `INTERVAL_S` or more."""
    before = rows[0]
    for row in rows[1:]:
        seconds = float(row["t_s"]) - float(before["t_s"])
        if seconds >= INTERVAL_S - ROUNDING_S:
            yield float(row["t_s"]), _payload(before, row) * 8 / 1e6 / seconds
            before = row


def _difference(before: dict[str, str], after: dict[str, str], column: str) -> int:
    return int(after[column]) - int(before[column])


def _payload(before: dict[str, str], after: dict[str, str]) -> int:
    packets, octets, segments, datagrams = (
        _difference(before, after, column)
        for column in ("packets", "bytes", "tcp_segments", "udp_datagrams")
    )
    pings = max(0, packets - segments - datagrams)
    headers = (segments + datagrams) * (ETHERNET_BYTES + IP_BYTES)
    headers += segments * TCP_BYTES + datagrams * UDP_BYTES
    return max(0, octets - headers - pings * PING_BYTES)


def _keep_logs(folder: Path) -> None:
    """Move the logs that the programs wrote into the replicate's folder."""
    logs = folder / Path(LOGS).name
    if not logs.is_dir():
        return
    for path in sorted(logs.rglob("*")):
        if path.is_file():
            name = "-".join(path.relative_to(logs).parts)
            shutil.move(path, folder / f"program-{name}")
    shutil.rmtree(logs)


class Command(App):
    """Two shell commands, one for each end."""

    order = 5
    meaning = "two programs of your own"
    udp_offloads, own_ecn, with_flows = True, True, False
    after = "write_kib"
    axes = {
        "sender_command": axis(
            NONE,
            help="shell command at the sender (app `command`); sends to `$RECEIVER`",
            named="sends-{}", digested=True, commas=True,
        ),
        "receiver_command": axis(
            NONE,
            help="shell command at the receiver (app `command`); starts first and listens on a "
            "port",
            named="receives-{}", digested=True, commas=True,
        ),
        "bring": axis(
            NONE,
            help="folder with your files (app `command`); the commands run in a copy of it",
            named="bring-{}", digested=True, commas=True, seed=Seed.NEVER,
        ),
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        commands = (condition.sender_command, condition.receiver_command)
        if any((text not in (NONE, "")) != self.used(condition) for text in commands):
            yield (
                "sender_command, receiver_command and the app command need each other, found app "
                f"{condition.app} with {commands[0]!r} and {commands[1]!r}"
            )
        if condition.bring != NONE and not self.used(condition):
            yield f"bring needs the app command, found {condition.app}"

    def foreign(self, condition: Condition) -> list[str]:
        return [
            f"on the receiver: {condition.receiver_command!r}",
            f"on the sender: {condition.sender_command!r}",
            *([f"both with copies of the files in {condition.bring!r}"]
              if condition.bring != NONE else []),
        ]  # fmt: skip

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
        """Write intervals.csv, keep the programs' own logs, and return the summary.

        `throughput_mbit` counts IP packets. `goodput_mbit` counts the payload of TCP segments and
        UDP datagrams, including retransmissions. Both cover the warm-up's end to the configured
        end.
        """
        _keep_logs(folder)
        rows = read_rows(folder / ARRIVALS)
        times = [float(row["t_s"]) for row in rows]
        first = bisect.bisect_left(times, plan.warmup_s - ROUNDING_S)
        last = bisect.bisect_right(times, plan.duration_s + ROUNDING_S) - 1
        if last <= first:
            raise LosslabError(
                f"both programs must run beyond the warm-up of {plan.warmup_s:g} s, found their "
                f"end at {times[-1] if times else 0:.3g} s; see sender.log and receiver.log"
            )
        write_intervals(_rates(rows), folder / "intervals.csv")
        payload = _payload(rows[first], rows[last])
        if payload <= 0:
            raise LosslabError("TCP segments or UDP datagrams must arrive, found none")
        seconds = times[last] - times[first]
        packets = _difference(rows[first], rows[last], "packets")
        octets = _difference(rows[first], rows[last], "bytes") - ETHERNET_BYTES * packets
        return {
            "goodput_mbit": payload * 8 / 1e6 / seconds,
            "throughput_mbit": octets * 8 / 1e6 / seconds,
            "bytes_received": _payload(rows[0], rows[-1]),
            "packets_received": _difference(rows[0], rows[-1], "packets"),
            # Time at which both programs had ended.
            "ended_s": times[-1],
        }

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        return [Goodput(summary["throughput_mbit"], plan.duration_s - plan.warmup_s)]


FEATURE = Command()
