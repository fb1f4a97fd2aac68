"""`ip` and `tc` in batch mode, in this process's own namespace; scripts stand in for failures."""

import contextlib
import os
import shutil

import pytest

from losslab.emulation import hosts
from losslab.errors import LosslabError

needs_iproute = pytest.mark.skipif(
    shutil.which("ip") is None or shutil.which("tc") is None, reason="iproute2"
)


@contextlib.contextmanager
def running_batch(program, script, tmp_path, monkeypatch):
    """Yield a batch of the program; a shell script may stand in for it."""
    if script is not None:
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(hosts, "inside", lambda _: contextlib.nullcontext())
    with contextlib.closing(hosts.Batch(program, os.getpid())) as found:
        yield found


@needs_iproute
def test_batch_program_answers_repeatedly(tmp_path, monkeypatch):
    with running_batch("ip", None, tmp_path, monkeypatch) as ip:
        for _ in range(3):
            routes, links = ip.ask(["route show", "link show"], 2)
            assert isinstance(routes, list)
            assert "lo" in [link["ifname"] for link in links]
            ip.do([])


@needs_iproute
@pytest.mark.parametrize(
    ("program", "line", "words"),
    [
        ("tc", "qdisc add dev lo root netemm", "qdisc kind"),
        ("ip", "route add 10.9.9.0/24 dev no-such-device", "no-such-device"),
    ],
)
def test_failing_batch_quotes_its_lines(program, line, words, tmp_path, monkeypatch):
    with (
        running_batch(program, None, tmp_path, monkeypatch) as tool,
        pytest.raises(LosslabError, match="must succeed without messages") as error,
    ):
        tool.do([line])
    assert words in error.value.message
    assert line in error.value.hint


def test_unexpected_output_of_a_batch_is_a_failure(tmp_path, monkeypatch):
    script = "while read -r line; do echo 'Warning: not offloaded' >&2; echo '[]'; done"
    with (
        running_batch("tc", script, tmp_path, monkeypatch) as tc,
        pytest.raises(LosslabError, match="Warning: not offloaded"),
    ):
        tc.do(["qdisc add dev lo root pfifo"])


def test_batch_answer_may_come_in_pieces(tmp_path, monkeypatch):
    script = "while read -r line; do printf '[{\"a\":\\n'; sleep 0.1; printf '1}]\\n[ ]\\n'; done"
    with running_batch("tc", script, tmp_path, monkeypatch) as tc:
        assert tc.ask(["qdisc show"], 2) == [[{"a": 1}], []]


def test_ended_or_silent_batch_is_a_failure(tmp_path, monkeypatch):
    with running_batch("ip", "exit 0", tmp_path, monkeypatch) as ip:
        ip._process.wait()
        with pytest.raises(LosslabError, match="must succeed without messages"):
            ip.ask(["link show"], 1)
    monkeypatch.setattr(hosts, "COMMAND_TIMEOUT_S", 0.2)
    with (
        running_batch("tc", "sleep 60", tmp_path, monkeypatch) as tc,
        pytest.raises(LosslabError, match=r"must answer within 0\.2 s"),
    ):
        tc.ask(["qdisc show"], 1)
