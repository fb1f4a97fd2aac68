"""Sender and receiver of many TCP flows, one process each, with the flows on the command line.

The sender starts and stops flows on time and sends as TCP allows; the receiver reads and discards.
Each prints a JSON report of every flow, by the flow's source port.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import heapq
import json
import os
import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from losslab.emulation.probes import parse_tcp_info
from losslab.emulation.programs import sleep_until
from losslab.emulation.topology import family_of

# Open files besides flows: Python's own, the listener, the poll.
OTHER_FILES = 32
# As iperf3's in the foreground flow.
BLOCK_BYTES = 16 * 1024
READ_BYTES, MSG_TRUNC = 1 << 20, socket.MSG_TRUNC
BACKLOG = 4096
# A connection from this port ends the run. The receiver then waits for open connections, because a
# reset may have been lost.
END_PORT = 10_000
END_WAIT_S = 3.0


def receive(
    port: int, count: int, size_bytes: int | None = None, address: str = ""
) -> dict[str, Any]:
    """Read `count` flows to their ends; return each flow's report by its source port.

    With a size (0: unlimited), note when the first byte was read, and when that many were.
    """
    allow_files(count)
    reports: dict[str, Any] = {}
    readers: dict[int, tuple[socket.socket, dict[str, Any]]] = {}
    last: socket.socket | None = None
    until_s = float("inf")
    block = bytearray(READ_BYTES)
    with _listening(address, port) as listener, select.epoll() as poll:
        poll.register(listener.fileno(), select.EPOLLIN)
        while last is None or (readers and time.monotonic() < until_s):
            wait_s = None if last is None else max(0.0, until_s - time.monotonic())
            for descriptor, _ in poll.poll(wait_s):
                if descriptor == listener.fileno():
                    connection, (_, source_port, *_) = listener.accept()
                    if source_port == END_PORT:
                        last, until_s = connection, time.monotonic() + END_WAIT_S
                        continue
                    if size_bytes is None:
                        _wake_for(connection, BLOCK_BYTES)
                    connection.setblocking(False)
                    reports[str(source_port)] = {"bytes": 0, "how": "open"}
                    readers[connection.fileno()] = connection, reports[str(source_port)]
                    poll.register(connection.fileno(), select.EPOLLIN)
                else:
                    connection, report = readers[descriptor]
                    more = _read(connection, report, block)
                    if size_bytes is not None and report["bytes"]:
                        _note_progress(connection, report, size_bytes)
                    if not more:
                        poll.unregister(descriptor)
                        del readers[descriptor]
                        connection.close()
        # Neither less than a block nor a lost reset wakes the receiver.
        for connection, report in readers.values():
            _read(connection, report, block)
            connection.close()
    if last is not None:
        last.close()
    return reports


def request(
    port: int, request_bytes: int, response_bytes: int, think_ns: int, count: int, address: str = ""
) -> dict[str, Any]:
    """Ask for `count` responses (0: until the end) on one connection; return its report.

    The next request follows `think_ns` after a response's last byte.
    """
    block = bytearray(READ_BYTES)
    exchanges: list[dict[str, int]] = []
    with _listening(address, port) as listener:
        connection, (_, source_port, *_) = listener.accept()
        with connection:
            ended = source_port == END_PORT
            while not ended and (not count or len(exchanges) < count):
                exchange = {"sent_ns": time.monotonic_ns(), "bytes": 0}
                exchanges.append(exchange)
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    connection.sendall(bytes(request_bytes))
                    while (left := response_bytes - exchange["bytes"]) > 0:
                        # The first byte wakes; and the run's end, if a reset was lost.
                        _wake_for(connection, min(BLOCK_BYTES, left) if exchange["bytes"] else 1)
                        if connection not in select.select([connection, listener], [], [])[0]:
                            connection.setblocking(False)
                        octets = connection.recv_into(block, min(left, len(block)), MSG_TRUNC)
                        exchange.setdefault("first_ns", time.monotonic_ns())
                        exchange["bytes"] += octets
                    exchange["done_ns"] = time.monotonic_ns()
                ended = "done_ns" not in exchange or _ends(listener, think_ns)
            if source_port != END_PORT:
                listener.accept()[0].close()
    return {str(source_port): {"bytes": sum(e["bytes"] for e in exchanges), "requests": exchanges}}


@contextlib.contextmanager
def _listening(address: str, port: int) -> Iterator[socket.socket]:
    with socket.socket(family_of(address), socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(BACKLOG)
        yield listener


def _ends(listener: socket.socket, wait_ns: int) -> bool:
    """Wait; return whether a connection, which ends the run, comes before."""
    until_ns = time.monotonic_ns() + wait_ns
    while (left_ns := until_ns - time.monotonic_ns()) > 0:
        if select.select([listener], [], [], min(left_ns / 1e9, WAIT_S))[0]:
            return True
    return False


def _read(connection: socket.socket, report: dict[str, Any], block: bytearray) -> bool:
    """Read all available data; return whether more may come."""
    try:
        while count := connection.recv_into(block, 0, MSG_TRUNC):
            report["bytes"] += count
    except BlockingIOError:
        return True
    except OSError as error:
        report["how"] = _name(error)
    else:
        report["how"] = "finished"
    report["ended_ns"] = time.monotonic_ns()
    return False


def _name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))


def _wake_for(connection: socket.socket, octets: int) -> None:
    """Wake up for so many bytes, see `programs.receive_blocks`; the end of data wakes, too."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, octets)


