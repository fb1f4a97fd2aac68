"""Connections of user programs: which sockets count, and what is recorded of each."""

import socket
import struct
from dataclasses import replace

import pytest

from losslab.emulation.probes import tcp, userprograms

BLANK = tcp.parse_tcp_info(0, "", bytes(tcp.TCP_INFO.size))


def identity(local, remote, ports=(40000, 80), family=socket.AF_INET):
    """Return a struct inet_diag_sockid."""
    packed = [socket.inet_pton(family, each).ljust(16, b"\0") for each in (local, remote)]
    return struct.pack("!HH16s16s4x8s", *ports, *packed, b"cookie--")


@pytest.mark.parametrize(
    ("local", "remote", "family"),
    [
        ("10.0.1.1", "10.0.3.2", socket.AF_INET),
        ("::ffff:10.0.1.1", "::ffff:10.0.3.2", socket.AF_INET6),
    ],
)
def test_connections_between_hosts_count_also_from_dual_stack_sockets(local, remote, family):
    """A6, B: a dual-stack server's connections are IPv6 sockets with mapped addresses."""
    found = userprograms.ends(identity(local, remote, family=family))
    assert found == (40000, 80, b"cookie--")


@pytest.mark.parametrize(
    ("local", "remote", "family"),
    [
        ("127.0.0.1", "127.0.0.1", socket.AF_INET), ("10.0.3.2", "10.0.3.2", socket.AF_INET),
        ("127.0.0.1", "127.0.0.2", socket.AF_INET), ("::1", "::1", socket.AF_INET6),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", socket.AF_INET6),
    ],
)  # fmt: skip
def test_connections_within_a_host_do_not_count(local, remote, family):
    """A4: what a program hands on over loopback has no part in the measurement."""
    assert userprograms.ends(identity(local, remote, family=family)) is None


def test_recorded_connection_has_all_its_algorithms_and_limits():
    """A6: a program may change the algorithm of an open connection."""
    last = replace(BLANK, sent_bytes=5000, busy_s=1.5, rwnd_limited_s=0.5, sndbuf_limited_s=0.25)
    connection = userprograms.Connection("sender", (8000, 40000), ["cubic", "bbr"], last)
    assert connection.row() == "sender,8000,40000,cubic bbr,5000,1.500000,0.500000,0.250000"
    unread = userprograms.Connection("sender", (8000, 40000), [userprograms.UNKNOWN])
    assert unread.row() == "sender,8000,40000,unknown,,,,"
    for each in (connection, unread):
        assert each.row().count(",") == userprograms.CONNECTION_COLUMNS.count(",")


def test_sent_bytes_leave_retransmissions_out():
    info = bytearray(tcp.TCP_INFO.size)
    struct.pack_into("=QQ", info, 200, 7000, 2000)  # tcpi_bytes_sent, tcpi_bytes_retrans
    assert tcp.parse_tcp_info(1, "cubic", bytes(info)).sent_bytes == 5000


@pytest.mark.parametrize(("offset", "pending"), [(24, True), (144, True), (28, False)])
def test_data_that_are_unsent_or_unacknowledged_are_pending(offset, pending):
    """A5: tcpi_unacked and tcpi_notsent_bytes, and not tcpi_sacked."""
    info = bytearray(tcp.TCP_INFO.size)
    struct.pack_into("=I", info, offset, 1)
    assert tcp.parse_tcp_info(1, "cubic", bytes(info)).pending is pending
