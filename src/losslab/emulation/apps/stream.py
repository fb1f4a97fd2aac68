"""An application's TCP flow: of a size, at a rate, on and off, or of responses to requests.

The background flows' program sends and receives it.

iperf3 has no pattern, no time of the last byte, and its control connection shares the path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import goodput
from losslab.emulation.app import App
from losslab.emulation.flows.outcome import acked_bytes, seconds_between
from losslab.emulation.flows.plan import KILOBYTE, MODULE, PROGRAM, size_bytes
from losslab.emulation.goodput import Deliveries, Goodput, median, quantile
from losslab.emulation.programs import Flow, OnClock, Program, Timeline
from losslab.emulation.topology import BULK_PORT, RECEIVER_ADDRESS, SENDER_ADDRESS, at_version
from losslab.errors import LosslabError
from losslab.study import features
from losslab.study.axes import NONE, axis, decimal

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

SOURCE_PORT = 40_001
UNLIMITED, EXAMPLE = "max", "0=max,4=0,10=max"
# No valid flow delivers less (`checks`).
SEGMENT_KB = 1.448
STEP = rf"[0-9.e]+=({UNLIMITED}|[0-9.e]+)"
# Limit of the pattern's steps, which one argument of a command line contains.
STEPS_MAX = 500
Step = tuple[float, float | None]
# Axes of data that nobody asks for, and of requests.
UNASKED = ("size_kb", "app_rate_mbit", "app_pattern")
ASKING = ("request_bytes", "think_ms", "requests")
# How late the next request may be: a millisecond, and the kernel's slack (fs/select.c).
LATE_NS, SLACK = 1_000_000, 0.002


@dataclass(frozen=True)
class Asking:
    """Requests of the client, in the order of its program's command line."""

    request_bytes: int
    response_bytes: int
    think_ns: int
    count: int  # 0: until the end


def steps(condition: Condition) -> list[Step]:
    """Return the source's rate in Mbit/s by its begin in s; None: no limit."""
    if condition.app_pattern == NONE:
        return [(0.0, condition.app_rate_mbit or None)]
    pairs = [pair.partition("=") for pair in condition.app_pattern.split(",")]
    return [(_number(at), None if rate == UNLIMITED else _number(rate)) for at, _, rate in pairs]


def _number(text: str) -> float:
    number = decimal(text)
    if number is None:
        raise LosslabError(
            f"app_pattern must be SECONDS=MBIT joined by commas, as {EXAMPLE}, found {text!r:.60}"
        )
    return number


def mean_mbit(condition: Condition) -> float:
    """Return the pattern's mean rate over the run in Mbit/s, with the link's where it has none."""
    if condition.response_kb:
        bits = condition.response_kb * KILOBYTE * 8
        took_ms = condition.rtt_ms + condition.think_ms + bits / condition.rate_mbit / 1e3
        mean = bits / took_ms / 1e3
        most = bits * condition.requests / 1e6 / condition.duration_s
        return min(mean, most or mean)
    pattern = steps(condition)
    ends = [*(at_s for at_s, _ in pattern[1:]), condition.duration_s]
    rates = [condition.rate_mbit if rate is None else rate for _, rate in pattern]
    octets = sum((e - s[0]) * r for s, e, r in zip(pattern, ends, rates, strict=True))
    return min(octets, condition.size_kb * KILOBYTE * 8 / 1e6 or octets) / condition.duration_s


