"""`losslab run`: the page's own commands, and tests of all kinds in guests."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import pages
from tests.faults.kit import losslab

OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_commands_of_the_page_find_the_flake_and_its_packet(root):
    page = "docs/how-to/run-your-tests.md"
    own = [c.words for c in pages.shown(root) if c.page == page and "programs/race" in c.words]
    program = str(Path(sys.executable).parent / "losslab")
    done = {
        words: subprocess.run(
            [program, *words[1:]], cwd=root, capture_output=True, text=True, check=False
        )
        for words in own
    }
    assert len(done) == 4
    assert {each.returncode for each in done.values()} == {1}
    printed = "".join(each.stdout for each in done.values())
    shown = OUTPUT.findall((root / page).read_text())
    assert [text for text in shown if text not in printed] == []
    every, one, until_fail, difference = (each.stdout for each in done.values())
    assert "39 passed, 1 failed, 0 differing of 40 seeds" in every
    assert one.startswith("alpha: no reply")
    assert until_fail.count("passed  ") == 22
    assert "packet 3 differs" in difference


def test_output_status_root_and_networks_of_a_single_seed():
    script = (
        "set -e; id -u; pwd; "
        "python3 -c 'from socket import *; "
        "print([getaddrinfo(gethostname(), 1, family, flags=AI_ADDRCONFIG)[0][4][0] "
        "for family in (AF_INET, AF_INET6)])'; "
        "test -c /dev/net/tun; ip tuntap add dev tun0 mode tun; "
        "ip netns add other; ip link add v0 type veth peer name v1 netns other; "
        "tc qdisc add dev lo root netem delay 30ms; ping -c1 -q ::1 >&2; sleep 3000; exit 7"
    )
    done = losslab("run", "--", "sh", "-c", script)
    assert done.returncode == 7
    assert done.stdout.startswith("0\n/tmp/work\n['127.0.0.1', '::1']\n")
    assert "0% packet loss" in done.stdout
    assert "seed 1 failed: exit status 7" in done.stderr


def test_date_of_the_test_does_not_count_as_its_time():
    script = "date -u +%F; ping -c 1 -q 127.0.0.1 >/dev/null; sleep 2"
    words = ("--date", "2031-05-09", "--", "sh", "-c", script)
    one = losslab("run", *words)
    assert (one.returncode, one.stdout) == (0, "2031-05-09\n")
    done = losslab("run", "--diff", "1", "2", *words)
    took = re.findall(r"seed \d +passed +(\S+) s", done.stdout)
    assert [round(float(each)) for each in took] == [2, 2], done.stdout


def test_repetitions_have_the_same_bytes_and_seeds_have_others():
    words = ("--", "sh", "-c", "head -c 8 /dev/urandom | od -x; date +%N; exit 1")
    done = losslab("run", "--seeds", "1:3", "--repeat", "5", "--cores", "2", *words)
    assert "0 passed, 3 failed, 0 differing of 3 seeds; 3 different outputs" in done.stdout
    one = losslab("run", "--seeds", "2", *words)
    assert all(line in done.stdout for line in one.stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "why", "status"),
    [
        (("sleep", "9"), "did not end within 5 s of virtual time", 137),
        (("sh", "-c", "kill -SEGV $$"), "killed by SIGSEGV", 139),
        (("sh", "-c", "yes | head -c 70000000"), "printed more than 64 MiB", 137),
        pytest.param(
            ("python3", "-c", "while True: pass"), "busy-waits", 1, marks=pytest.mark.nightly
        ),
    ],
)
def test_end_of_a_test_that_does_not_end_well_is_named(words, why, status):
    done = losslab("run", "--limit-s", "5", "--", *words)
    assert (done.returncode, why in done.stderr) == (status, True), done.stderr


def test_tcp_events_of_two_seeds_differ():
    script = (
        "tc qdisc add dev lo root netem delay 5ms loss 5%; socat -u TCP-LISTEN:5000 OPEN:/dev/null "
        "& sleep 1; head -c 1000000 /dev/zero | socat -u STDIN TCP:127.0.0.1:5000; sleep 5"
    )
    done = losslab("run", "--diff", "1", "2", "--", "sh", "-c", script)
    assert done.returncode == 1
    assert re.search(r"TCP event \d+ differs", done.stdout)
    same = losslab("run", "--diff", "1", "1", "--", "sh", "-c", script)
    assert (same.returncode, "A and B have the same output" in same.stdout) == (0, True)
