#!/usr/bin/env python3
"""Look up names over UDP: a client with a race between its timer and a reply, and its test.

The client sends a request again if no reply came within TIMEOUT_S, and takes the next datagram for
the reply. If a reply is later than the timer, there are two: the second one is taken for the reply
to the next request.
"""

import socket
import subprocess
import threading

ADDRESS = ("127.0.0.1", 5300)
TIMEOUT_S = 0.05
NAMES = ["alpha", "beta", "gamma"]


def serve(sock: socket.socket) -> None:
    """Answer each name in capitals."""
    while True:
        name, client = sock.recvfrom(512)
        sock.sendto(name.upper(), client)


def look_up(sock: socket.socket, name: str) -> str:
    """Ask for a name until there is a reply."""
    while True:
        sock.sendto(name.encode(), ADDRESS)
        try:
            return sock.recv(512).decode()
        except TimeoutError:
            print(f"{name}: no reply within {TIMEOUT_S} s, trying again")


# A path of 20 ms in each direction, and up to 6 ms more or less.
subprocess.run("tc qdisc add dev lo root netem delay 20ms 6ms", shell=True, check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(ADDRESS)
threading.Thread(target=serve, args=(server,), daemon=True).start()
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(TIMEOUT_S)
for name in NAMES:
    reply = look_up(client, name)
    print(f"{name}: {reply}")
    assert reply == name.upper(), f"the reply to {name} must be {name.upper()}, found {reply}"
