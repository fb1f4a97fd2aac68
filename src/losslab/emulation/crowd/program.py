"""Both ends of many TCP flows, one process each: who sends what when is said on the command line.

The sender starts and stops flows on time and sends what TCP lets it; the receiver reads and drops.
Each prints, as JSON, what it saw of every flow, by the port that the flow comes from.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import heapq
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from losslab.emulation.crowd import reader
from losslab.emulation.crowd.reader import BLOCK_BYTES, allow_files
from losslab.emulation.probes.tcp import parse_tcp_info

BLOCK = bytes(BLOCK_BYTES)
# Per turn and flow, so that one does not keep the others waiting.
TURN_BLOCKS = 64
# What may be due, in the order in which it is done at one instant; how often a flow with a rate
# gets something, more often than a video has frames.
START, FEED, END = 0, 1, 2
# At most at a time: the kernel may be late by a thousandth of a wait (fs/select.c).
WAIT_S = 0.1
FEED_S = 0.02
TCP_CONGESTION, ALGORITHM_BYTES = 13, 16  # linux/tcp.h, TCP_CA_NAME_MAX of net/tcp.h
TCP_INFO, TCP_INFO_BYTES = 11, 256
MIN_RTT_AT = 148  # of tcpi_min_rtt in struct tcp_info, in µs, and all bits set where there is none
ABORT = struct.pack("ii", 1, 0)  # linger for 0 s: what waits is thrown away, and a reset sent
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
    told: int = 0  # bytes that the kernel took
    connected_s: float | None = None  # of a flow with a rate
    report: dict[str, Any] = field(default_factory=dict)


class Sender:
    """Starts, feeds and stops flows."""

    def __init__(self, flows: Sequence[Sending], port: int, origin_ns: int) -> None:
        """Stand before the first start; the flows' clock has its 0 s at `origin_ns`."""
        self._port, self._origin_ns = port, origin_ns
        self._flows = flows
        self._poll = select.epoll()
        self._open: dict[int, Sending] = {}
        self._due = [(flow.start_s, n, START) for n, flow in enumerate(flows)]
        heapq.heapify(self._due)

    def run(self) -> None:
        """Run until every flow has ended."""
        while self._due or self._open:
            now_s = self._now_s()
            while self._due and self._due[0][0] <= now_s:
                _, number, what = heapq.heappop(self._due)
                flow = self._flows[number]
                if what == START:
                    self._start(flow)
                    heapq.heappush(self._due, (flow.end_s, number, END))
                    if flow.rate_mbit is not None:
                        heapq.heappush(self._due, (now_s + FEED_S, number, FEED))
                elif flow.socket is not None and what == END:
                    self._end(flow, "stopped")
                elif flow.socket is not None:
                    heapq.heappush(self._due, (now_s + FEED_S, number, FEED))
                    self._feed(flow, now_s)
            # The ends of flows that have ended are nothing to wait for.
            if not self._open and not any(what == START for _, _, what in self._due):
                break
            wait_s = None
            if self._due:
                wait_s = min(max(0.0, self._due[0][0] - self._now_s()), WAIT_S)
            # The poll's own limit is in whole milliseconds, at which starts would pile up.
            select.select([self._poll], [], [], wait_s)
            for descriptor, _ in self._poll.poll(0):
                if descriptor in self._open:
                    self._serve(self._open[descriptor])

    def _now_s(self) -> float:
        return (time.monotonic_ns() - self._origin_ns) / 1e9

    def _start(self, flow: Sending) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        # Before it connects: what a socket was born under has then left nothing behind
        # (tcp_reinit_congestion_control, net/ipv4/tcp_cong.c).
        sock.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, flow.algorithm.encode())
        sock.bind((flow.source, flow.source_port))
        flow.socket = sock
        flow.report["started_ns"] = time.monotonic_ns()
        with contextlib.suppress(BlockingIOError):
            sock.connect((flow.destination, self._port))
        self._open[sock.fileno()] = flow
        self._poll.register(sock.fileno(), select.EPOLLOUT)

    def _serve(self, flow: Sending) -> None:
        """Send what the kernel takes; of a flow that has sent all, see whether it was received."""
        assert flow.socket is not None
        code = flow.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._end(flow, errno.errorcode.get(code, str(code)))
        elif flow.rate_mbit is not None:
            # From now on it is fed, and not asked whether it has room.
            flow.connected_s = self._now_s()
            self._poll.modify(flow.socket.fileno(), 0)
        elif flow.told == flow.size_bytes:
            # The receiver closes when it has read to the end.
            with contextlib.suppress(BlockingIOError):
                if not flow.socket.recv(1):
                    self._end(flow, "finished")
        else:
            self._send(flow)

    def _send(self, flow: Sending) -> None:
        assert flow.socket is not None
        for _ in range(TURN_BLOCKS):
            left = len(BLOCK) if flow.size_bytes is None else flow.size_bytes - flow.told
            if left == 0:
                break
            try:
                flow.told += flow.socket.send(BLOCK[:left])
            except BlockingIOError:
                return
            except OSError as error:
                self._end(flow, errno.errorcode.get(error.errno or 0, str(error)))
                return
        if flow.told == flow.size_bytes:
            flow.socket.shutdown(socket.SHUT_WR)
            self._poll.modify(flow.socket.fileno(), select.EPOLLIN)

    def _feed(self, flow: Sending, now_s: float) -> None:
        """Give a flow with a rate what it is behind; what the kernel does not take waits."""
        assert flow.socket is not None
        assert flow.rate_mbit is not None
        if flow.connected_s is None:
            return
        owed = int((now_s - flow.connected_s) * flow.rate_mbit * 1e6 / 8) - flow.told
        try:
            while owed > 0:
                count = flow.socket.send(BLOCK[:owed])
                flow.told, owed = flow.told + count, owed - count
        except BlockingIOError:
            return
        except OSError as error:
            self._end(flow, errno.errorcode.get(error.errno or 0, str(error)))

    def _end(self, flow: Sending, how: str) -> None:
        sock = flow.socket
        assert sock is not None
        algorithm = sock.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, ALGORITHM_BYTES)
        info = sock.getsockopt(socket.IPPROTO_TCP, TCP_INFO, TCP_INFO_BYTES)
        seen = parse_tcp_info(flow.source_port, algorithm.rstrip(b"\0").decode(), info)
        flow.report |= {
            "how": how,
            "ended_ns": time.monotonic_ns(),
            "algorithm": seen.algorithm,
            "told_bytes": flow.told,
            "acked_bytes": seen.bytes_acked,
            "retransmits": seen.retransmits,
            "busy_s": seen.busy_s,
            "rwnd_limited_s": seen.rwnd_limited_s,
            "sndbuf_limited_s": seen.sndbuf_limited_s,
            "min_rtt_ms": struct.unpack_from("=I", info, MIN_RTT_AT)[0] / 1e3,
        }
        self._poll.unregister(sock.fileno())
        del self._open[sock.fileno()]
        if how != "finished":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        sock.close()
        flow.socket = None


