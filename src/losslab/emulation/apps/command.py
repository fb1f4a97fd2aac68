"""Programs of the user: two shell commands, measured at the receiver's link."""

from __future__ import annotations

import bisect
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import goodput, qlog
from losslab.emulation.app import USER_FILES, App
from losslab.emulation.arrivals import ARRIVALS, Addresses
from losslab.emulation.connections import prefix_of
from losslab.emulation.goodput import INTERVAL_S, ROUNDING_S, Goodput
from losslab.emulation.programs import ANY, ANY_PORT, NO_PORT, Flow, Timed, Timeline, UserPrograms
from losslab.emulation.topology import (
    RECEIVER_ADDRESS,
    SENDER_ADDRESS,
    NetworkExtension,
    interface,
    reverse_router,
)
from losslab.errors import LosslabError
from losslab.study.axes import NONE, OWN, Seed, axis, plain

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

# In the job's folder: the logs that the programs write themselves.
LOGS = "raw/logs"
JOB = Path("/mnt/out")
Row = dict[str, str]
# Prefix of the axes of a second pair of programs, and of its flow and files.
COMPETITOR = "competitor"
# Metrics that the second pair has, too.
OF_BOTH = ("goodput_mbit", "throughput_mbit", "completion_s")
# Addresses of a pair of programs that has its own: the last byte, plus the number of the pair.
FIRST_OWN = 11
TIME, COMPLETION = "duration", "completion"
# Variables that the programs have of losslab.
VARIABLES = ("SENDER", "RECEIVER", "LOGS", "DURATION_S")


def _environment(condition: Condition) -> dict[str, str]:
    """Parse the axis `env`; LosslabError if it is malformed."""
    if condition.env == NONE:
        return {}
    try:
        words = shlex.split(condition.env)
    except ValueError as error:
        raise LosslabError(f"env must be words of a shell, found {error}") from error
    variables = dict[str, str]()
    for word in words or [""]:
        name, sign, value = word.partition("=")
        if not sign or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise LosslabError(f"env must be NAME=VALUE ..., found {word!r:.60}")
        if name in (*VARIABLES, *variables):
            raise LosslabError(
                f"env must set each variable once and none of losslab's, found {name}"
            )
        variables[name] = value
    return variables


def _commands(condition: Condition, pair: int) -> tuple[str, str, str]:
    """Return a pair's commands of sender and receiver, and the host that listens."""
    prefix = f"{COMPETITOR}_" if pair else ""
    names = ("sender_command", "receiver_command", "listens")
    sender, receiver, listens = (str(getattr(condition, f"{prefix}{name}")) for name in names)
    return sender, receiver, listens


def _addresses(condition: Condition, pair: int) -> Addresses | None:
    """Return a pair's own addresses of sender and receiver; None if it is alone on the path."""
    if condition.flows == condition.competitor_sender_command == NONE:
        return None
    ends = (SENDER_ADDRESS, RECEIVER_ADDRESS)
    sender, receiver = (f"{end.rpartition('.')[0]}.{FIRST_OWN + pair}" for end in ends)
    return sender, receiver


def _contract(serves: bool, testcase: str) -> str:
    """Return the variables of the QUIC Interop Runner's endpoints (its README)."""
    role = "server" if serves else "client"
    return (
        f"export ROLE={role} TESTCASE={testcase} SERVERNAME=server "
        "QLOGDIR=$LOGS/qlog/ SSLKEYLOGFILE=$LOGS/keys.log; mkdir -p $LOGS/qlog; "
    )


