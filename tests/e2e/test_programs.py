"""User programs over real paths: of an image, of a user folder, and QUIC, byte by byte."""

import json
import subprocess

import pytest

from losslab.instrument import image
from tests.e2e.test_measure import contents, measure

pytestmark = pytest.mark.usefixtures("shared_guests")

PATH = ["--rate-mbit", 10, "--rtt-ms", 20, "--buffer-packets", 30, "--loss-percent", 1]


def summary(folder):
    return json.loads((folder / "manifest.json").read_text())["summary"]


def test_user_programs_of_the_image_are_measured(tmp_path):
    words = [
        "--algorithm", "reno", "--app", "command",
        "--sender-command", "socat -u OPEN:/dev/zero TCP:$RECEIVER:5000",
        "--receiver-command", "socat -u TCP-LISTEN:5000 OPEN:/dev/null", *PATH,
    ]  # fmt: skip
    done = measure(tmp_path / "out", *words)
    assert done.returncode == 0, done.stderr
    found = summary(tmp_path / "out")
    # At most the rate without headers: 1,448 of 1,514 bytes are data.
    assert 1 < found["goodput_mbit"] < 10 * 1448 / 1514 + 0.01
    assert found["goodput_mbit"] == pytest.approx(found["throughput_mbit"] * 1448 / 1500, rel=0.02)
    rows = (tmp_path / "out" / "tcp.csv").read_text().splitlines()
    assert len(rows) > 50  # samples of all connections that the kernel has


def test_user_folder_is_packed_and_its_logs_are_kept(tmp_path, root):
    words = [
        "--algorithm", "cubic", "--app", "command",
        "--bring", root / "tests" / "fixtures" / "programs",
        "--sender-command", "./stream.py send", "--receiver-command", "./stream.py receive", *PATH,
    ]  # fmt: skip
    done = measure(tmp_path / "out", *words)
    assert done.returncode == 0, done.stderr
    found = summary(tmp_path / "out")
    # 1,200 bytes every 2 ms, with 1 % loss.
    assert found["goodput_mbit"] == pytest.approx(4.8 * 0.99, rel=0.04)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert list(manifest["brought_sha256"]) == ["receive", "send", "stream.py"]
    numbers = (tmp_path / "out" / "program-numbers.txt").read_text().split()
    lost = int(numbers[-1]) + 1 - len(numbers)
    assert abs(lost - found["loss_packets"]) <= 3  # the path loses pings, too
    bad = [*words[:7], "--receiver-command", "./nothing", *PATH]
    done = measure(tmp_path / "bad", *words[:8], *bad[7:])
    assert done.returncode == 1
    assert "not found" in done.stderr


def test_processes_keep_their_vector_registers(tmp_path, root):
    """Kernel patch 0007 keeps them in the host's process across threads, signals and faults."""
    (tmp_path / "bring").mkdir()
    source, program = root / "tests" / "fixtures" / "registers.c", tmp_path / "bring" / "registers"
    subprocess.run(["gcc", "-O2", "-static", "-pthread", "-o", program, source], check=True)
    words = [
        "--algorithm", "cubic", "--app", "command", "--bring", "bring",
        "--sender-command",
        "./registers >$LOGS/registers; head -c 3M /dev/zero | socat -u - TCP:$RECEIVER:5000",
        "--receiver-command", "socat -u TCP-LISTEN:5000 OPEN:/dev/null", *PATH[:6],
    ]  # fmt: skip
    done = measure(tmp_path / "out", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Four threads compare 500 times at three places, 50 times at a signal and 5 at a child.
    said = (tmp_path / "out" / "program-registers").read_text()
    assert said == f"kept {4 * (500 * 3 + 50 + 5)} times\n"


@pytest.mark.skipif(image.existing("rsync") is None, reason="losslab image --variant rsync")
def test_programs_of_another_image_may_end_before_the_run(tmp_path):
    words = [
        "--algorithm", "cubic", "--app", "command", "--image", "rsync", "--duration-s", 6,
        "--sender-command",
        "head -c 1000000 /dev/urandom >file; rsync file rsync://$RECEIVER:873/into/",
        "--receiver-command",
        "mkdir -p into; printf '[into]\\npath=/tmp/into\\nread only=no\\nuse chroot=no\\nuid=0\\n'"
        " >conf; exec rsync --daemon --no-detach --config=conf",
        *PATH[:6],
    ]  # fmt: skip
    done = measure(tmp_path / "out", *words)
    assert done.returncode == 0, done.stderr
    assert summary(tmp_path / "out")["bytes_received"] == pytest.approx(1e6, rel=0.02)


@pytest.mark.skipif(image.existing("quic") is None, reason="losslab image --variant quic")
def test_quic_runs_repeat_their_bytes(tmp_path):
    words = ["--algorithm", "bbr", "--app", "quic", *PATH]
    for name in ("one", "other"):
        done = measure(tmp_path / name, *words)
        assert done.returncode == 0, done.stderr
    one, other = contents(tmp_path / "one"), contents(tmp_path / "other")
    assert [name for name in one if one[name] != other[name]] == []
    found = summary(tmp_path / "one")
    assert 5 < found["goodput_mbit"] < 9.7
    assert found["retransmits"] >= found["loss_packets"] / 2
    assert b'"congestion_window"' in one["quic-sender.sqlog"]
