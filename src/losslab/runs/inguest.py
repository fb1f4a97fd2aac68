"""Run a user's test in a guest: a program of a job's folder.

It copies the user's files into the guest's memory, starts the command there, and writes its output
and its end. Packets and TCP events of the guest's own network namespace are recorded without
waiting and without reading the clock while the command runs, so its timing does not change.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab.emulation import capture
from losslab.emulation.probes import Record

JOB = Path("/mnt/out")
OUTPUT, END, PACKETS, EVENTS, FILES = "output", "end.json", "packets", "events", "files.tar"
HOSTS, NAME = "hosts", "localhost"
MS_BIND = 4096  # mount(2)
# getaddrinfo's AI_ADDRCONFIG finds no address of a family that only 127.0.0.1 or ::1 has.
ADDRESSES = ("192.0.2.1/32", "2001:db8::1/128")
LOOPBACK_UP = "link set lo up\n" + "".join(f"address add {a} dev lo\n" for a in ADDRESSES)
WORK = Path("/tmp/work")
# A test begins at a time within this span that its seed draws: kernel timers tick every 4 ms.
START_NS = 1_000_000_000
# What the guest's first program has for itself (containers/host/init).
OWN_VARIABLES = ("PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE")
OUTPUT_MAX_BYTES = 2**26
CHUNK_BYTES = 2**16
RING_BYTES = 2**27  # half a million packets
# `struct sockaddr_ll` behind the header of a packet in the ring (packet(7)).
ADDRESS = struct.Struct("=HHiHBB")
ADDRESS_AT = 32
LOOPBACK, OUTGOING = 772, 4
IPV4, IPV6, TCP, UDP = 0x0800, 0x86DD, 6, 17
PROTOCOLS = {1: "ICMP", TCP: "TCP", UDP: "UDP", 58: "ICMPv6"}
FLAGS, SYN, ACK = "FSRPAUEC", 0x02, 0x10  # of TCP, from the lowest bit
FIRST_EPHEMERAL_PORT = 32_768  # ip_local_port_range


def main() -> None:
    """Run the test of job.json."""
    test = json.loads((JOB / "job.json").read_text())["test"]
    WORK.mkdir()
    if (JOB / FILES).exists():
        with tarfile.open(JOB / FILES) as tar:
            tar.extractall(WORK, filter="fully_trusted")
    ring = _ring() if test["records"] else None
    for name in ("all", "default", "lo"):  # measured paths have no IPv6 unless a cell is of IPv6
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("0")
    subprocess.run(["ip", "-batch", "-"], input=LOOPBACK_UP, text=True, check=True)
    _names()
    if test["begin_s"] is not None:
        time.clock_settime(time.CLOCK_REALTIME, test["begin_s"])
    record = Record() if test["records"] else None
    if record:
        record.begin("events")
    time.sleep(int.from_bytes(os.getrandom(8)) % START_NS / 1e9)
    begin_ns, begin_s = time.time_ns(), time.monotonic()
    end = _run(test["command"], test["limit_s"])
    end |= {"virtual_s": (time.time_ns() - begin_ns) / 1e9, "begin_s": begin_s}
    if record and ring:
        (JOB / EVENTS).write_bytes(record.read())
        (JOB / PACKETS).write_text("".join(f"{line}\n" for line in _packets(ring[1], begin_ns)))
    (JOB / END).write_text(json.dumps(end))


def _names() -> None:
    """Give the guest a name, and replace the image's names, which are those of measured paths.

    No process starts and no file in memory is made: both would draw from the seed.
    """
    socket.sethostname(NAME)
    (JOB / HOSTS).write_text(f"127.0.0.1 {NAME}\n::1 {NAME} ip6-{NAME} ip6-loopback\n")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(os.fsencode(JOB / HOSTS), b"/etc/hosts", None, MS_BIND, None):
        raise OSError(ctypes.get_errno(), "cannot replace /etc/hosts")


def _run(command: list[str], limit_s: float) -> dict[str, Any]:
    """Run a command to its end; return its status, or why it was ended."""
    variables = {key: value for key, value in os.environ.items() if key not in OWN_VARIABLES}
    try:
        process = subprocess.Popen(
            command, cwd=WORK, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return {"status": 127, "why": f"cannot start {command[0]}: {error.strerror}"}
    assert process.stdout is not None
    source, ended = process.stdout.fileno(), os.pidfd_open(process.pid)
    os.set_blocking(source, False)
    polled = select.poll()
    polled.register(source, select.POLLIN)
    polled.register(ended, select.POLLIN)
    why, count, deadline_s = "", 0, time.monotonic() + limit_s
    with (JOB / OUTPUT).open("wb", buffering=0) as out:
        while True:
            ready = dict(polled.poll(max(0.0, deadline_s - time.monotonic()) * 1e3))
            if source in ready:
                chunk = os.read(source, CHUNK_BYTES)
                count += out.write(chunk)
                if not chunk:
                    polled.unregister(source)
            elif ended in ready:
                break
            if not ready:
                why = f"did not end within {limit_s:g} s of virtual time"
            elif count > OUTPUT_MAX_BYTES:
                why = f"printed more than {OUTPUT_MAX_BYTES >> 20} MiB"
            if why:
                os.killpg(process.pid, signal.SIGKILL)
                break
    return {"status": process.wait(), "why": why}


def _ring() -> tuple[socket.socket, mmap.mmap]:
    """Capture all interfaces of this network namespace; return a socket and its ring.

    No interface is up yet.
    """
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(capture.ETH_P_ALL))
    sock.setsockopt(capture.SOL_PACKET, capture.PACKET_VERSION, capture.TPACKET_V2)
    request = struct.pack(
        "=IIII", capture.BLOCK_BYTES, RING_BYTES // capture.BLOCK_BYTES, capture.FRAME_ROOM_BYTES,
        RING_BYTES // capture.FRAME_ROOM_BYTES,
    )  # fmt: skip
    sock.setsockopt(capture.SOL_PACKET, capture.PACKET_RX_RING, request)
    return sock, mmap.mmap(sock.fileno(), RING_BYTES)


def _packets(ring: mmap.mmap, begin_ns: int) -> Iterator[str]:
    """Yield a line for each packet: its time in s since the command began, a tab, and its text."""
    names = Names()
    for at in range(0, len(ring), capture.FRAME_ROOM_BYTES):
        status, length, kept, mac, net, sec, nsec = capture.HEADER.unpack_from(ring, at)
        if not status & capture.TP_STATUS_USER:
            break
        _, kind, index, hardware, direction, _ = ADDRESS.unpack_from(ring, at + ADDRESS_AT)
        if hardware == LOOPBACK and direction == OUTGOING:
            continue  # it is captured again where it arrives
        packet = ring[at + net : at + mac + kept]
        text = names.packet(packet, length - (net - mac), socket.ntohs(kind))
        time_s = (sec * 1_000_000_000 + nsec - begin_ns) / 1e9
        yield f"{time_s:.9f}\t{_interface(index)} {text}"


def _interface(index: int) -> str:
    try:
        return socket.if_indextoname(index)
    except OSError:  # it is gone
        return f"interface {index}"


class Names:
    """Names for what the kernel draws: ephemeral ports, and first sequence numbers."""

    def __init__(self) -> None:
        self._ports = dict[int, str]()
        self._first = dict[tuple[str, str], int]()

    def _port(self, number: int) -> str:
        if number < FIRST_EPHEMERAL_PORT:
            return str(number)
        return self._ports.setdefault(number, f"port{len(self._ports) + 1}")

    def packet(self, packet: bytes, octets: int, kind: int) -> str:
        """Describe a packet of a length, given its beginning and kind (ETH_P_IP and others)."""
        try:
            return self._ip(packet, octets, kind)
        except (struct.error, IndexError, ValueError):  # cut short
            return f"protocol {kind:#06x}, {octets} bytes"

    def _ip(self, packet: bytes, octets: int, kind: int) -> str:
        if kind == IPV4:
            header, protocol = 4 * (packet[0] & 0x0F), packet[9]
            source, target = (socket.inet_ntop(socket.AF_INET, packet[n : n + 4]) for n in (12, 16))
        elif kind == IPV6:
            header, protocol = 40, packet[6]
            source, target = (
                f"[{socket.inet_ntop(socket.AF_INET6, packet[n : n + 16])}]" for n in (8, 24)
            )
        else:
            return f"protocol {kind:#06x}, {octets} bytes"
        name = PROTOCOLS.get(protocol, f"protocol {protocol}")
        if protocol not in (TCP, UDP):
            return f"{source} > {target} {name} type {packet[header]}, {octets - header} bytes"
        ports = struct.unpack_from("!HH", packet, header)
        ends = [f"{ip}:{self._port(n)}" for ip, n in zip((source, target), ports, strict=True)]
        if protocol == UDP:
            return f"{ends[0]} > {ends[1]} UDP, {octets - header - 8} bytes"
        begin, acked, offset, flags = struct.unpack_from("!IIBB", packet, header + 4)
        first = self._first.setdefault((ends[0], ends[1]), begin)
        if flags & SYN:
            first = self._first[ends[0], ends[1]] = begin
        other = self._first.get((ends[1], ends[0]), acked)
        letters = "".join(c for n, c in enumerate(FLAGS) if flags >> n & 1)
        data = octets - header - 4 * (offset >> 4)
        return (
            f"{ends[0]} > {ends[1]} TCP {letters} seq {(begin - first) % 2**32} "
            f"ack {(acked - other) % 2**32 if flags & ACK else 0}, {data} bytes"
        )


if __name__ == "__main__":
    main()
