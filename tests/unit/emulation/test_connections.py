"""Connections of user programs, as both of their ends see them."""

import socket
import struct
from dataclasses import replace

import pytest

from losslab.emulation import connections, probes

BLANK = probes.parse_tcp_info(0, "", bytes(probes.TCP_INFO.size))


def identity(local, remote, ports=(40000, 80), family=socket.AF_INET):
    """Return a struct inet_diag_sockid."""
    packed = [socket.inet_pton(family, each).ljust(16, b"\0") for each in (local, remote)]
    return struct.pack("!HH16s16s4x8s", *ports, *packed, b"cookie--")


@pytest.mark.parametrize(
    ("local", "remote", "family", "between"),
    [
        ("10.0.1.1", "10.0.3.2", socket.AF_INET, True),
        # A dual-stack server's connections are IPv6 sockets with mapped addresses.
        ("::ffff:10.0.1.1", "::ffff:10.0.3.2", socket.AF_INET6, True),
        # What a program hands on over loopback has no part in the measurement.
        ("127.0.0.1", "127.0.0.1", socket.AF_INET, False),
        ("10.0.3.2", "10.0.3.2", socket.AF_INET, False),
        ("127.0.0.1", "127.0.0.2", socket.AF_INET, False),
        ("::1", "::1", socket.AF_INET6, False),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", socket.AF_INET6, False),
    ],
)
def test_connections_between_hosts_count(local, remote, family, between):
    found = connections.ends(identity(local, remote, family=family))
    addresses = {socket.inet_aton(each) for each in ("10.0.1.1", "10.0.3.2")}
    assert found == ((40000, 80, b"cookie--", addresses) if between else None)


def test_recorded_connection_has_all_its_algorithms_and_limits():
    """A6: a program may change the algorithm of an open connection."""
    last = replace(BLANK, sent_bytes=5000, busy_s=1.5, rwnd_limited_s=0.5, sndbuf_limited_s=0.25)
    connection = connections.Connection("sender", (8000, 40000), ["cubic", "bbr"], last)
    assert connection.row() == "sender,8000,40000,cubic bbr,5000,1.500000,0.500000,0.250000"
    unread = connections.Connection("sender", (8000, 40000), [connections.UNKNOWN])
    assert unread.row() == "sender,8000,40000,unknown,,,,"
    for each in (connection, unread):
        assert each.row().count(",") == connections.CONNECTION_COLUMNS.count(",")


@pytest.mark.parametrize(("offset", "pending"), [(24, True), (144, True), (28, False)])
def test_data_that_are_unsent_or_unacknowledged_are_pending(offset, pending):
    """A5: tcpi_unacked and tcpi_notsent_bytes, and not tcpi_sacked."""
    info = bytearray(probes.TCP_INFO.size)
    struct.pack_into("=I", info, offset, 1)
    assert probes.parse_tcp_info(1, "cubic", bytes(info)).pending is pending
