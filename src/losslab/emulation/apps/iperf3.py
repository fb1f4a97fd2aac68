"""Bulk transfer: iperf3 streams as fast as TCP lets them, counted as the receiver has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import App
from losslab.emulation.flows import Flow, Program, Timeline
from losslab.emulation.goodput import (
    INTERVAL_S,
    Deliveries,
    jain_index,
    read_report,
    write_intervals,
)
from losslab.emulation.topology import BULK_PORT, RECEIVER_ADDRESS
from losslab.errors import LosslabError
from losslab.study.axes import NONE, Seed, axis

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# Both fixed, so that hashes over the flow's addresses do not vary.
PORT = BULK_PORT  # iperf3's default; the competitor has the next one
SOURCE_PORT = 40_001
# What the receiver reads at a time: small beside its window, of which what waits takes a part.
READ_BYTES = 16 * 1024
# What iperf3 writes at a time by default, and from which rate on it writes more.
WRITE_KIB, FAST_WRITE_KIB, FAST_MBIT = 16, 128, 100.0


def flow(condition: Condition, prefix: str, algorithm: str, number: int) -> Flow:
    """Describe bulk flow `number`; its logs are named with `prefix`."""
    port, source_port = PORT + number, SOURCE_PORT + number
    return Flow(
        name=f"{prefix}iperf3",
        algorithm=algorithm,
        port=port,
        source_port=source_port,
        listener=Program(
            "receiver",
            [
                "iperf3", "--server", "--one-off", "--json",
                "--bind", RECEIVER_ADDRESS, "--port", str(port),
                "--interval", f"{INTERVAL_S:g}",
            ],
            f"{prefix}receiver.log",
        ),
        caller=Program(
            "sender",
            [
                "iperf3", "--client", RECEIVER_ADDRESS, "--port", str(port),
                "--cport", str(source_port),
                # With intervals of its own, a client whose last words wait for an answer would look
                # at the clock until it comes, 256 ns of virtual time and microseconds of the host's
                # for each look: minutes.
                "--time", f"{condition.duration_s:g}", "--interval", "0",
                "--congestion", algorithm, "--length", str(1024 * write_kib(condition)), "--json",
            ],
            f"{prefix}sender.log",
        ),
        receive_block_bytes=READ_BYTES,
    )  # fmt: skip


def write_kib(condition: Condition) -> int:
    """Return what the sender writes at a time.

    iperf3 counts whole blocks only, and its own, of 128 KiB, would be most of an interval of a slow
    link. On a fast one each block takes guest and program two changes of place.
    """
    fast = condition.rate_mbit >= FAST_MBIT and condition.trace == NONE
    return condition.write_kib or (FAST_WRITE_KIB if fast else WRITE_KIB)


def intervals(receiver: dict[str, Any], start_s: float) -> list[tuple[float, float, int]]:
    """List the receiver's intervals as (end in s on the replicate's clock, length in s, bytes)."""
    sums = [interval["sum"] for interval in receiver["intervals"]]
    # The last interval is a remainder of any length; a very short one has no rate.
    return [
        (start_s + s["end"], s["seconds"], s["bytes"])
        for s in sums
        if s["seconds"] > INTERVAL_S / 10
    ]


def received_mbit(rows: list[tuple[float, float, int]], plan: Plan) -> float:
    """Divide bytes by time over the `intervals` between the warm-up and the configured end."""
    # Intervals of the competitor and the clock's rounding do not end exactly at the limits.
    half = INTERVAL_S / 2
    inside = [
        row
        for row in rows
        if row[0] - row[1] >= plan.warmup_s - half and row[0] <= plan.duration_s + half
    ]
    seconds = sum(row[1] for row in inside)
    if seconds <= 0:
        raise LosslabError("iperf3's receiver must report intervals after the warm-up, found none")
    return sum(row[2] for row in inside) * 8 / seconds / 1e6


def load(path: Path) -> dict[str, Any]:
    """Load iperf3's JSON; its `error` key is an error."""
    result = read_report(path)
    if "error" in result:
        raise LosslabError(
            f"iperf3 must end without error, found in {path.name}: {result['error']}"
        )
    return result


class Iperf3(App):
    """A bulk flow, and perhaps a second one as its competitor."""

    order = 1
    meaning = "bulk"
    with_competitor = True
    start_s = 0.0
    # The control connection, the parameters, the word to make streams, and the data connection.
    setup_rtts = 4
    after = "second_rate_mbit"
    axes = {
        "write_kib": axis(
            0,
            help=f"what iperf3 writes at a time; 0: {WRITE_KIB} below {FAST_MBIT:g} Mbit/s and "
            f"over traces, so that a slow link's intervals have many, and {FAST_WRITE_KIB}, "
            "iperf3's own default, from there on, so that a gigabit costs fewer system calls",
            span="[0, 1024]", unit="KiB", named="write{}", seed=Seed.NEVER,
        )
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        its = condition
        if its.write_kib != 0 and not self.used(its) and its.competitor == NONE:
            yield f"write_kib {its.write_kib} needs a flow of iperf3, found the app {its.app}"

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        found = [flow(condition, "", condition.algorithm, 0)]
        if condition.competitor != NONE:
            found.append(flow(condition, "competitor-", condition.competitor, 1))
        return found

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Turn samples and logs into intervals.csv (and competitor-intervals.csv) and the summary.

        Goodput counts what was acknowledged between the warm-up and the configured end, on the
        clock of the replicate: with a competitor, the time in which both flows run. `received_mbit`
        is what iperf3's receiver read in that time.
        """
        goodputs, read, retransmits, octets = [], [], [], []
        for each in plan.flows:
            prefix = each.name.removesuffix("iperf3")
            receiver = load(folder / each.listener.log)
            sender = load(folder / each.caller.log)
            rows = intervals(receiver, timeline.started_s[each.name])
            delivered = Deliveries.read(folder / "tcp.csv", each.source_port)
            write_intervals(delivered.intervals(), folder / f"{prefix}intervals.csv")
            goodputs.append(delivered.mbit(plan.warmup_s, plan.duration_s))
            read.append(received_mbit(rows, plan))
            retransmits.append(sender["end"]["sum_sent"]["retransmits"])
            octets.append(sum(count for _, _, count in rows))
        summary = {
            "goodput_mbit": goodputs[0],
            "received_mbit": read[0],
            "retransmits": retransmits[0],
            "bytes_received": octets[0],
            "total_goodput_mbit": sum(goodputs),
        }
        if len(goodputs) > 1:
            summary |= {
                "competitor_goodput_mbit": goodputs[1],
                "competitor_received_mbit": read[1],
                "competitor_retransmits": retransmits[1],
                "jain_index": jain_index(goodputs),
            }
        return summary


FEATURE = Iperf3()
