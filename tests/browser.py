"""Headless Chromium, controlled through a pipe: actions on a page, and its errors."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
# Chrome's remote debugging protocol over descriptors 3 and 4: JSON, each ended by a zero byte.
OPTIONS = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
    "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
    "--allow-file-access-from-files",
)  # fmt: skip
# A user's browser without a network: files may not read each other, and no name has an address.
OFFLINE = (
    *(option for option in OPTIONS if option != "--allow-file-access-from-files"),
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def program() -> str | None:
    """Return the path of Chromium, if installed."""
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


class Page:
    """A page of a browser."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._left = b""
        self._count = 0
        self._session: str | None = None
        self.complaints: list[str] = []

    def attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        answer = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters):
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)

    def _next(self) -> dict:
        while b"\0" not in self._left:
            block = os.read(self._receive, 1 << 20)
            assert block, "Chromium ended"
            self._left += block
        message, _, self._left = self._left.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict) -> None:
        method, what = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(what["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.complaints.append(what["entry"]["text"])

    def open(self, path: Path, address: str = "") -> None:
        """Load a file anew, also if only the address's fragment differs."""
        for url in ("about:blank", f"file://{path}{address}"):
            self.call("Page.navigate", url=url)

    def size(self, width: int, height: int, phone: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=phone,
        )  # fmt: skip

    def scheme(self, name: str) -> None:
        self.call(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def ask(self, expression: str):
        """Evaluate JavaScript; a Promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str, limit_s: float = 120.0) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + limit_s
        while not self.ask(expression):
            assert time.monotonic() < end, f"{expression} must become true; {self.complaints}"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        self.ask(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, key: str) -> None:
        """Press and release a key, such as ArrowLeft, on the focused element."""
        codes = {"ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, "Tab": 9}
        more = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=codes[key], **(more if kind == "keyDown" else {}),
            )  # fmt: skip

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Drag the mouse over an element, between two fractions of its width."""
        quoted = json.dumps(selector)
        self.ask(f"document.querySelector({quoted}).scrollIntoView({{block: 'center'}})")
        box = self.ask(
            f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({quoted})"
            ".getBoundingClientRect())"
        )
        points = [(box[0] + box[2] * share, box[1] + box[3] / 2) for share in (begin, end)]
        (x0, y0), (x1, y1) = points
        middle = (x0 + x1) / 2
        for kind, x, y, buttons in (
            ("mouseMoved", x0, y0, 0), ("mousePressed", x0, y0, 1), ("mouseMoved", middle, y0, 1),
            ("mouseMoved", x1, y1, 1), ("mouseReleased", x1, y1, 0),
        ):  # fmt: skip
            button = "none" if kind == "mouseMoved" and not buttons else "left"
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons,
                clickCount=1 if kind in ("mousePressed", "mouseReleased") else 0,
            )  # fmt: skip

    def hover(self, selector: str, share: float) -> None:
        """Move the mouse over an element, to a fraction of its width."""
        box = self.ask(
            f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect())"
        )
        self.call(
            "Input.dispatchMouseEvent", type="mouseMoved",
            x=box[0] + box[2] * share, y=box[1] + box[3] / 2,
        )  # fmt: skip


@contextlib.contextmanager
def page(folder: Path, options: Sequence[str] = OPTIONS) -> Iterator[Page]:
    """Yield a page of a new browser, whose files are in `folder`."""
    (to_browser, send), (receive, from_browser) = os.pipe(), os.pipe()
    # Not 3 and 4, which the browser uses.
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_browser, from_browser)]

    def descriptors() -> None:
        for number, end in enumerate(ends, 3):
            os.dup2(end, number)

    process = subprocess.Popen(
        [program(), *options, f"--user-data-dir={folder}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=descriptors, close_fds=False,  # noqa: PLW1509 - no other thread
    )  # fmt: skip
    for end in (to_browser, from_browser, *ends):
        os.close(end)
    try:
        found = Page(send, receive)
        found.attach()
        yield found
    finally:
        with contextlib.suppress(OSError):
            os.write(send, b'{"id":0,"method":"Browser.close"}\0')
        os.close(send)
        os.close(receive)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