def _flow(condition: Condition, pair: int) -> Flow:
    prefix = f"{COMPETITOR}-" if pair else ""
    addresses, completes = _addresses(condition, pair), condition.until == COMPLETION
    sender_command, receiver_command, listens = _commands(condition, pair)
    folder = JOB / USER_FILES if condition.bring != NONE else Path("/tmp")
    sender_address, receiver_address = addresses or (SENDER_ADDRESS, RECEIVER_ADDRESS)
    logs, duration = str(JOB / LOGS / prefix.rstrip("-")), plain(condition.duration_s)
    values = (sender_address, receiver_address, logs, duration)
    variables = dict(zip(VARIABLES, values, strict=True)) | _environment(condition)
    if condition.testcase != NONE:
        variables["SERVER"] = sender_address if listens == "sender" else receiver_address
    exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())

    def program(host: str, command: str) -> Timed:
        text = f"export {exports}; mkdir -p $LOGS; cd {folder} || exit; "
        if condition.testcase != NONE:
            serves = host == ("sender" if listens == "sender" else "receiver")
            text += _contract(serves, condition.testcase)
        log = f"{prefix}{host}.log"
        return Timed(host, ["sh", "-c", text + command], log, until_s=condition.duration_s)

    ends = [program("receiver", receiver_command), program("sender", sender_command)]
    listener, caller = reversed(ends) if listens == "sender" else ends
    flow = Flow(
        name=f"{prefix}command",
        algorithm=condition.algorithm,
        port=NO_PORT if listens == NONE else ANY_PORT,
        listener=listener,
        caller=caller,
        bulk=False,
        protocol=ANY,
    )
    if addresses is None and not completes:
        return flow
    return UserPrograms(**vars(flow), addresses=addresses, completes=completes)


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


def _end(rows: Sequence[Row], host: str) -> int | None:
    """Return the index of the first row after the end of a host's program; None without one."""
    return next((n for n, row in enumerate(rows) if row[f"{host}_ended"] == "1"), None)


def _last_row(rows: Sequence[Row], caller: str, duration_s: float) -> int:
    """Return the index of the last row that counts.

    It is that of the configured end; or, if the caller ended before, that of its end or of the last
    data after it. The traffic of a caller at the sender goes on while the kernel has its data.
    """
    times = [float(row["t_s"]) for row in rows]
    last = bisect.bisect_right(times, duration_s + ROUNDING_S) - 1
    if caller == "sender" and rows[last]["sender_pending"] == "1":
        return last
    end = _end(rows, caller)
    ended = last if end is None else min(end, last)
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


def _completion(
    flow: Flow, rows: Sequence[Row], plan: Plan, timeline: Timeline
) -> dict[str, float]:
    """Return the completion time of a caller that must end by itself; none of others."""
    if not isinstance(flow, UserPrograms) or not flow.completes:
        return {}
    end, host = _end(rows, flow.caller.host), flow.caller.host
    ended_s = plan.duration_s if end is None else float(rows[end]["t_s"])
    if ended_s >= plan.duration_s:
        raise LosslabError(
            f"the {flow.name} of the {host} must end by itself within {plan.duration_s:g} s, found "
            f"it still running; see {flow.caller.log}",
            hint="set a longer duration_s, or until to duration if it need not end",
        )
    return {"completion_s": ended_s - timeline.started_s[flow.name]}


def _text_axis(help: str, named: str, **more: Any) -> Any:
    return axis(NONE, help=help, named=named, digested=True, commas=True, **more)


def _listens_axis(prefix: str, more: str) -> Any:
    return axis(
        "receiver",
        help=f"host whose command starts first and must listen on a port before the other {more} "
        "starts (app `command`)",
        choices={
            "receiver": "", "sender": "a server that sends, such as a web server",
            NONE: "neither: the receiver's command starts first, and nothing is waited for",
        },
        named=prefix + "{}-listens",
    )  # fmt: skip