def _note_progress(connection: socket.socket, report: dict[str, Any], size_bytes: int) -> None:
    left = size_bytes - report["bytes"]
    if "first_ns" not in report:
        report["first_ns"] = time.monotonic_ns()
        _wake_for(connection, BLOCK_BYTES)
    if size_bytes and left <= 0:
        report.setdefault("complete_ns", time.monotonic_ns())
    elif 0 < left < BLOCK_BYTES:
        _wake_for(connection, left)


def allow_files(flows: int) -> None:
    """Raise the limit of open files, which is low on hosts (`topology.DESCRIPTOR_LIMIT`).

    Raises ValueError if the hard limit is lower and may not be raised.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = flows + OTHER_FILES
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, max(hard, needed)))


BLOCK = bytes(BLOCK_BYTES)
# Blocks per turn and flow, so that no flow delays the others.
TURN_BLOCKS = 64
# Events, in their order at the same time.
START, FEED, END, MARK = 0, 1, 2, 3
# Longest single wait: the kernel may be late by a thousandth of it (fs/select.c).
WAIT_S = 0.1
# Interval at which a flow with a rate gets data, shorter than a video's frame interval.
FEED_S = 0.02
# A source starts at a whole multiple of this on the replicate's clock.
SOURCE_START_NS = 1_000_000
# Largest unsent data of a source. With the whole send buffer, a pause would begin seconds late.
UNSENT_BYTES, TCP_NOTSENT_LOWAT = 16 * 1024, 25
TCP_CONGESTION, ALGORITHM_BYTES = 13, 16  # linux/tcp.h, TCP_CA_NAME_MAX of net/tcp.h
TCP_INFO, TCP_INFO_BYTES = 11, 256
MIN_RTT_AT = 148  # offset of tcpi_min_rtt in struct tcp_info, in µs; all bits set means no sample
ABORT = struct.pack("ii", 1, 0)  # linger for 0 s: discard unsent data and send a reset
END_LIMIT_S = 60.0


@dataclass
class Sending:
    """A flow at the sender."""

    source: str
    source_port: int
    destination: str
    algorithm: str
    start_s: float
    end_s: float
    size_bytes: int | None
    rate_mbit: float | None = None
    socket: socket.socket | None = None
    sent_bytes: int = 0  # bytes that the kernel took
    connected_s: float | None = None  # of a flow with a rate
    report: dict[str, Any] = field(default_factory=dict)


@dataclass
class Source(Sending):
    """The foreground flow: an application that sends at rates by time.

    It keeps its connection until `end_s`. What the kernel refuses stays due until a step's end.
    """

    # (begin in s, Mbit/s) of each step; None: no limit
    pattern: Sequence[tuple[float, float | None]] = ((0.0, None),)
    steps: list[dict[str, Any]] = field(default_factory=list)  # begun so far, with their bytes
    polled: int = select.EPOLLOUT
    before_bytes: int = 0  # that the kernel took before the current step
    # Sizes of a request and of its response, and the bytes of requests that have come. Without
    # requests, the source sends unasked.
    request_bytes: int = 0
    response_bytes: int = 0
    asked_bytes: int = 0

    @property
    def step_end_s(self) -> float:
        """Return when the current step ends; the first begins when the connection is open."""
        if not self.steps:
            return 0.0
        after = len(self.steps)
        return self.pattern[after][0] if after < len(self.pattern) else self.end_s

    @property
    def rate(self) -> float | None:
        """Return the current step's rate."""
        return self.pattern[len(self.steps) - 1][1]

    def begin_step(self, now_s: float) -> None:
        """Go on with the next step."""
        if not self.steps:
            self.connected_s = now_s
        begin_s = max(self.pattern[len(self.steps)][0], self.connected_s or 0.0)
        step = {"begin_s": begin_s, "due_bytes": None, "sent_bytes": 0, "refusals": 0}
        self.steps.append(step)
        self.before_bytes = self.sent_bytes

    def due_bytes(self, until_s: float) -> int:
        """Return how many bytes are due in the current step and have not been sent."""
        step = self.steps[-1]
        left = sys.maxsize if self.size_bytes is None else self.size_bytes - self.sent_bytes
        if self.request_bytes:
            asked = self.asked_bytes // self.request_bytes
            return asked * self.response_bytes - self.sent_bytes
        if self.rate is None:
            return left if until_s < self.step_end_s else 0
        until_s = min(until_s, self.step_end_s)
        of_rate = max(0, int((until_s - step["begin_s"]) * self.rate * 1e6 / 8))
        step["due_bytes"] = min(of_rate, step["sent_bytes"] + left)
        return int(step["due_bytes"] - step["sent_bytes"])


