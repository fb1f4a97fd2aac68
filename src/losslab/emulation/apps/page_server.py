"""Python's web server, as in `python3 -m http.server`, with one page of a given length."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = "index.html"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the page until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--page-bytes", type=int, required=True)
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / PAGE).write_bytes(bytes(options.page_bytes))
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(options.folder))
    with ThreadingHTTPServer((options.address, options.port), handler) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
