"""Load a program's module ahead of the traffic, and run it when its arguments come.

Collections of garbage read the clock, which takes virtual time, and they happen after a number of
allocations: one more import would change the time of the traffic. So this module turns them off
before it imports anything of losslab.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys

READY, GO = b"r", b"g"
STREAMS = 3  # standard input, output and error


def main(name: str) -> int:
    """Load a module, wait for streams and arguments, and run the module's `main`."""
    gc.disable()
    module = importlib.import_module(name)
    # A duplicate, because standard input is replaced below.
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as control:
        control.sendall(READY)
        message, numbers, _, _ = socket.recv_fds(control, len(GO), STREAMS)
        if message != GO:  # the parent has ended
            return 0
        text = b""
        while part := control.recv(65_536):
            text += part
    for target, number in enumerate(numbers):
        os.dup2(number, target)
    for number in numbers:
        os.close(number)
    sys.stdout.reconfigure(line_buffering=False)  # type: ignore[union-attr]  # a file now
    sys.argv = [name, *json.loads(text)]
    status: int = module.main(sys.argv[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
