"""User programs over real paths: of an image, of a user folder, and QUIC, byte by byte."""

import json
import shutil
import subprocess
import tarfile

import pytest

from losslab.instrument import cache, image
from tests.e2e.test_measure import measure
from tests.faults.kit import contents, losslab

pytestmark = pytest.mark.usefixtures("shared_guests")

PATH = ["--rate-mbit", 10, "--rtt-ms", 20, "--buffer-packets", 30, "--loss-percent", 1]


def summary(folder):
    return json.loads((folder / "manifest.json").read_text())["summary"]


RECEIVE = ["--receiver-command", "socat -u TCP-LISTEN:5000 OPEN:/dev/null"]
SEND = "socat -u OPEN:/dev/zero TCP:$RECEIVER:5000"


def command(folder, *words, path=PATH):
    """Measure user programs; return exit status, errors and manifest."""
    done = measure(folder, "--app", "command", *words, *path)
    return done.returncode, done.stderr, json.loads((folder / "manifest.json").read_text())


def test_goodput_does_not_depend_on_what_the_receiver_does_with_the_data(tmp_path):
    """A4: a receiver that hands its stream on over loopback had 5.6 instead of 9.55 Mbit/s."""
    path = [*PATH[:4], "--buffer-packets", 1000]
    relay = (
        "(socat -u TCP-LISTEN:6000,bind=127.0.0.1 OPEN:/dev/null &); sleep 0.1; "
        "exec socat -u TCP-LISTEN:5000 TCP:127.0.0.1:6000"
    )
    found = {}
    for name, words in (("plain", RECEIVE), ("relay", ["--receiver-command", relay])):
        send = ["--algorithm", "cubic", "--sender-command", SEND]
        status, errors, manifest = command(tmp_path / name, *send, *words, path=path)
        assert status == 0, errors
        found[name] = manifest["summary"]["goodput_mbit"]
    assert found["plain"] == pytest.approx(10 * 1448 / 1514, rel=0.003)
    assert found["relay"] == pytest.approx(found["plain"], rel=0.003)


def test_datagrams_that_nobody_reads_arrive_at_the_link(tmp_path):
    """A4: 60 bytes each 1 ms had 0.03 Mbit/s if the program does not read them in time."""
    send = "i=0; while [ $i -lt 900 ]; do i=$((i+1)); head -c 60 /dev/zero; sleep 0.001; done"
    status, errors, manifest = command(
        tmp_path / "out", "--algorithm", "cubic",
        "--sender-command", f"({send}) | socat -b 60 -u - UDP:$RECEIVER:5000",
        "--receiver-command", "exec socat -u UDP-RECV:5000,rcvbuf=2048 'SYSTEM:sleep 9'",
        "--warmup-s", 0, path=PATH[:4],
    )  # fmt: skip
    assert status == 0, errors
    assert manifest["summary"]["bytes_received"] == 900 * 60


def test_finite_transfer_is_counted_to_its_last_byte(tmp_path):
    """A5: a transfer of 1,000,000 bytes had 764,056 at 200 Mbit/s, and was refused at 1 Gbit/s."""
    send = "head -c 1000000 /dev/zero | socat -u - TCP:$RECEIVER:5000"
    words = ["--algorithm", "cubic", "--sender-command", send, *RECEIVE]
    path = ["--rate-mbit", 1000, "--rtt-ms", 1, "--warmup-s", 0]
    status, errors, manifest = command(tmp_path / "out", *words, path=path)
    assert status == 0, errors
    found = manifest["summary"]
    assert found["bytes_received"] == 1_000_000
    assert found["ended_s"] < 0.1
    seconds = 1_000_000 * 8 / 1e6 / found["goodput_mbit"]
    assert seconds == pytest.approx(found["ended_s"], rel=0.01)
    status, errors, _ = command(tmp_path / "warm", *words, path=path[:4])
    assert status == 1
    assert "set warmup_s to 0" in errors