class Sender:
    """Starts, feeds and stops flows."""

    def __init__(
        self, flows: Sequence[Sending], port: int, origin_ns: int, mark_s: float | None = None
    ) -> None:
        """Schedule all starts; `origin_ns` is the monotonic clock at the replicate's 0 s.

        At `mark_s`, note what each flow's receiver has acknowledged.
        """
        self._port, self._origin_ns = port, origin_ns
        self._flows = flows
        self._poll = select.epoll()
        self._open: dict[int, Sending] = {}
        self._due = [(flow.start_s, n, START) for n, flow in enumerate(flows)]
        if mark_s is not None:
            self._due += [(mark_s, n, MARK) for n in range(len(flows))]
        heapq.heapify(self._due)

    def run(self) -> None:
        """Run until every flow has ended."""
        while self._due or self._open:
            now_s = self._now_s()
            while self._due and self._due[0][0] <= now_s:
                _, number, event = heapq.heappop(self._due)
                flow = self._flows[number]
                if event == START:
                    self._start(flow)
                    heapq.heappush(self._due, (flow.end_s, number, END))
                    if flow.rate_mbit is not None:
                        heapq.heappush(self._due, (now_s + FEED_S, number, FEED))
                elif event == MARK:
                    info = flow.socket and _tcp_info(flow.socket)
                    acked = parse_tcp_info(0, "", info).bytes_acked if info else 0
                    flow.report.setdefault("marked_bytes", acked)
                elif flow.socket is not None and event == END:
                    self._end(flow, "stopped")
                elif isinstance(flow, Source) and flow.socket is not None:
                    self._supply(flow)
                    self._feed_later(flow, number)
                elif flow.socket is not None:
                    heapq.heappush(self._due, (now_s + FEED_S, number, FEED))
                    self._feed(flow, now_s)
            # Only the ends of finished flows are left.
            if not self._open and not any(event == START for _, _, event in self._due):
                break
            wait_s = None
            if self._due:
                wait_s = min(max(0.0, self._due[0][0] - self._now_s()), WAIT_S)
            # epoll's timeout has whole milliseconds, to which starts would be rounded.
            select.select([self._poll], [], [], wait_s)
            for descriptor, _ in self._poll.poll(0):
                if descriptor in self._open:
                    self._serve(self._open[descriptor])

    def _now_s(self) -> float:
        return (time.monotonic_ns() - self._origin_ns) / 1e9

    def _start(self, flow: Sending) -> None:
        sock = socket.socket(family_of(flow.source), socket.SOCK_STREAM)
        sock.setblocking(False)
        # Set before connecting, so that the default algorithm leaves no state in the socket
        # (tcp_reinit_congestion_control, net/ipv4/tcp_cong.c).
        sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, flow.algorithm.encode())
        if isinstance(flow, Source):
            sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        sock.bind((flow.source, flow.source_port))
        flow.socket = sock
        flow.report["started_ns"] = time.monotonic_ns()
        with contextlib.suppress(BlockingIOError):
            sock.connect((flow.destination, self._port))
        self._open[sock.fileno()] = flow
        self._poll.register(sock.fileno(), select.EPOLLOUT)

    def _serve(self, flow: Sending) -> None:
        """Send as much as the kernel accepts; end a flow whose receiver has read everything."""
        assert flow.socket is not None
        code = flow.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._end(flow, errno.errorcode.get(code, str(code)))
        elif isinstance(flow, Source):
            opened = not flow.steps
            if flow.request_bytes:
                with contextlib.suppress(BlockingIOError):
                    flow.asked_bytes += len(flow.socket.recv(READ_BYTES))
            self._supply(flow)
            if opened:
                self._feed_later(flow, self._flows.index(flow))
        elif flow.rate_mbit is not None:
            # From here on `_feed` writes to it; free buffer space is no event.
            flow.connected_s = self._now_s()
            self._poll.modify(flow.socket.fileno(), 0)
        elif flow.sent_bytes == flow.size_bytes:
            # The receiver closes when it has read to the end.
            with contextlib.suppress(BlockingIOError):
                if not flow.socket.recv(1):
                    self._end(flow, "finished")
        else:
            self._send(flow)

    def _send(self, flow: Sending) -> None:
        assert flow.socket is not None
        for _ in range(TURN_BLOCKS):
            left = len(BLOCK) if flow.size_bytes is None else flow.size_bytes - flow.sent_bytes
            if left == 0:
                break
            try:
                flow.sent_bytes += flow.socket.send(BLOCK[:left])
            except BlockingIOError:
                return
            except OSError as error:
                self._end(flow, _name(error))
                return
        if flow.sent_bytes == flow.size_bytes:
            flow.socket.shutdown(socket.SHUT_WR)
            self._poll.modify(flow.socket.fileno(), select.EPOLLIN)

    def _feed_later(self, flow: Source, number: int) -> None:
        at_s = flow.step_end_s
        if flow.rate:
            at_s = min(at_s, self._now_s() + FEED_S)
        if at_s < flow.end_s:
            heapq.heappush(self._due, (at_s, number, FEED))

    def _supply(self, flow: Source) -> None:
        """Send what a source is due; go on with its pattern when a step is over."""
        now_s = self._now_s()
        while flow.socket is not None:
            if flow.steps:
                self._write(flow, now_s)
            if now_s < flow.step_end_s or len(flow.steps) == len(flow.pattern):
                break
            flow.begin_step(now_s)

    def _write(self, flow: Source, now_s: float) -> None:
        """Send what is due in a step; the kernel's refusals stay due."""
        step = flow.steps[-1]
        refused = self._push(flow, flow.due_bytes(now_s))
        if flow.socket is None:
            return
        step["sent_bytes"] = flow.sent_bytes - flow.before_bytes
        step["refusals"] += refused
        # Free buffer space is an event only for what is still due.
        polled = (select.EPOLLOUT if refused else 0) | (select.EPOLLIN if flow.request_bytes else 0)
        if polled != flow.polled:
            flow.polled = polled
            self._poll.modify(flow.socket.fileno(), polled)

    def _feed(self, flow: Sending, now_s: float) -> None:
        """Send what a flow with a rate is due; the kernel's refusals stay due."""
        assert flow.rate_mbit is not None
        if flow.connected_s is not None:
            due_bytes = int((now_s - flow.connected_s) * flow.rate_mbit * 1e6 / 8)
            self._push(flow, due_bytes - flow.sent_bytes)

    def _push(self, flow: Sending, octets: int) -> bool:
        """Send some bytes, and return whether the kernel refused a part; an error ends the flow."""
        assert flow.socket is not None
        try:
            while octets > 0:
                count = flow.socket.send(BLOCK[:octets])
                flow.sent_bytes, octets = flow.sent_bytes + count, octets - count
        except BlockingIOError:
            return True
        except OSError as error:
            self._end(flow, _name(error))
        return False

    def _end(self, flow: Sending, how: str) -> None:
        sock = flow.socket
        assert sock is not None
        algorithm = sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, ALGORITHM_BYTES)
        info = _tcp_info(sock)
        sample = parse_tcp_info(flow.source_port, algorithm.rstrip(b"\0").decode(), info)
        if isinstance(flow, Source):
            flow.report["steps"] = flow.steps
            if flow.request_bytes:
                flow.report["asked_bytes"] = flow.asked_bytes
            # The kernel counts the SYN, too.
            if flow.size_bytes is not None and sample.bytes_acked > flow.size_bytes:
                how = "finished"
        flow.report |= {
            "how": how,
            "ended_ns": time.monotonic_ns(),
            "algorithm": sample.algorithm,
            "told_bytes": flow.sent_bytes,
            "acked_bytes": sample.bytes_acked,
            "retransmits": sample.retransmits,
            "busy_s": sample.busy_s,
            "rwnd_limited_s": sample.rwnd_limited_s,
            "sndbuf_limited_s": sample.sndbuf_limited_s,
            "min_rtt_ms": struct.unpack_from("=I", info, MIN_RTT_AT)[0] / 1e3,
        }
        self._poll.unregister(sock.fileno())
        del self._open[sock.fileno()]
        if how != "finished":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        sock.close()
        flow.socket = None


