"""A small server that stands in for Debian's archive and its snapshot archive."""

import hashlib
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from losslab.instrument.debian import Lock, Package
from losslab.instrument.fetch import File

INSTANT = "20260101T000000Z"
MAIN, SECURITY = "/debian/pool/main/", "/debian-security/pool/updates/main/"
SNAPSHOT = f"/snapshot/archive/debian/{INSTANT}/pool/main/"


class Server:
    """Files by path, and the requests received."""

    def __init__(self):
        # The server turns away the first `busy` requests.
        self.files, self.asked, self.busy = {}, [], 0
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                served.asked.append(self.path)
                body = served.files.get(self.path)
                served.busy -= 1
                status = 404 if body is None else 200
                if served.busy >= 0:
                    status, body = 429, None
                self.send_response(status)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *words):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=[0.01], daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()


def file_of(name, content):
    return File(name, hashlib.sha256(content).hexdigest(), len(content))


def lock_of(*names, content=None):
    """Return a lock; a package's content is its name, or `content`."""
    rows = [
        Package(name, "1", "all", file.size, file.sha256,
                f"pool/main/{name[0]}/{name}/{name}_1_all.deb")
        for name in names
        for file in [file_of(name, content or name.encode())]
    ]  # fmt: skip
    return Lock(INSTANT, tuple(rows))


def unpacked_deb(folder, name, version="1"):
    """Write a folder from which `pack` makes a package."""
    content = folder / "content"
    (content / "DEBIAN").mkdir(parents=True)
    (content / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    )
    return content


def pack(content):
    target = content.with_suffix(".deb")
    subprocess.run(["dpkg-deb", "--build", "-Znone", content, target], check=True,
                   capture_output=True)  # fmt: skip
    return target.read_bytes()
