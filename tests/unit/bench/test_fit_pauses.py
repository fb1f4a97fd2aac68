"""Pauses that follow from logs of iperf3."""

import io
import tarfile

from bench import fit_pauses

LINE = "[  6] {0:5}.00-{1}.00 sec  1.25 MBytes  {2} Kbits/sec  {3:4}    491 KBytes"


def log(mbit, losses):
    """Return a log of 60 s with a loss of some packets in the given seconds."""
    lines = ["iperf 3.9", "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd"]
    lines += [LINE.format(s, s + 1, mbit * 1000, losses.get(s, 0)) for s in range(60)]
    whole = "[  6]   0.00-60.00  sec   289 MBytes  40370 Kbits/sec  524             sender"
    return "\n".join([*lines, whole])


def archive(path, logs):
    with tarfile.open(path, "w:gz") as tar:
        for name, text in logs.items():
            info = tarfile.TarInfo(f"run/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


def test_parameters_follow_from_the_shallow_buffer_at_the_highest_rate(tmp_path, capsys):
    logs = {f"100_1000_{rtt}_1_cubic.txt": log(100, {20: 594}) for rtt in fit_pauses.FITTED_RTTS_MS}
    # Neither of these counts.
    logs["100_1000_25_1_bbr.txt"] = logs["10000_1000_25_1_cubic.txt"] = log(900, {20: 9000})
    assert fit_pauses.main([str(archive(tmp_path / "logs.tgz", logs))]) == 0
    # A link of 1 Gbit/s takes 8 ms for 660 full packets.
    assert "per_s=0.18,min_ms=0.8,max_ms=8\n" in capsys.readouterr().out
