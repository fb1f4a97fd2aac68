"""The `losslab` command, and worker processes for `losslab cell`.

To import losslab and to check its tables takes Python half a second. A campaign starts
`losslab cell` for hundreds of cells, so that a process which has done both forks a worker for each.
The worker has the command's files, folder and environment. It ends with the command.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

TYPE_CHECKING = False  # as in `typing`, which takes 10 ms to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

# Environment variable with the path of the socket.
VARIABLE = "LOSSLAB_WORKERS"
REQUEST_BYTES = 2**20
STATUS_BYTES = 32


def main() -> int:
    """Run the command, a cell's in a worker if there is one; return the exit status."""
    path = os.environ.get(VARIABLE)
    status = _in_worker(path) if path and sys.argv[1:2] == ["cell"] else None
    if status is not None:
        return status
    from losslab import cli

    return cli.main()


def _in_worker(path: str) -> int | None:
    """Run this command in a worker; return its exit status, or None if there is no worker."""
    import json
    import signal

    request = {
        "python": sys.prefix, "words": sys.argv, "folder": os.getcwd(),
        "environment": {**os.environ},
    }  # fmt: skip
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
        # A worker that was killed sends nothing.
        return int(server.recv(STATUS_BYTES) or 128 + signal.SIGKILL)


@contextlib.contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Offer workers to child processes; yield the variable that these need."""
    import subprocess
    import tempfile

    from losslab.processes import Process

    # Only this user may enter the folder.
    with tempfile.TemporaryDirectory(prefix="losslab-workers-") as folder:
        path = os.path.join(folder, "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen(128)
            # In its own session: a terminal's signals reach workers through their commands.
            server = Process(
                [sys.executable, "-m", "losslab.worker", str(listener.fileno())],
                stdin=subprocess.PIPE, pass_fds=[listener.fileno()], start_new_session=True,
            )  # fmt: skip
        with server:
            yield {VARIABLE: path}


def _serve(listener: socket.socket) -> None:
    """Fork a worker for each request, until standard input ends with the process that started us."""
    import gc
    import select
    import signal

    from losslab import steps

    with contextlib.suppress(Exception):  # a worker reports errors
        steps.read_ahead()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers leave no zombies
    while True:
        ready, _, _ = select.select([0, listener], [], [])
        if 0 in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _work(connection)
        connection.close()


def _work(connection: socket.socket) -> NoReturn:
    """Run a request's command in this process, and exit with its status."""
    import fcntl
    import json
    import signal

    from losslab import cli

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    text, files, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
    request: dict[str, Any] = json.loads(text)
    if request["python"] != sys.prefix or request["folder"] != os.getcwd():
        os._exit(0)  # the command then runs by itself
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["words"]
    # The kernel sends SIGTERM when the command's process has ended in any way.
    fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(connection, fcntl.F_SETFL, os.O_ASYNC)
    connection.send(str(os.getpid()).encode())
    try:
        status: Any = cli.main()
    except SystemExit as error:
        status = error.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(str(status).encode())
    os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
