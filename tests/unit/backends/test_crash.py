"""Where a guest's kernel crashes or spins, and what is kept of its console."""

import os
import signal
import subprocess

import pytest

from losslab.backends import base, crash
from losslab.instrument import kernel, kerneltree

PANIC = "Kernel panic - not syncing: "


@pytest.fixture
def binary(tmp_path, monkeypatch):
    """Return a program with debugging information, in place of a kernel, and its addresses."""
    source = tmp_path / "tcp_mine.c"
    source.write_text(
        "static inline int half(int n)\n{\n\treturn 1 / n;\n}\n"
        "int ssthresh(int n)\n{\n\treturn half(n);\n}\nint main(void) { return ssthresh(1); }\n"
    )
    made = ["gcc", "-g", "-O1", "-no-pie", "-o", tmp_path / kernel.DEBUG, source]
    subprocess.run(made, check=True)
    monkeypatch.setattr(kerneltree, "user_source", lambda path: source)
    nm = ["nm", "--defined-only", tmp_path / kernel.DEBUG]
    rows = subprocess.run(nm, check=True, capture_output=True, text=True).stdout.splitlines()
    return tmp_path / "linux", {row.split()[2]: int(row.split()[0], 16) for row in rows}


def test_fault_names_function_file_line_and_source(binary):
    linux, place = binary
    console = f"{PANIC}Kernel mode signal 8\nat [<{place['ssthresh']:08x}>]\n"
    found = crash.explained(linux, console)
    assert found.startswith("a division by zero in ")
    assert found.endswith(f"{linux.parent}/tcp_mine.c:3: `return 1 / n;`")


@pytest.mark.parametrize(
    ("console", "found"),
    [
        (f"{PANIC}Segfault with no mm\n", "an access through a NULL or invalid pointer"),
        (f"{PANIC}Kernel mode signal 4\n", "an invalid instruction"),
        (f"{PANIC}VFS: Unable to mount root\n", ""),
        (f"{PANIC}mine\nCall Trace:\n [<10>] ? panic+0x1/0x2\n", ""),
        ("all is well\n", ""),
    ],
)
def test_crash_of_unknown_place_has_its_kind_alone(tmp_path, console, found):
    assert crash.explained(tmp_path / "linux", console) == found


def test_loop_of_a_program_is_told_from_that_of_its_kernel(monkeypatch):
    monkeypatch.setattr(crash, "PROGRAM_CPU_S", 0.1)
    parent = subprocess.Popen(["sh", "-c", "(while :; do :; done) & echo $!; wait"],
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    program, spin = int(parent.stdout.readline()), crash.Spin(parent.pid)
    try:
        while not (found := spin.whose()):
            pass
    finally:
        os.kill(program, signal.SIGKILL)
        parent.communicate()
    assert found == "program"
    assert spin.whose() == ""


def test_loop_of_unknown_place_is_a_loop(tmp_path):
    assert crash.explained(tmp_path / "linux", "", spun=True) == "an endless loop"


def test_middle_of_a_long_console_is_left_out_but_for_trouble(tmp_path):
    console = tmp_path / "console.log"
    line = "[   20.000000] mine: cwnd 10\n"
    warning = "[   21.000000] WARNING: CPU: 0 PID: 1 at mine\n"
    text = f"first\n{line * 100_000}{warning}{line * 100_000}last\n"
    console.write_text(text)
    base.shorten(console, most_bytes=len(text))
    assert console.read_text() == text
    base.shorten(console)
    short = console.read_text()
    assert short.startswith("first\n")
    assert short.endswith("last\n")
    assert short.count("WARNING: CPU: 0 PID: 1 at mine") == 1
    assert f"[... {len(text) - 2 * base.KEPT_BYTES} characters are left out ...]" in short
    assert len(short) < 2 * base.KEPT_BYTES + 1000