class Stream(App):
    """One TCP flow of an application."""

    order = 1.5
    with_ipv6 = True
    meaning = (
        "a TCP flow of a `size_kb`, at an `app_rate_mbit`, by an `app_pattern`, or of responses "
        "of `response_kb`"
    )
    seeds_as = "iperf3"
    ports = {SOURCE_PORT: "first"}
    programs = (MODULE,)
    per_second = True
    axes = {
        "size_kb": axis(
            0.0,
            help="bytes that the foreground flow sends (apps `stream` and `quic`); 0: no limit",
            span="[0, 1000000000]", smallest=SEGMENT_KB, unit="kB", named="size{}",
        ),
        "app_rate_mbit": axis(
            0.0,
            help="rate at which the application has data to send (app `stream`), in pieces of "
            "20 ms; 0: as fast as TCP permits",
            span="[0, 10000]", smallest=0.001, unit="Mbit/s", named="app-rate{}",
        ),
        "app_pattern": axis(
            NONE,
            help="such rates by time (app `stream`): SECONDS=MBIT joined by commas, with `max` for "
            f"no limit and 0 for a pause: `{EXAMPLE}`",
            pattern=rf"{NONE}|{STEP}(,{STEP})*", form=f"SECONDS=MBIT,..., such as {EXAMPLE}",
            named="pattern-{}", digested=True, commas=True,
        ),
        "response_kb": axis(
            0.0,
            help="size of each response to the receiver's requests on one connection (app "
            "`stream`); 0: no requests",
            span="[0, 1000000]", smallest=0.001, unit="kB", named="response{}",
        ),
        "request_bytes": axis(
            200, help="size of each request", span="[1, 1000000]", unit="bytes", named="request{}",
        ),
        "think_ms": axis(
            0.0,
            help="time from a response's last byte to the next request",
            span="[0, 3600000]", smallest=0.001, unit="ms", named="think{}",
        ),
        "requests": axis(
            0, help="number of requests; 0: until the end", span="[0, 1000000]", named="requests{}",
        ),
    }  # fmt: skip
    metrics = features.metrics(
        ("stream", "source_kept_percent", "Kept application rate", "%", "-",
         "Share of the data that was due by the application's rate or pattern and that the kernel "
         "took before the next step; the network limited the rest."),
        ("response_kb", "response_median_ms", "Median response time", "ms", "less",
         "Median time from a request to its response's last byte; of the requests after the "
         "warm-up that were answered before the end."),
        ("response_kb", "response_p95_ms", "95th percentile of the response time", "ms", "less",
         "95th percentile of the same times."),
        ("response_kb", "response_first_byte_median_ms", "Median time to a response's first byte",
         "ms", "less", "Median time from a request to its response's first byte."),
        ("response_kb", "requests_done", "Answered requests", "requests", "more",
         "Requests after the warm-up that were answered before the end."),
    )  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        if condition.app != "quic" or self.changed(condition) != ["size_kb"]:
            yield from super().conflicts(condition)
        changed = self.changed(condition)
        if condition.response_kb and (others := [name for name in changed if name in UNASKED]):
            yield f"response_kb excludes {', '.join(others)}, found both"
        if not condition.response_kb and (others := [name for name in changed if name in ASKING]):
            yield f"{others[0]} needs response_kb, found none"
        try:
            pattern = steps(condition)
        except LosslabError as error:
            yield error.message
            return
        times, rates = [at_s for at_s, _ in pattern], [rate or 0.0 for _, rate in pattern]
        rising = all(before < after for before, after in pairwise(times))
        if times[0] != 0 or not rising or times[-1] >= condition.duration_s:
            yield (
                "app_pattern must begin at 0 s, rise, and end before duration_s "
                f"({condition.duration_s:g}), found {', '.join(f'{t:g}' for t in times)}"
            )
        if len(times) > STEPS_MAX:
            yield f"app_pattern must have at most {STEPS_MAX} steps, found {len(times)}"
        if condition.app_pattern != NONE and condition.app_rate_mbit:
            yield "app_pattern and app_rate_mbit exclude each other, found both"
        if condition.trace == NONE and max(rates) > condition.rate_mbit:
            yield (
                f"an application's rate must be at most rate_mbit ({condition.rate_mbit:g}), found "
                f"{max(rates):g}: the network would limit it; use {UNLIMITED} in app_pattern"
            )
        if 0 < (total_kb := condition.response_kb * condition.requests) < SEGMENT_KB:
            yield f"all responses together must have {SEGMENT_KB} kB or more, found {total_kb:g}"

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        octets, version = size_bytes(condition), condition.ip_version
        sender, receiver = (
            at_version(address, version) for address in (SENDER_ADDRESS, RECEIVER_ADDRESS)
        )
        source = [
            sender, SOURCE_PORT, receiver, condition.algorithm, 0.0,
            condition.duration_s, octets,
        ]  # fmt: skip
        pattern = steps(condition)
        receive = [*PROGRAM, "receive", str(BULK_PORT), "1", "--size", str(octets or 0)]
        sizes: list[str] = []
        if condition.response_kb:
            asking = Asking(
                condition.request_bytes, round(condition.response_kb * KILOBYTE),
                round(condition.think_ms * 1e6), condition.requests,
            )  # fmt: skip
            receive = [*PROGRAM, "request", str(BULK_PORT), *map(str, astuple(asking))]
            sizes = ["--requests", str(asking.request_bytes), str(asking.response_bytes)]
        receive += ["--address", receiver] if version == 6 else []
        return [
            Flow(
                name="stream",
                algorithm=condition.algorithm,
                port=BULK_PORT,
                source_port=SOURCE_PORT,
                listener=Program("receiver", receive, "receiver.log"),
                caller=OnClock(
                    "sender",
                    [*PROGRAM, "send", str(BULK_PORT)],
                    "sender.log",
                    arguments=(json.dumps([source]), "--pattern", json.dumps(pattern), *sizes),
                ),
                bulk=not self.changed(condition),
            )
        ]

    def expected_mbit(self, condition: Condition, rate_mbit: float) -> float | None:
        if not self.changed(condition):
            return None
        return min(mean_mbit(condition), rate_mbit)

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Write intervals.csv and return the summary.

        Goodput counts acknowledged data as of iperf3. That of a flow with a size is from its start
        to the last byte that its receiver read, or to the configured end.
        """
        sent, read = _reports(folder)
        delivered = Deliveries.read(folder / "tcp.csv", SOURCE_PORT, plan.data_ports)
        goodput.write_intervals(delivered.intervals(), folder / "intervals.csv")
        size, completion_s = _size(plan), seconds_between(sent, read, "complete_ns")
        if completion_s is not None and read["complete_ns"] > sent["ended_ns"]:
            completion_s = None  # its last bytes were under way at the run's end
        if size is None:
            goodput_mbit = delivered.mbit(plan.warmup_s, plan.duration_s)
        elif completion_s is not None:
            goodput_mbit = size * 8 / 1e6 / completion_s
        else:
            start_s = (sent["started_ns"] - timeline.origin_ns) / 1e9
            octets = delivered.until(plan.duration_s)
            goodput_mbit = octets * 8 / 1e6 / (plan.duration_s - start_s)
        limited = [step for step in sent["steps"] if step["due_bytes"] is not None]
        due, kept = (sum(step[n] for step in limited) for n in ("due_bytes", "sent_bytes"))
        answered = _answered(read, plan, folder, timeline) if "requests" in read else {}
        return answered | {
            "goodput_mbit": goodput_mbit,
            "total_goodput_mbit": goodput_mbit,
            "completion_s": completion_s,
            "first_byte_s": seconds_between(sent, read, "first_ns"),
            "bytes_received": read["bytes"],
            "retransmits": goodput.retransmits_until(
                goodput.read_rows(folder / "tcp.csv"), SOURCE_PORT, plan.duration_s
            ),
            "source_kept_percent": 100 * kept / due if due else None,
        }

    def violations(self, plan: Plan, folder: Path) -> Iterator[str]:
        """Yield the steps in which the source kept neither its rate nor was refused.

        The receiver must have read what was acknowledged, and no more than what was sent.
        """
        sent, read = _reports(folder)
        size, pattern = _size(plan), json.loads(_arguments(plan)[2])
        begun = sent["steps"]
        if asking := _asking(plan):
            yield from _asking_violations(asking, sent, read["requests"])
        if len(begun) != len(pattern):
            yield f"the source must go through {len(pattern)} steps, found {len(begun)}"
        for number, (step, (at_s, rate)) in enumerate(zip(begun, pattern, strict=False)):
            octets, due = step["sent_bytes"], step["due_bytes"]
            if rate is not None and octets != due and not (octets < due and step["refusals"]):
                yield (
                    f"the source must send the {due} bytes that are due at {rate:g} Mbit/s from "
                    f"{at_s:g} s on, found {octets}"
                )
            if rate is not None and number + 1 < len(begun) and size is None:
                end_s = max(pattern[number + 1][0], step["begin_s"])
                expected = int((end_s - step["begin_s"]) * rate * 1e6 / 8)
                if due != expected:
                    yield f"{expected} bytes must be due from {at_s:g} s on, found {due}"
        acked = acked_bytes(sent)
        if not acked <= read["bytes"] <= sent["told_bytes"]:
            yield (
                f"the receiver must read the {acked} acknowledged bytes and at most the "
                f"{sent['told_bytes']} sent, found {read['bytes']}"
            )
        if size is not None and ("complete_ns" in read) != (read["bytes"] == size):
            yield f"the receiver must read {size} bytes to its end, found {read['bytes']}"

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        rate_mbit, completion_s = summary["goodput_mbit"], summary["completion_s"]
        if _size(plan) is None:
            return [Goodput(rate_mbit, plan.duration_s - plan.warmup_s)]
        seconds = plan.duration_s if completion_s is None else completion_s
        return [Goodput(rate_mbit, seconds, in_window=False)]


def _reports(folder: Path) -> list[dict[str, Any]]:
    """Return the reports of sender and receiver; LosslabError if no connection came about."""
    found = []
    for name in ("sender.log", "receiver.log"):
        report = goodput.read_report(folder / name)
        if str(SOURCE_PORT) not in report:
            raise LosslabError(
                f"the flow must have a connection before the run's end, found none in {name}: the "
                "run is too short, or the path carries nothing in this time"
            )
        found.append(report[str(SOURCE_PORT)])
    return found


def _arguments(plan: Plan) -> Sequence[str]:
    caller = plan.flows[0].caller
    assert isinstance(caller, OnClock)
    return caller.arguments


def _size(plan: Plan) -> int | None:
    size_bytes: int | None = json.loads(_arguments(plan)[0])[0][-1]
    return size_bytes


def _asking(plan: Plan) -> Asking | None:
    end, _, *numbers = plan.flows[0].listener.command[-6:]
    return Asking(*map(int, numbers)) if end == "request" else None


def _answered(
    read: Mapping[str, Any], plan: Plan, folder: Path, timeline: Timeline
) -> dict[str, Any]:
    """Write requests.csv and return the response times."""
    lines = ["number,sent_s,first_byte_ms,response_ms,bytes"]
    firsts, responses = list[float](), list[float]()
    for number, request in enumerate(read["requests"], 1):
        sent_s = (request["sent_ns"] - timeline.origin_ns) / 1e9
        times_ms = [
            (request[name] - request["sent_ns"]) / 1e6
            for name in ("first_ns", "done_ns")
            if name in request
        ]
        texts = [*(f"{ms:.6f}" for ms in times_ms), "", ""][:2]
        lines.append(f"{number},{sent_s:.6f},{','.join(texts)},{request['bytes']}")
        answered = len(times_ms) == 2 and sent_s + times_ms[1] / 1e3 <= plan.duration_s
        if answered and sent_s >= plan.warmup_s:
            firsts.append(times_ms[0])
            responses.append(times_ms[1])
    (folder / "requests.csv").write_text("\n".join(lines) + "\n")
    return {
        "response_median_ms": median(responses),
        "response_p95_ms": quantile(sorted(responses), 0.95),
        "response_first_byte_median_ms": median(firsts),
        "requests_done": len(responses),
    }


def _asking_violations(
    asking: Asking, sent: Mapping[str, Any], requests: Sequence[Mapping[str, int]]
) -> Iterator[str]:
    """Yield what client or server did other than ask, answer, think and ask again."""
    if asking.count and len(requests) > asking.count:
        yield f"the client must ask {asking.count} times, found {len(requests)}"
    for number, (request, following) in enumerate(pairwise(requests), 1):
        if "done_ns" not in request or request["bytes"] != asking.response_bytes:
            octets = request["bytes"]
            yield f"request {number} must be answered before the next, found {octets} bytes"
            continue
        late_ns = following["sent_ns"] - request["done_ns"] - asking.think_ns
        if not 0 <= late_ns <= LATE_NS + SLACK * asking.think_ns:
            yield (
                f"request {number + 1} must follow {asking.think_ns / 1e6:g} ms after the "
                f"response, found {(asking.think_ns + late_ns) / 1e6:g} ms"
            )
    received, rest = divmod(sent["asked_bytes"], asking.request_bytes)
    octets, due = sent["told_bytes"], received * asking.response_bytes
    if received + (rest > 0) > len(requests):
        yield f"the server must get {len(requests)} requests, found {received}"
    if octets != due and not (octets < due and sum(step["refusals"] for step in sent["steps"])):
        yield f"the server must send {due} bytes for {received} requests, found {octets}"


FEATURE = Stream()