OTHER = """
import os, socket, time
if {also_as_default}:
    open("/proc/sys/net/ipv4/tcp_congestion_control", "w").write("bbr")
channel = socket.socket()
channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"bbr")
channel.connect((os.environ["RECEIVER"], 5000))
channel.sendall(bytes(5000))
time.sleep(1)
channel.sendall(bytes(100_000))
"""


@pytest.mark.parametrize("also_as_default", [False, True])
def test_algorithm_that_a_program_chose_is_a_violation_unless_it_is_its_own(
    tmp_path, also_as_default
):
    """A6: a run labelled CUBIC ran BBR and was valid."""
    send = f"exec python3 -c '{OTHER.format(also_as_default=also_as_default)}'"
    words = ["--sender-command", send, *RECEIVE]
    status, errors, manifest = command(tmp_path / "cubic", "--algorithm", "cubic", *words)
    assert status == 1
    assert "command must use cubic, found bbr" in manifest["reasons"]
    assert ("a program changed it" in errors) == also_as_default
    status, errors, manifest = command(tmp_path / "own", "--algorithm", "own", *words)
    assert status == 0, errors
    (flow,) = manifest["observed"]["flows"]
    assert (flow["wanted"], flow["found"]) == ("own", ["bbr"])


def test_web_server_at_the_sender_sends_and_short_connections_are_recorded(tmp_path):
    """B, A5, A6: a server that listens and sends; three downloads of 5 ms each, in 20 ms."""
    get = "for i in 1 2 3; do curl -sf -o /dev/null http://$SENDER:8000/file || exit; done"
    status, errors, manifest = command(
        tmp_path / "out", "--algorithm", "bbr", "--listens", "sender", "--sender-command",
        "head -c 300000 /dev/zero >file; exec python3 -m http.server 8000",
        "--receiver-command", get, path=["--rate-mbit", 1000, "--rtt-ms", 0.5, "--warmup-s", 0],
    )  # fmt: skip
    assert status == 0, errors
    text = (tmp_path / "out" / "connections.csv").read_text().splitlines()
    rows = [line.split(",") for line in text[1:]]
    sent = [(row[1], row[3], int(row[4])) for row in rows if row[0] == "sender"]
    assert {each[:2] for each in sent} == {("8000", "bbr")}
    assert len(sent) == 3
    # The files and the headers of the responses.
    total = sum(each[2] for each in sent)
    assert manifest["summary"]["bytes_received"] == total
    assert 900_000 < total < 901_000


def test_dual_stack_server_is_found(tmp_path):
    """B: `iperf3 -s` was not found for 30 s, because it listens on a socket of IPv6."""
    status, errors, manifest = command(
        tmp_path / "out", "--algorithm", "cubic", "--sender-command", "iperf3 -c $RECEIVER -t 1",
        "--receiver-command", "iperf3 -s", path=PATH[:6],
    )  # fmt: skip
    assert status == 0, errors
    assert manifest["summary"]["ended_s"] < 2  # the client's end


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


@pytest.mark.skipif(image.part("quic").existing() is None, reason="losslab image --variant quic")
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


def test_two_pairs_of_programs_share_the_bottleneck(tmp_path):
    """Two stacks against each other: each pair is counted by its addresses."""
    status, errors, manifest = command(
        tmp_path / "out", "--algorithm", "cubic", *RECEIVE, "--sender-command", SEND,
        "--competitor-listens", "sender", "--competitor-sender-command",
        "head -c 9000000 /dev/zero >file; exec python3 -m http.server 8000",
        "--competitor-receiver-command", "curl -sf -o /dev/null http://$SENDER:8000/file",
        "--duration-s", 4, path=PATH[:6],
    )  # fmt: skip
    assert status == 0, errors
    found = manifest["summary"]
    shares = [found["goodput_mbit"], found["competitor_goodput_mbit"]]
    assert sum(shares) == pytest.approx(found["total_goodput_mbit"])
    assert found["total_goodput_mbit"] == pytest.approx(10 * 1448 / 1514, rel=0.03)
    assert min(shares) > 1
    assert [flow["name"] for flow in manifest["observed"]["flows"]] == [
        "command", "competitor-command",
    ]  # fmt: skip


