"""Put a trace-driven link into a path: a program behind a TUN device on the first router.

In virtual time it is exact: computing takes no time, and its timers are on time. In real time it is
late by what the host needs to schedule it, some tens of microseconds on an idle host and more on a
loaded one; what it logs are the times that the trace asks for.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import gc
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from losslab.emulation.flows import Host
from losslab.emulation.link import traces
from losslab.emulation.link.tracelink import QUEUES, TraceLink
from losslab.emulation.standby import PYTHON
from losslab.emulation.topology import RECEIVER_NETWORK, SENDER_NETWORK, interface
from losslab.emulation.waits import Waiter, wait_for_whole_second
from losslab.errors import LosslabError

if TYPE_CHECKING:
    from losslab.emulation.batch import Handle
    from losslab.emulation.plan import Plan

# Where every link is, and its program.
ROUTER, MODULE = "r1", "losslab.emulation.link.forward"
READY = "ready"
PACKET_BYTES_MAX = 65_536
LOG = "link.log"
LOGS = {"data": LOG, "back": "link-back.log"}
# The longest that a queue may take to empty once nothing comes in any more.
DRAIN_LIMIT_S = 600
NS_PER_MS = 10**6
TUNSETIFF = 0x4004_54CA  # linux/if_tun.h
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PR_SET_TIMERSLACK = 29  # linux/prctl.h; the default of 50 us would make every departure late


@dataclass(frozen=True)
class LinkPlan:
    """A trace-driven link: its way, what it does with what waits, and who draws its trace."""

    way: str  # "data" or "back"
    queue: str
    buffer_packets: int
    drawn_seed: int | None  # None: the trace is a file
    drawn_mbit: float  # its mean, where it is drawn

    @property
    def file(self) -> str:
        """Name the trace's file in the job's folder."""
        return {"data": "trace", "back": "trace-back"}[self.way]


@dataclass(frozen=True)
class Way:
    """Where a link takes packets out of the path, and where it gives them back to."""

    device: str
    table: int
    network: str  # what the packets are for
    selector: str  # which port of theirs is the sender's


WAYS = {
    "data": Way("link0", 100, RECEIVER_NETWORK, "sport"),
    "back": Way("link1", 200, SENDER_NETWORK, "dport"),
}


@contextlib.contextmanager
def attached(
    router: Host, handle: Handle, link: LinkPlan, plan: Plan, folder: Path
) -> Iterator[int]:
    """Send what a plan's flows say one way over a trace-driven link.

    Not what else a program says, on connections of its own: behind seconds of queue iperf3 would
    give up waiting for its peer's results (nread_read_timeout, src/net.c). And not pings.

    At the end the link has emptied its queue and is gone; `folder` has its log, and beside it is
    its trace. Yields the monotonic clock's nanoseconds at the 0 ms of the log.
    """
    way, log = WAYS[link.way], LOGS[link.way]
    came_from = interface(ROUTER, "sender" if link.way == "data" else plan.back_router).name
    wanted = sorted({(flow.protocol, flow.source_port) for flow in plan.flows}, key=str)
    rules = [
        f"rule add pref {way.table + n} iif {came_from} ipproto {protocol} "
        + (f"{way.selector} {port} " if port else "")
        + f"lookup {way.table}"
        for n, (protocol, port) in enumerate(wanted)
    ]
    handle.ip.do(
        [
            f"tuntap add dev {way.device} mode tun",
            f"link set {way.device} up txqueuelen 10000",
            f"route add {way.network} dev {way.device} table {way.table}",
        ]
    )
    command = [
        *PYTHON, MODULE,
        "--device", way.device, "--trace", str(folder.parent / link.file),
        "--queue", link.queue, "--limit-packets", str(link.buffer_packets),
        "--log", str(folder / log),
    ]  # fmt: skip
    errors = folder / f"{way.device}.err"
    with errors.open("wb") as stderr:
        program = router.popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr
        )
        try:
            assert program.stdout is not None
            word, _, begin_ns = program.stdout.readline().decode().strip().partition(" ")
            if word != READY:
                raise LosslabError(
                    f"the trace-driven link must start, found: {errors.read_text().strip()}"
                )
            handle.ip.do(rules)
            _require_in_path(handle, way, wanted)
            yield int(begin_ns)
            # What TCP still sends goes the ordinary way, or the link would never be empty.
            handle.ip.do([rule.replace("add", "del", 1) for rule in rules])
            program.send_signal(signal.SIGTERM)
            status = program.wait(timeout=DRAIN_LIMIT_S)
            if status != 0:
                raise LosslabError(
                    f"the trace-driven link must end with 0, found {status}: "
                    f"{errors.read_text().strip()}"
                )
        finally:
            program.kill()
            program.wait()
    errors.unlink()
    handle.ip.do([f"link del {way.device}"])


def _require_in_path(handle: Handle, way: Way, wanted: Sequence[tuple[str, int | None]]) -> None:
    """Refuse a router that does not send the flows' packets, (protocol, port), over the link."""
    rules, routes = handle.ip.ask(["rule show", f"route show table {way.table}"], 2)
    found = [
        (r.get("ipproto"), r.get(way.selector)) for r in rules if r.get("table") == str(way.table)
    ]
    if found != list(wanted):
        raise LosslabError(f"rules to table {way.table} must be there for {wanted}, found {rules}")
    ways = [(route["dst"], route.get("dev")) for route in routes]
    if ways != [(way.network, way.device)]:
        raise LosslabError(
            f"table {way.table} must lead to {way.network} over {way.device}, found {ways}"
        )