class Command(App):
    """Two shell commands, one for each end."""

    order = 5
    meaning = "two programs of your own"
    udp_offloads, own_ecn = True, True
    axes = {
        "sender_command": _text_axis(
            "shell command at the sender (app `command`); its data flow to `$RECEIVER`", "sends-{}"
        ),
        "receiver_command": _text_axis(
            "shell command at the receiver (app `command`)", "receives-{}"
        ),
        "listens": _listens_axis("", "command"),
        "bring": _text_axis(
            "your folder or file, PATH or PATH=NAME (app `command`); the commands run in a folder "
            "with a copy", "bring-{}", seed=Seed.NEVER,
        ),
        "env": _text_axis(
            "variables for the programs, NAME=VALUE ..., quoted as in a shell", "env-{}",
            repeated=" ", seed=Seed.NEVER,
        ),
        "testcase": axis(
            NONE,
            help="test case of the QUIC Interop Runner's endpoint contract: the programs have "
            "ROLE, TESTCASE, SERVERNAME, QLOGDIR and SSLKEYLOGFILE; set REQUESTS in env",
            pattern="[a-z][a-z0-9-]*", named="testcase-{}",
        ),
        "until": axis(
            TIME,
            help="what ends the commands that start second (app `command`)",
            choices={
                TIME: "the run's end, if they have not ended before",
                COMPLETION: "themselves; a run in which one does not is invalid, and the time that "
                "they take is a metric",
            },
            named="until-{}",
        ),
        "competitor_sender_command": _text_axis(
            "shell command at the sender of a second pair of programs beside the first (app "
            "`command`), with addresses of its own in `$SENDER` and `$RECEIVER`",
            "competitor-sends-{}",
        ),
        "competitor_receiver_command": _text_axis(
            "shell command at the receiver of the second pair of programs",
            "competitor-receives-{}",
        ),
        "competitor_listens": _listens_axis("competitor-", "command of the second pair"),
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        yield from super().conflicts(condition)
        if condition.algorithm == OWN and not self.used(condition):
            yield (
                f"algorithm {OWN} needs the app command, whose programs choose their own, found "
                f"{condition.app}"
            )
        if not self.used(condition):
            return
        (*commands, _), (*competitors, listens) = (_commands(condition, pair) for pair in range(2))
        if {*commands} & {NONE, ""}:
            yield f"the app command needs sender_command and receiver_command, found {commands}"
        if any("\0" in text for text in (*commands, *competitors, condition.env)):
            yield "commands and env must have no NUL character, found one"
        try:
            _environment(condition)
        except LosslabError as error:
            yield error.message
        if competitors != [NONE, NONE]:
            if {*competitors} & {NONE, ""}:
                yield (
                    "competitor_sender_command and competitor_receiver_command need each other, "
                    f"found {competitors}"
                )
            if condition.flows != NONE:
                yield "flows exclude competitor_sender_command; start both programs in one command"
        elif listens != "receiver":
            yield f"competitor_listens {listens} needs competitor_sender_command, found none"
        if condition.second_rate_mbit > 0:
            yield "second_rate_mbit needs another app than command, whose addresses pass one link"

    def foreign(self, condition: Condition) -> list[str]:
        pairs = [_commands(condition, pair) for pair in range(2)]
        return [
            *(f"on the {host}: {text!r}" for sender, receiver, _ in pairs
              for host, text in (("receiver", receiver), ("sender", sender)) if text != NONE),
            *([f"both with copies of the files in {condition.bring!r}"]
              if condition.bring != NONE else []),
        ]  # fmt: skip

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        competing = condition.competitor_sender_command != NONE
        return [_flow(condition, pair) for pair in range(1 + competing)]

    def network(self, condition: Condition) -> NetworkExtension:
        """Give each pair of programs its addresses, if it has its own.

        Routes name them as sources: a server whose socket is bound to no address answers from the
        address that was asked.
        """
        network = NetworkExtension()
        for number, _ in enumerate(self.flows(condition)):
            pair = _addresses(condition, number)
            if pair is None:
                continue
            back = reverse_router(condition.path)
            for host, router, out, address, peer in (
                ("sender", "r1", "r1", *pair), ("receiver", "r2", back, *reversed(pair)),
            ):  # fmt: skip
                owner, neighbour = interface(host, router), interface(router, host)
                network = network.plus(
                    NetworkExtension(
                        routes={host: [(peer, interface(host, out))]},
                        sources={peer: address},
                        commands={
                            host: [f"addr add {address}/24 dev {owner.name}"],
                            router: [
                                f"neigh replace {address} lladdr {owner.mac} dev {neighbour.name} "
                                "nud permanent"
                            ],
                        },
                    )
                )
        return network

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Write intervals.csv, keep the programs' own logs, and return the summary.

        `throughput_mbit` counts IP packets except ICMP. `goodput_mbit` counts distinct payload of
        TCP, and payload of UDP. Both cover the warm-up's end to the configured end, or to the end
        of the traffic if the caller ends earlier; of two pairs, that of the pair that ends first.
        """
        _keep_logs(folder)
        tables = [goodput.read_rows(folder / f"{prefix_of(f)}{ARRIVALS}") for f in plan.flows]
        pairs = list(zip(plan.flows, tables, strict=True))
        last = min(_last_row(rows, flow.caller.host, plan.duration_s) for flow, rows in pairs)
        summary = dict[str, Any]()
        for flow, rows in pairs:
            of_pair = _summary(flow, rows, last, plan) | _completion(flow, rows, plan, timeline)
            goodput.write_intervals(_rates(rows), folder / f"{prefix_of(flow)}intervals.csv")
            if prefix_of(flow):
                of_pair = {f"{COMPETITOR}_{n}": of_pair[n] for n in OF_BOTH if n in of_pair}
            summary |= of_pair
        names = ("goodput_mbit", f"{COMPETITOR}_goodput_mbit")
        shares = [summary[name] for name in names if name in summary]
        if len(shares) > 1:
            summary["total_goodput_mbit"] = sum(shares)
            summary["jain_index"] = goodput.jain_index(shares)
        logs = [path for path in sorted(folder.iterdir()) if path.suffix in qlog.SUFFIXES]
        server = plan.flows[0].listener.host == "sender"
        return summary | qlog.metrics(logs, "server" if server else "client")

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        ended_s = summary["ended_s"]
        whole = plan.duration_s - ended_s < 2 * plan.sample_interval_s
        # Datagrams that the path may duplicate have none.
        return [
            Goodput(summary[name], ended_s - plan.warmup_s, in_window=whole)
            for name in ("goodput_mbit", "total_goodput_mbit")
            if name in summary
        ]


def _summary(flow: Flow, rows: Sequence[Row], last: int, plan: Plan) -> dict[str, Any]:
    """Return the metrics of a pair, up to its row `last`."""
    times = [float(row["t_s"]) for row in rows]
    first = bisect.bisect_left(times, plan.warmup_s - ROUNDING_S)
    logs = f"{prefix_of(flow)}sender.log and {prefix_of(flow)}receiver.log"
    if last <= first or times[last] <= times[first]:
        raise LosslabError(
            f"the programs' traffic must go on beyond the warm-up of {plan.warmup_s:g} s, "
            f"found its end at {times[last]:.3g} s; see {logs}",
            hint="set warmup_s to 0 to measure a transfer from its start, or transfer more",
        )
    payload = _payload(rows[first], rows[last])
    if payload <= 0:
        hint = f"see {logs}; the data must flow from sender to receiver"
        if isinstance(flow, UserPrograms) and flow.addresses is not None:
            hint += ", between the addresses $SENDER and $RECEIVER"
        raise LosslabError(
            f"payload of TCP or UDP must arrive at the receiver between {times[first]:.3g} and "
            f"{times[last]:.3g} s, found none",
            hint=hint,
        )
    seconds = times[last] - times[first]
    summary = {
        "throughput_mbit": _difference(rows[first], rows[last], "ip_bytes") * 8 / 1e6 / seconds,
        "packets_received": _difference(rows[0], rows[-1], "packets"),
        "ended_s": times[last],
    }
    # losslab cannot tell a datagram from its duplicate.
    duplicating = any("duplicates" in m.explains for m in plan.path_spec.mechanisms)
    if duplicating and _difference(rows[0], rows[-1], "udp_bytes") > 0:
        return summary
    received = {"bytes_received": _payload(rows[0], rows[-1])}
    return summary | received | {"goodput_mbit": payload * 8 / 1e6 / seconds}


FEATURE = Command()