def test_background_flows_are_not_counted_as_the_programs(tmp_path):
    send = "sleep 1; head -c 250000 /dev/zero | socat -u - TCP:$RECEIVER:5000"
    status, errors, manifest = command(
        tmp_path / "out", "--algorithm", "cubic", *RECEIVE, "--sender-command", send,
        "--flows", "bbr", "--duration-s", 4, "--warmup-s", 0, path=PATH[:6],
    )  # fmt: skip
    assert status == 0, errors
    found = manifest["summary"]
    assert found["bytes_received"] == 250_000
    assert found["total_goodput_mbit"] < 10 * 1448 / 1514 + 0.05
    assert found["flows_goodput_mbit"] == pytest.approx(found["total_goodput_mbit"] - 0.5, abs=0.01)


def test_client_that_must_complete_has_its_time_or_is_a_violation(tmp_path):
    words = ["--algorithm", "cubic", *RECEIVE, "--until", "completion", "--warmup-s", 0]
    send = "head -c 500000 /dev/zero | socat -u - TCP:$RECEIVER:5000; sleep 0.5"
    status, errors, manifest = command(tmp_path / "a", *words, "--sender-command", send)
    assert status == 0, errors
    assert 0.5 < manifest["summary"]["completion_s"] < 1.5
    status, errors, manifest = command(tmp_path / "b", *words, "--sender-command", SEND)
    assert status == 1
    assert "must end by itself within 2 s, found it still running" in errors


def test_data_that_flow_back_and_clients_that_start_first_are_refused(tmp_path):
    """`iperf3 -c -R` at the sender had 0.002 Mbit/s, those of its control connection."""
    path = [*PATH[:6], "--duration-s", 2]
    status, errors, _ = command(
        tmp_path / "a", "--algorithm", "cubic", "--receiver-command", "iperf3 -s",
        "--sender-command", "iperf3 -c $RECEIVER -R -t 1 --interval 0 -b 20M", path=path,
    )  # fmt: skip
    assert status == 1
    assert "data must flow from the sender to the receiver" in errors
    status, errors, _ = command(
        tmp_path / "b", "--algorithm", "cubic", "--sender-command", "iperf3 -s",
        "--receiver-command", "iperf3 -c $SENDER -R -t 1", path=path,
    )  # fmt: skip
    assert status == 1
    assert "it names $SENDER: if it is the client, set listens to sender" in errors


def test_strange_programs_end_as_a_number_or_an_error(tmp_path):
    path = [*PATH[:6], "--duration-s", 2, "--warmup-s", 0]
    daemon = ["--algorithm", "cubic", "--receiver-command", "iperf3 -s -D"]
    send = 'setsid sh -c "socat -u OPEN:/dev/zero TCP:$RECEIVER:5201" >/dev/null 2>&1 & sleep 0.1'
    status, errors, manifest = command(
        tmp_path / "a", *daemon, "--sender-command", "iperf3 -c $RECEIVER -t 1", path=path
    )
    assert (status, manifest["valid"]) == (0, True), errors
    binary = ["--receiver-command", "socat -u TCP-LISTEN:5201 -", "--sender-command", send]
    status, errors, manifest = command(tmp_path / "b", "--algorithm", "cubic", *binary, path=path)
    assert status == 0, errors
    assert manifest["summary"]["ended_s"] == pytest.approx(2, abs=0.01)
    failing = "head -c 500000 /dev/zero | socat -u - TCP:$RECEIVER:5000; echo broken >&2; exit 7"
    status, errors, _ = command(
        tmp_path / "c", "--algorithm", "cubic", *RECEIVE, "--sender-command", failing, path=path
    )
    assert status == 1
    assert "must exit with 0, found 7: broken" in errors


