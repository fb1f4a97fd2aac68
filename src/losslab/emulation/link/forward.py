"""Trace-driven link of a path: a program behind a TUN device on the first router.

In virtual time the link is exact: computing takes no time, and its timers are on time. In real time
it is late by the host's scheduling delay: tens of microseconds on an idle host, more on a loaded
one. Its log has the times of the trace, without that delay.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
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

from losslab.emulation.link import tracelink
from losslab.emulation.link.queues import queue_of
from losslab.emulation.link.tracelink import TraceLink
from losslab.emulation.programs import ANY, PYTHON, Host, Waiter, sleep_until
from losslab.emulation.topology import RECEIVER_NETWORK, SENDER_NETWORK, interface
from losslab.errors import LosslabError
from losslab.study.packetsizes import DEFAULT

if TYPE_CHECKING:
    from losslab.emulation.hosts import Handle
    from losslab.emulation.plan import Plan

# The router of every link, and the link's program.
ROUTER, MODULE = "r1", "losslab.emulation.link.forward"
READY = "ready"
# The part of a plan with the start of its traces; absent for 0.
START = "trace_start_ms"
# Seed of the queue's own draws; absent for queues that draw nothing.
SEED = "trace_queue_seed"
PACKET_BYTES_MAX = 65_536
LOG = "link.log"
LOGS = {"data": LOG, "back": "link-back.log"}
# Maximum time in which the link must empty its queue once no more packets arrive.
DRAIN_LIMIT_S = 600
NS_PER_MS = 10**6
TUNSETIFF = 0x4004_54CA  # linux/if_tun.h
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
PR_SET_TIMERSLACK = 29  # linux/prctl.h; the default of 50 us would make every departure late


@dataclass(frozen=True)
class LinkPlan:
    """Trace-driven link: its direction, queue and trace. Manifests record the fields' names."""

    way: str  # "data" (forward path) or "back" (reverse path)
    queue: str
    buffer_packets: int
    drawn_seed: int | None  # None: the trace is a file
    drawn_mbit: float  # mean rate of a drawn trace

    @property
    def file(self) -> str:
        """Return the name of the trace's file in the job's folder."""
        return {"data": "trace", "back": "trace-back"}[self.way]


@dataclass(frozen=True)
class PolicyRoute:
    """Policy route that sends the packets of one direction to a link's TUN device."""

    device: str
    table: int
    network: str  # the packets' destination
    selector: str  # the packets' port at the sender: source or destination port


ROUTES = {
    "data": PolicyRoute("link0", 100, RECEIVER_NETWORK, "sport"),
    "back": PolicyRoute("link1", 200, SENDER_NETWORK, "dport"),
}


