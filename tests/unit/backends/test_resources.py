"""Resources of guests: CPUs, resource limits and scratch folders of the host."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections import Counter

import pytest

from losslab.backends import resources, virtual
from losslab.backends.base import Instrument
from losslab.backends.resources import PLACES_PER_CPU, own_cpu
from losslab.errors import HostError

# No CPUs of this machine, so that neither guests nor other tests use them.
CPUS = [10 * os.getpid() + number for number in (1, 2)]


@pytest.mark.parametrize("guests", [1, 2, 3, 4, 7, 2 * PLACES_PER_CPU])
def test_guests_are_spread_evenly_over_cpus(guests: int) -> None:
    with contextlib.ExitStack() as stack:
        held = Counter(stack.enter_context(own_cpu(CPUS)) for _ in range(guests))
    counts = [held[cpu] for cpu in CPUS]
    assert sum(counts) == guests
    assert max(counts) - min(counts) <= 1


def test_free_cpu_is_taken_next() -> None:
    with own_cpu(CPUS) as first:
        with own_cpu(CPUS) as second:
            pass
        with own_cpu(CPUS) as third:
            assert (first, second, third) == (CPUS[0], CPUS[1], CPUS[1])


def test_more_guests_than_slots_share_a_cpu() -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(2 * PLACES_PER_CPU):
            stack.enter_context(own_cpu(CPUS))
        assert stack.enter_context(own_cpu(CPUS)) in CPUS


LOW = {"nofile": 1000, "as": 2 * 2**30, "fsize": 2 * 2**30 - 1}


def output_of(code, **hard):
    """Output of a process under hard limits."""

    def lower():
        for name, limit in hard.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (limit, limit))

    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=lower, capture_output=True, text=True, check=True
    )
    return done.stdout


REFUSED = """
from losslab.backends import resources
from losslab.errors import HostError
try:
    resources.require_limits()
except HostError as error:
    print(error)
"""


@pytest.mark.parametrize("name", LOW)
def test_low_hard_limit_is_refused_with_the_needed_value(name):
    what, shell, need, unit = resources.NEEDED[name]
    words = output_of(REFUSED, **{name: LOW[name]})
    assert f"limit of {what}: {LOW[name] // unit}, and a guest needs {need}" in words
    assert f"`{shell} {need}`" in words
    assert words.count("limit of") == 1


def test_exact_hard_limit_is_accepted():
    enough = {name: need * unit for name, (_, _, need, unit) in resources.NEEDED.items()}
    assert output_of(REFUSED, **enough) == ""


def test_doctor_shows_the_limits(tmp_path):
    code = (
        "from losslab import doctor; from losslab.instrument import image, kernel\n"
        "kernel.existing = image.existing = lambda *words, **which: None\n"
        "for finding in doctor._virtual(): print(finding.line())"
    )
    words = output_of(code, nofile=1000)
    assert "MISSING  limit of open files: 1000, and a guest needs 1024" in words
    assert "`ulimit -n 1024`" in words
    assert "ok       limit of file size in KiB: none" in words


@pytest.mark.parametrize("name", resources.RAISED)
def test_soft_limits_of_a_guest_are_raised_to_the_hard_ones(name, tmp_path):
    code = """
import resource, sys
from pathlib import Path
from losslab import processes
from losslab.backends import resources
number = getattr(resource, f"RLIMIT_{sys.argv[1].upper()}")
hard = resource.getrlimit(number)[1]
resource.setrlimit(number, (2**32, hard) if sys.argv[1] == "as" else (500, hard))
with Path(sys.argv[2]).open("wb") as out:
    show = ["prlimit", f"--{sys.argv[1]}", "--raw", "--noheadings", "--output", "SOFT,HARD"]
    processes.wait(processes.spawn(show, raise_limits=resources.RAISED, console=out), 10)
"""
    out = tmp_path / "limits"
    subprocess.run([sys.executable, "-c", code, name, out], check=True)
    soft, hard = out.read_text().split()
    assert soft == hard


ODD = ["with space", "with,comma", "with'quote", 'with"quote', "with\nline", "ünïcode", "a" * 200]


@pytest.mark.parametrize("name", ODD)
def test_command_line_does_not_depend_on_the_scratch_folder(name, tmp_path, monkeypatch):
    chosen = tmp_path / name
    chosen.mkdir()
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(chosen))
    assert resources.scratch_folder() == chosen
    tools = Instrument(tmp_path / "linux", tmp_path / "image", {})
    with virtual.Guest()._resources(tools) as guest:
        assert guest.folder.parent.parent == chosen
        words = guest.command(tools, [])
        assert [word for word in words if name in word] == []
        (root,) = [word for word in words if word.startswith("rootflags=")]
        assert os.readlink(root.partition("=")[2]) == str(tmp_path / "image")
        assert guest.variables["TMPDIR"] == str(guest.folder)
    assert list(chosen.iterdir()) == []


def test_relative_scratch_folder_starts_at_the_current_folder(tmp_path, monkeypatch):
    """The guest's process runs in another folder."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOSSLAB_SCRATCH", "scratch")
    assert resources.scratch_folder() == tmp_path / "scratch"


def test_unusable_scratch_folder_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LOSSLAB_SCRATCH", str(tmp_path / "none"))
    resources.scratch_folder()
    assert f"{tmp_path / 'none'} is not a writable folder" in capsys.readouterr().err
    monkeypatch.setattr(resources, "MEMORY_BYTES", 2**70)
    with pytest.raises(HostError, match=r"less than .* MiB free") as error:
        resources.scratch_folder()
    assert "set LOSSLAB_SCRATCH" in error.value.hint
