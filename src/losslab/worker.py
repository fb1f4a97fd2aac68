"""The `losslab` command, and worker processes for `losslab cell`.

Importing losslab and checking its tables takes Python half a second, and a campaign starts
`losslab cell` for hundreds of cells. A process that has done both forks a worker for each. The
worker has the command's open files and environment, and ends with the command.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys

TYPE_CHECKING = False  # as in `typing`, which takes 10 ms to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

# Environment variable with the path of the socket.
VARIABLE = "LOSSLAB_WORKERS"
REQUEST_BYTES, STATUS_BYTES = 2**20, 32
WAIT_S = 0.5


def main() -> int:
    """Run the command, a cell's in a worker if there is one; return the exit status."""
    path = os.environ.get(VARIABLE)
    status = _in_worker(path) if path and sys.argv[1:2] == ["cell"] else None
    if status is not None:
        return status
    from losslab import cli

    return cli.main()


def _place() -> list[str]:
    """Return what this process and a worker must have in common."""
    return [sys.prefix, os.getcwd()]


def _in_worker(path: str) -> int | None:
    """Run this command in a worker; return its exit status, or None if there is no worker."""
    request = {"place": _place(), "words": sys.argv, "environment": {**os.environ}}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        try:
            server.connect(path)
            socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
            worker = int(server.recv(STATUS_BYTES) or 0)
        except OSError:
            worker = 0
        if not worker:
            return None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _: os.kill(worker, received))
        # If a signal arrives just before a blocking call, Python handles it when that call returns.
        server.settimeout(WAIT_S)
        while True:
            with contextlib.suppress(TimeoutError):
                # A worker that was killed sends nothing.
                return int(server.recv(STATUS_BYTES) or 128 + signal.SIGKILL)


@contextlib.contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Offer workers to child processes; yield the variable that these need."""
    import tempfile

    from losslab import processes

    # Only this user may enter the folder.
    with tempfile.TemporaryDirectory(prefix="losslab-workers-") as folder:
        path = os.path.join(folder, "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen(128)
            words = [sys.executable, "-m", "losslab.worker", str(listener.fileno())]
            server = processes.spawn(words, pass_fds=[listener.fileno()])
        try:
            yield {VARIABLE: path}
        finally:
            server.kill()
            server.wait()


def _serve(listener: socket.socket) -> None:
    """Fork a worker for each request, until the process that started this one ends it."""
    from losslab import steps

    with contextlib.suppress(Exception):  # a worker reports errors
        steps.read_ahead()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers leave no zombies
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _work(connection)
        connection.close()


def _work(connection: socket.socket) -> NoReturn:
    """Run a request's command in this process, and exit with its status."""
    import fcntl

    from losslab import cli

    text, files, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
    request: dict[str, Any] = json.loads(text)
    if request["place"] != _place():
        os._exit(0)  # the command then runs by itself
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["words"]
    # The kernel sends SIGTERM as soon as the command's process has ended in any way.
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(connection, fcntl.F_SETFL, os.O_ASYNC)
    connection.send(str(os.getpid()).encode())
    try:
        status: Any = cli.main()
    except SystemExit as error:
        status = error.code or 0
    for number in (signal.SIGINT, signal.SIGTERM):  # too late to change the status
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError):  # the command was killed
        connection.send(str(status).encode())
    os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