@contextlib.contextmanager
def attached(
    router: Host, handle: Handle, link: LinkPlan, plan: Plan, folder: Path, begin_ns: int
) -> Iterator[None]:
    """Send a plan's flows in one direction over a trace-driven link during the block.

    Other connections of the programs, and pings, bypass the link: behind seconds of queue, iperf3
    would give up waiting for its peer's results (nread_read_timeout, src/net.c).

    The trace begins at `begin_ns` of CLOCK_MONOTONIC, which is 0 ms of the log. At the block's end,
    the link empties its queue and is removed. It writes its log to `folder` and reads its trace
    from the folder's parent.
    """
    route, log = ROUTES[link.way], LOGS[link.way]
    incoming = interface(ROUTER, "sender" if link.way == "data" else plan.back_router).name
    expected = sorted(
        {
            (protocol, flow.source_port)
            for flow in plan.flows
            # Not ICMP: pings bypass the link.
            for protocol in (("tcp", "udp") if flow.protocol == ANY else (flow.protocol,))
        },
        key=str,
    )
    mtu_bytes = plan.path_spec.sizes.mtu_bytes
    other_mtu = mtu_bytes != DEFAULT.mtu_bytes
    rules = [
        f"rule add pref {route.table + n} iif {incoming} ipproto {protocol} "
        + (f"{route.selector} {port} " if port else "")
        + f"lookup {route.table}"
        for n, (protocol, port) in enumerate(expected)
    ]
    handle.ip.do(
        [
            f"tuntap add dev {route.device} mode tun",
            f"link set {route.device} up txqueuelen 10000"
            + (f" mtu {mtu_bytes}" if other_mtu else ""),
            f"route add {route.network} dev {route.device} table {route.table}",
        ]
    )
    options = {
        "device": route.device, "trace": str(folder.parent / link.file), "queue": link.queue,
        "limit_packets": link.buffer_packets, "log": str(folder / log), "begin_ns": begin_ns,
        "start_ms": plan.parts.get(START, 0), "seed": plan.parts.get(SEED, 0),
        "mtu_bytes": mtu_bytes,
    }  # fmt: skip
    errors = folder / f"{route.device}.err"
    with errors.open("wb") as stderr:
        program = router.popen(
            [*PYTHON, MODULE, json.dumps(options)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
        )  # fmt: skip
        try:
            assert program.stdout is not None
            if program.stdout.readline().decode().strip() != READY:
                raise LosslabError(
                    f"the trace-driven link did not start: {errors.read_text().strip()}"
                )
            handle.ip.do(rules)
            _require_in_path(handle, route, expected)
            yield
            # Packets that TCP still sends bypass the link, so that its queue empties.
            handle.ip.do([rule.replace("add", "del", 1) for rule in rules])
            program.send_signal(signal.SIGTERM)
            status = program.wait(timeout=DRAIN_LIMIT_S)
            if status != 0:
                raise LosslabError(
                    f"the trace-driven link ended with status {status}, expected 0: "
                    f"{errors.read_text().strip()}"
                )
        finally:
            program.kill()
            program.wait()
    errors.unlink()
    handle.ip.do([f"link del {route.device}"])


def _require_in_path(
    handle: Handle, route: PolicyRoute, expected: Sequence[tuple[str, int | None]]
) -> None:
    """Require that the router sends the packets of each (protocol, port) over the link."""
    table = route.table
    rules, routes = handle.ip.ask(["rule show", f"route show table {table}"], 2)
    selected = [
        (rule.get("ipproto"), rule.get(route.selector))
        for rule in rules
        if rule.get("table") == str(table)
    ]
    if selected != list(expected):
        raise LosslabError(f"rules must send {expected} to table {table}, found {rules}")
    destinations = [(r["dst"], r.get("dev")) for r in routes]
    if destinations != [(route.network, route.device)]:
        raise LosslabError(
            f"table {table} must route {route.network} over {route.device}, found {destinations}"
        )


def forward(link: TraceLink, tun: int, stop: int, begin_ns: int) -> None:
    """Read packets from a TUN device and write them back when they depart from the link.

    Return when `stop` is readable and neither the link nor the device has packets left. `begin_ns`
    is CLOCK_MONOTONIC at the link's 0 ms.
    """
    running, draining = Waiter(tun, stop), Waiter(tun)
    stopping = False
    now_ns = time.monotonic_ns()

    def now_ms() -> int:
        return (now_ns - begin_ns) // NS_PER_MS

    while True:
        for content in link.advance(now_ms()):
            os.write(tun, content)
        if stopping and not link.busy and not draining.wait(0):
            return
        # An idle link needs no timer: its opportunities pass unused.
        due_ns = None
        if link.busy:
            due_ns = max(0, begin_ns + link.next_ms * NS_PER_MS - now_ns)
        ready = (draining if stopping else running).wait(due_ns)
        # Read the clock once per turn: a read is a system call, and no virtual time passes while
        # the link computes.
        now_ns = time.monotonic_ns()
        stopping = stopping or stop in ready
        if tun in ready:
            # Read one packet per turn; if more wait, the next turn starts at once.
            for departed in link.arrive(os.read(tun, PACKET_BYTES_MAX), now_ms()):
                os.write(tun, departed)


def main(arguments: Sequence[str]) -> int:
    """Run the link until SIGTERM, then until its queue is empty; `attached` has the options."""
    options = json.loads(arguments[0])
    gc.disable()  # collections read the clock; packets leave no reference cycles
    times = tracelink.parse(Path(options["trace"]).read_text(), options["trace"])
    # The handler does nothing: the signal makes the pipe readable.
    stop, stopped = os.pipe2(os.O_NONBLOCK)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.set_wakeup_fd(stopped)
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    with Path(options["log"]).open("w") as log:
        limits = options["limit_packets"], options["mtu_bytes"]
        queue = queue_of(options["queue"], *limits, options["seed"], tracelink.mean_mbit(times))
        link = TraceLink(times, queue, lambda line: log.write(line + "\n"), options["start_ms"])
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        request = struct.pack("16sH22x", options["device"].encode(), IFF_TUN | IFF_NO_PI)
        fcntl.ioctl(tun, TUNSETIFF, request)
        if time.monotonic_ns() > options["begin_ns"]:
            raise LosslabError("the link must be ready before its trace begins, found it late")
        print(READY, flush=True)
        sleep_until(options["begin_ns"])
        forward(link, tun, stop, options["begin_ns"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
