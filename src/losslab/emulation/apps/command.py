"""Programs of the user: two shell commands, measured at the receiver's link."""

from __future__ import annotations

import bisect
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import USER_FILES, App
from losslab.emulation.goodput import INTERVAL_S, ROUNDING_S, Goodput, read_rows, write_intervals
from losslab.emulation.programs import ANY, ANY_PORT, NO_PORT, Flow, Timed, Timeline
from losslab.emulation.topology import RECEIVER_ADDRESS, SENDER_ADDRESS
from losslab.emulation.userprograms import ARRIVALS
from losslab.errors import LosslabError
from losslab.study.axes import NONE, OWN, Seed, axis, plain

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# In the job's folder: the logs that the programs write themselves.
LOGS = "raw/logs"
JOB = Path("/mnt/out")
Row = dict[str, str]


def _program(host: str, command: str, condition: Condition) -> Timed:
    folder = JOB / USER_FILES if condition.bring != NONE else Path("/tmp")
    variables = {
        "SENDER": SENDER_ADDRESS, "RECEIVER": RECEIVER_ADDRESS, "LOGS": str(JOB / LOGS),
        "DURATION_S": plain(condition.duration_s),
    }  # fmt: skip
    exports = " ".join(f"{name}={value}" for name, value in variables.items())
    text = f"export {exports}; mkdir -p $LOGS; cd {folder} || exit; {command}"
    return Timed(host, ["sh", "-c", text], f"{host}.log", until_s=condition.duration_s)


def _rates(rows: list[Row]) -> Iterator[tuple[float, float]]:
    """Yield (end in s, payload rate in Mbit/s) of intervals of `INTERVAL_S` or more."""
    before = rows[0]
    for row in rows[1:]:
        seconds = float(row["t_s"]) - float(before["t_s"])
        if seconds >= INTERVAL_S - ROUNDING_S:
            yield float(row["t_s"]), _payload(before, row) * 8 / 1e6 / seconds
            before = row


def _difference(before: Row, after: Row, column: str) -> int:
    return int(after[column]) - int(before[column])


def _payload(before: Row, after: Row) -> int:
    return _difference(before, after, "tcp_new_bytes") + _difference(before, after, "udp_bytes")


def _last_row(rows: Sequence[Row], caller: str, duration_s: float) -> int:
    """Return the index of the last row that counts.

    It is that of the configured end; or, if the caller ended before, that of its end or of the last
    data after it. The traffic of a caller at the sender goes on while the kernel has its data.
    """
    times = [float(row["t_s"]) for row in rows]
    last = bisect.bisect_right(times, duration_s + ROUNDING_S) - 1
    if caller == "sender" and rows[last]["sender_pending"] == "1":
        return last
    ended = next((n for n in range(last + 1) if rows[n][f"{caller}_ended"] == "1"), last)
    arrivals = (n for n in range(last, ended, -1) if _payload(rows[n - 1], rows[n]) > 0)
    return next(arrivals, ended)


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
    axes = {
        "sender_command": axis(
            NONE,
            help="shell command at the sender (app `command`); its data flow to `$RECEIVER`",
            named="sends-{}", digested=True, commas=True,
        ),
        "receiver_command": axis(
            NONE,
            help="shell command at the receiver (app `command`)",
            named="receives-{}", digested=True, commas=True,
        ),
        "listens": axis(
            "receiver",
            help="host whose command starts first and must listen on a port before the other "
            "command starts (app `command`)",
            choices={
                "receiver": "", "sender": "a server that sends, such as a web server",
                NONE: "neither: the receiver's command starts first, and nothing is waited for",
            },
            named="{}-listens",
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
        if condition.listens != "receiver" and not self.used(condition):
            yield f"listens {condition.listens} needs the app command, found {condition.app}"
        if condition.algorithm == OWN and not self.used(condition):
            yield (
                f"algorithm {OWN} needs the app command, whose programs choose their own, found "
                f"{condition.app}"
            )

    def foreign(self, condition: Condition) -> list[str]:
        return [
            f"on the receiver: {condition.receiver_command!r}",
            f"on the sender: {condition.sender_command!r}",
            *([f"both with copies of the files in {condition.bring!r}"]
              if condition.bring != NONE else []),
        ]  # fmt: skip

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        receiver = _program("receiver", condition.receiver_command, condition)
        sender = _program("sender", condition.sender_command, condition)
        server_sends = condition.listens == "sender"
        return [
            Flow(
                name="command",
                algorithm=condition.algorithm,
                port=NO_PORT if condition.listens == NONE else ANY_PORT,
                listener=sender if server_sends else receiver,
                caller=receiver if server_sends else sender,
                bulk=False,
                protocol=ANY,
            )
        ]

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Write intervals.csv, keep the programs' own logs, and return the summary.

        `throughput_mbit` counts IP packets except ICMP. `goodput_mbit` counts distinct payload of
        TCP, and payload of UDP. Both cover the warm-up's end to the configured end, or to the end
        of the traffic if the caller ends earlier.
        """
        _keep_logs(folder)
        rows = read_rows(folder / ARRIVALS)
        caller = plan.flows[0].caller.host
        times = [float(row["t_s"]) for row in rows]
        first = bisect.bisect_left(times, plan.warmup_s - ROUNDING_S)
        last = _last_row(rows, caller, plan.duration_s)
        if last <= first or times[last] <= times[first]:
            raise LosslabError(
                f"the programs' traffic must go on beyond the warm-up of {plan.warmup_s:g} s, "
                f"found its end at {times[last]:.3g} s; see sender.log and receiver.log",
                hint="set warmup_s to 0 to measure a transfer from its start, or transfer more",
            )
        write_intervals(_rates(rows), folder / "intervals.csv")
        payload = _payload(rows[first], rows[last])
        if payload <= 0:
            raise LosslabError(
                f"payload of TCP or UDP must arrive at the receiver between {times[first]:.3g} and "
                f"{times[last]:.3g} s, found none",
                hint="see sender.log and receiver.log; the data must flow from sender to receiver",
            )
        seconds = times[last] - times[first]
        return {
            **_goodput(plan, rows, payload * 8 / 1e6 / seconds),
            "throughput_mbit": _difference(rows[first], rows[last], "ip_bytes") * 8 / 1e6 / seconds,
            "packets_received": _difference(rows[0], rows[-1], "packets"),
            "ended_s": times[last],
        }

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        if "goodput_mbit" not in summary:
            return []  # datagrams that the path may duplicate
        ended_s = summary["ended_s"]
        whole = plan.duration_s - ended_s < 2 * plan.sample_interval_s
        return [Goodput(summary["goodput_mbit"], ended_s - plan.warmup_s, in_window=whole)]


def _goodput(plan: Plan, rows: Sequence[Row], goodput_mbit: float) -> dict[str, float]:
    """Return the metrics of distinct data; none if datagrams may have been duplicated.

    losslab cannot tell a datagram from its duplicate.
    """
    duplicating = any("duplicates" in each.explains for each in plan.path_spec.mechanisms)
    if duplicating and _difference(rows[0], rows[-1], "udp_bytes") > 0:
        return {}
    return {"goodput_mbit": goodput_mbit, "bytes_received": _payload(rows[0], rows[-1])}


FEATURE = Command()