def test_exported_image_runs_with_the_endpoint_contract(tmp_path, root):
    """Static program in an image: /www/file arrives as /downloads/file, and qlog files are kept."""
    interop = tmp_path / "interop"
    (interop / "www").mkdir(parents=True)
    (interop / "www" / "file").write_bytes(bytes(400_000))
    program = tmp_path / "run_endpoint"
    source = root / "tests" / "fixtures" / "endpoint.c"
    subprocess.run(["gcc", "-O2", "-static", "-o", program, source], check=True)
    with tarfile.open(interop / "root.tar", "w") as layer:
        layer.add(program, "run_endpoint")
    shutil.copy(root / "programs" / "interop" / "in-root", interop)
    run = "./in-root /run_endpoint"
    words = [
        "--algorithm", "cubic", "--listens", "sender", "--until", "completion", "--warmup-s", 0,
        "--sender-command", run, "--receiver-command", run, "--duration-s", 2,
        "--bring", interop, "--env", "OF_IMAGE=yes",
    ]  # fmt: skip
    out = tmp_path / "out"
    status, errors, found = command(out, *words, "--testcase", "transfer", path=PATH[:6])
    assert status == 0, errors
    assert found["summary"]["bytes_received"] == 400_000
    assert 0.3 < found["summary"]["completion_s"] < 0.5
    assert {*found["brought_sha256"]} >= {"root.tar", "in-root", "www/file"}
    for role in ("server", "client"):
        assert (out / f"program-qlog-{role}.sqlog").read_text() == "400000 bytes, yes\n"
    status, errors, _ = command(tmp_path / "b", *words, "--testcase", "other", path=PATH[:6])
    assert status == 1
    assert "it ended with status 127" in errors


def test_file_from_anywhere_is_kept_with_the_run_and_repeats_its_bytes(tmp_path, monkeypatch):
    script = tmp_path / "my program.sh"
    script.write_text('test "$B" = "x y" && head -c $A /dev/zero | socat -u - TCP:$RECEIVER:5000\n')
    script.chmod(0o755)
    (tmp_path / "away").mkdir()
    status, errors, manifest = command(
        tmp_path / "out", "--algorithm", "cubic", *RECEIVE, "--sender-command", "exec sh ./send",
        "--bring", f"{script}=send", "--env", "A=70000", "--env", "B='x y'", "--warmup-s", 0,
        "--duration-s", 2, path=PATH[:4],
    )  # fmt: skip
    assert status == 0, errors
    assert manifest["summary"]["bytes_received"] == 70_000
    assert manifest["cell"]["bring"].startswith("send@")
    (kept,) = (cache.cache_folder() / "brought").glob(manifest["cell"]["bring"])
    shutil.rmtree(kept)
    script.unlink()
    done = losslab("rerun", tmp_path / "out", "--trust")
    assert done.returncode == 0, done.stderr


def test_seed_whose_program_fails_is_found_and_its_packet_named(tmp_path):
    """A client without patience, on a path with loss: its failing seeds lose a SYN's answer."""
    words = (
        "measure", "--app", "command", "--algorithm", "cubic", "--rate-mbit", 10, "--rtt-ms", 20,
        "--loss-percent", 2, "--listens", "sender", "--warmup-s", 0, "--until", "completion",
        "--sender-command", "head -c 300000 /dev/zero >file; exec python3 -m http.server 8000",
        "--receiver-command", "curl -sf -m 0.9 -o /dev/null http://$SENDER:8000/file",
    )  # fmt: skip
    out = tmp_path / "out"
    done = losslab(*words, "--seeds", "1:12", "--until-fail", "--out", out)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0][:14], lines[-4][:15]) == (
        1,
        "seed 1     val",
        "seed 5     inva",
    )
    assert sorted(int(path.name) for path in out.iterdir()) == [1, 2, 3, 4, 5]
    found = losslab(*lines[-1].partition(": losslab ")[2].split())
    assert found.stdout.splitlines()[0] == "packet 3 on the sender's link differs:"
    assert "1.01" in found.stdout.splitlines()[-2]  # the answer again, after the client gave up