def send(flows: Sequence[Sending], port: int, origin_ns: int) -> dict[str, Any]:
    """Run all flows, then tell the receiver; return what was seen of each."""
    allow_files(len(flows))
    Sender(flows, port, origin_ns).run()
    if flows:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as last:
            last.settimeout(END_LIMIT_S)
            # From where its acknowledgements find back.
            last.bind((flows[0].source, reader.END_PORT))
            last.connect((flows[0].destination, port))
            last.recv(1)
    return {str(flow.source_port): flow.report for flow in flows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one end."""
    parser = argparse.ArgumentParser(description=__doc__)
    ends = parser.add_subparsers(dest="end", required=True)
    receiver = ends.add_parser("receive")
    receiver.add_argument("port", type=int)
    receiver.add_argument("count", type=int, help="how many flows there will be")
    sender = ends.add_parser("send")
    sender.add_argument("port", type=int)
    sender.add_argument("origin_ns", type=int)
    sender.add_argument("flows", nargs="+", help="JSON lists of the values of `Sending`")
    options = parser.parse_args(arguments)
    gc.disable()  # as in measure.py
    if options.end == "receive":
        seen = reader.receive(options.port, options.count)
    else:
        told = [Sending(*values) for chunk in options.flows for values in json.loads(chunk)]
        seen = send(told, options.port, options.origin_ns)
    # At once, and past Python's own end, which would look at the clock.
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
