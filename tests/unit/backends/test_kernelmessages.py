"""Messages of a guest's kernel: their levels, and those that make a run invalid."""

import os

import pytest

from losslab.backends import kernelmessages
from losslab.emulation import kernellog

KERNELS = [
    "WARNING: CPU: 0 PID: 31 at net/ipv4/tcp_input.c:2858 tcp_fastretrans_alert",
    "WARNING: net/ipv4/tcp_input.c:2858 at tcp_fastretrans_alert+0x1/0x2, CPU#0: x/31",
    "WARNING: mine must take its socket option 1 of level 6, found error -22",
    "BUG: kernel NULL pointer dereference", "kernel BUG at net/ipv4/tcp.c:1!", "Oops: 0000",
    "Kernel panic - not syncing: x", "Call Trace:", "Out of memory: Killed process 1",
]  # fmt: skip
MODULES = [
    "mine: DEBUG: cwnd 10", "DEBUG: cwnd 10", "WARNING: small cwnd", "mine: Oops, a loss",
    "mine: Out of memory of a table", "NO BUG: here", "SUBWARNING: CPU: 0",
]  # fmt: skip
HARMLESS = [
    "htb: netem qdisc 10: is non-work-conserving?",
    "HTB: quantum of class 10001 is big. Consider r2q change.",
    "mine_cong_avoid: 312 callbacks suppressed",
    "epollctl add err fd 0, Operation not permitted",
]


def judged(*warnings, earlier=(), lost=0, console="", of_module=()):
    messages = {"warnings": [f"[   21.000000] {line}" for line in warnings],
                "earlier": list(earlier), "lost": lost}  # fmt: skip
    modules = [f"[   21.000000] {line}" for line in of_module]
    return kernelmessages.violations(
        messages, console, lambda lines: [line for line in lines if line in modules]
    )


@pytest.mark.parametrize("line", [*KERNELS, *MODULES, "TCP: something new is wrong"])
def test_warning_of_the_kernel_is_a_violation_with_its_line(line):
    found = ["the kernel must print no warning, found: [   21.000000] " + line]
    assert judged(line) == found
    # A module that prints the kernel's own words at this level is not believed.
    assert judged(line, of_module=[line]) == (found if line in KERNELS else [])
    assert judged(HARMLESS[0], line, line)[0].endswith(f"{line} (and 1 more lines in console.log)")


def test_line_that_names_the_place_is_shown_first():
    cut = "------------[ cut here ]------------"
    (found,) = judged(cut, "Modules linked in:", KERNELS[0])
    assert found.endswith(f"{KERNELS[0]} (and 2 more lines in console.log)")


@pytest.mark.parametrize("line", [*KERNELS, *MODULES, *HARMLESS])
def test_message_below_a_warning_never_is(line):
    """B2: its words on the console say nothing, because the levels are known."""
    assert judged(console=f"first\n[   21.000000] {line}\nlast\n") == []


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_warning_is_none(line):
    assert judged(line) == []


def test_boots_warnings_are_judged_by_their_form():
    assert judged(earlier=["[    0.000000] epollctl add err fd 0, Operation not permitted"]) == []
    assert judged(earlier=[f"[   12.000000] {KERNELS[0]}"])


@pytest.mark.parametrize("time", ["", "[   21.000000] "])
@pytest.mark.parametrize("line", [*KERNELS, *MODULES])
def test_words_on_the_console_count_if_the_kernel_overwrote_messages(line, time):
    found = judged(lost=3, console=f"first\n{time}{line}\nlast\n")
    assert bool(found) == (line in KERNELS)


def test_without_a_guest_nothing_is_judged():
    assert kernelmessages.violations(None, KERNELS[0], list) == []


def test_log_has_levels_times_and_the_number_of_overwritten_messages(tmp_path, monkeypatch):
    """Records as in the kernel's Documentation/ABI/testing/dev-kmsg."""
    records = iter([
        b"7,160,424069,-;pci_root PNP0A03:00\n SUBSYSTEM=acpi\n", b"4,161,21000001,c;x; y\n",
        BrokenPipeError(32, "overwritten"), b"30,165,2,-;udevd\n", BlockingIOError(),
    ])  # fmt: skip

    def read(_file, _octets):
        record = next(records)
        if isinstance(record, Exception):
            raise record
        return record

    (tmp_path / "kmsg").touch()
    log = kernellog.KernelLog(tmp_path / "kmsg")
    assert log.read() == []
    monkeypatch.setattr(os, "read", read)
    log._next = 160
    found = log.read()
    assert [(message.level, message.line) for message in found] == [
        (7, "[    0.424069] pci_root PNP0A03:00"), (4, "[   21.000001] x; y"),
        (6, "[    0.000002] udevd"),
    ]  # fmt: skip
    assert log.lost == 3