def _open_tun(device: str) -> int:
    """Attach to a TUN device."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI)
    fcntl.ioctl(descriptor, TUNSETIFF, request)
    return descriptor


def forward(link: TraceLink, tun: int, stop: int, begin_ns: int) -> None:
    """Take packets from the TUN device and give them back when they have left the link.

    Ends when there is something to read from `stop` and nothing waits any more, neither in the link
    nor in the device.

    `stop` is readable when it is to end; `begin_ns` is the monotonic clock at the link's 0 ms.
    """
    at_work, at_its_end = Waiter(tun, stop), Waiter(tun)
    stopping = False
    now_ns = time.monotonic_ns()

    def now_ms() -> int:
        return (now_ns - begin_ns) // NS_PER_MS

    while True:
        for content in link.advance(now_ms()):
            os.write(tun, content)
        if stopping and not link.busy and not at_its_end.wait(0):
            return
        # With nothing to send, opportunities pass unused; there is nothing to wake for.
        due_ns = None
        if link.busy:
            due_ns = max(0, begin_ns + link.next_ms * NS_PER_MS - now_ns)
        ready = (at_its_end if stopping else at_work).wait(due_ns)
        # Once per turn: a look at the clock is a system call, and in virtual time none passes
        # while the link computes.
        now_ns = time.monotonic_ns()
        stopping = stopping or stop in ready
        if tun in ready:
            # One packet per turn; more that wait make the next turn come at once.
            for departed in link.arrive(os.read(tun, PACKET_BYTES_MAX), now_ms()):
                os.write(tun, departed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the link until SIGTERM, and then until its queue is empty."""
    parser = argparse.ArgumentParser(description="forward packets over a trace-driven link")
    parser.add_argument("--device", required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--queue", choices=sorted(QUEUES), default="fifo")
    parser.add_argument("--limit-packets", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args(arguments)
    gc.disable()  # as in measure.py; packets come and go without cycles
    times = traces.parse(options.trace.read_text(), str(options.trace))
    # The handler does nothing; that the signal came is written to the pipe.
    stop, stopped = os.pipe2(os.O_NONBLOCK)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(stopped)
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    with options.log.open("w") as log:
        queue = QUEUES[options.queue](options.limit_packets)
        link = TraceLink(times, queue, lambda line: log.write(line + "\n"))
        tun = _open_tun(options.device)
        wait_for_whole_second()
        begin_ns = time.monotonic_ns()
        print(READY, begin_ns, flush=True)
        forward(link, tun, stop, begin_ns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