def _tcp_info(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, TCP_INFO_BYTES)


def send(
    flows: Sequence[Sending], port: int, origin_ns: int, mark_s: float | None = None
) -> dict[str, Any]:
    """Run all flows, then end the receiver; return each flow's report."""
    allow_files(len(flows))
    Sender(flows, port, origin_ns, mark_s).run()
    if flows:
        with socket.socket(family_of(flows[0].source), socket.SOCK_STREAM) as last:
            last.settimeout(END_LIMIT_S)
            # The foreground flow's program may use the port, too.
            last.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # An address to which acknowledgements have a route.
            last.bind((flows[0].source, END_PORT))
            last.connect((flows[0].destination, port))
            last.recv(1)
    return {str(flow.source_port): flow.report for flow in flows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one end."""
    parser = argparse.ArgumentParser(description=__doc__)
    ends = parser.add_subparsers(dest="end", required=True)
    receiver, client, sender = map(ends.add_parser, ("receive", "request", "send"))
    for end, names in (
        (receiver, ("port", "count")),  # how many flows there will be
        (client, ("port", "request_bytes", "response_bytes", "think_ns", "count")),
        (sender, ("port", "origin_ns")),
    ):
        for name in names:
            end.add_argument(name, type=int)
    receiver.add_argument("--size", type=int, help="bytes of the foreground flow; 0: no limit")
    for end in (receiver, client):
        end.add_argument("--address", default="", help="own address; default: any of IPv4")
    sender.add_argument("--mark", type=float, help="time at which acknowledged bytes are noted")
    sender.add_argument("flows", nargs="+", help="JSON lists of the values of `Sending`")
    sender.add_argument("--pattern", help="JSON list of the steps of the only flow, a source")
    sender.add_argument("--requests", nargs=2, type=int, default=(0, 0),
                        help="bytes of a request and of its response")  # fmt: skip
    options = parser.parse_args(arguments)
    gc.disable()  # as in measure.py
    if options.end == "receive":
        reports = receive(options.port, options.count, options.size, options.address)
    elif options.end == "request":
        del options.end
        reports = request(**vars(options))
    else:
        flows = [Sending(*values) for chunk in options.flows for values in json.loads(chunk)]
        if options.pattern:
            asks, gets = options.requests
            more = {"request_bytes": asks, "response_bytes": gets}
            flows = [Source(**vars(flows[0]), pattern=json.loads(options.pattern), **more)]
            # How long Python starts must not decide when the flow does.
            late_ns = time.monotonic_ns() - options.origin_ns
            sleep_until(options.origin_ns + (late_ns // SOURCE_START_NS + 1) * SOURCE_START_NS)
        reports = send(flows, options.port, options.origin_ns, options.mark)
    # Exit without Python's shutdown, which would read the clock.
    sys.stdout.write(json.dumps(reports) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
