"""Limits of resources under which a guest would hang or die are refused with what raises them."""

import resource
import subprocess
import sys

import pytest

from losslab.backends import resources

LOW = {"nofile": 1000, "as": 2 * 2**30, "fsize": 2 * 2**30 - 1}


def printed(code, **hard):
    """What a process under hard limits prints."""

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
def test_a_low_hard_limit_is_refused_with_the_one_needed(name):
    what, shell, need, unit = resources.NEEDED[name]
    words = printed(REFUSED, **{name: LOW[name]})
    assert f"limit of {what}: {LOW[name] // unit}, and a guest needs {need}" in words
    assert f"`{shell} {need}`" in words
    assert words.count("limit of") == 1


def test_as_much_as_is_needed_is_enough():
    enough = {name: need * unit for name, (_, _, need, unit) in resources.NEEDED.items()}
    assert printed(REFUSED, **enough) == ""


def test_the_doctor_shows_the_same(tmp_path):
    code = (
        "from losslab import doctor; from losslab.instrument import image, kernel\n"
        "kernel.existing = image.existing = lambda *words, **which: None\n"
        "for finding in doctor._virtual(): print(finding.line())"
    )
    words = printed(code, nofile=1000)
    assert "MISSING  limit of open files: 1000, and a guest needs 1024" in words
    assert "`ulimit -n 1024`" in words
    assert "ok       limit of file size in KiB: none" in words


@pytest.mark.parametrize("name", resources.RAISED)
def test_a_guest_has_soft_limits_as_high_as_the_hard_ones(name, tmp_path):
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
