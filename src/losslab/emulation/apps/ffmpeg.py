"""Live video: an H.264 stream sent in real time over TCP, and evaluated per frame at the receiver.

The receiver is ffmpeg, too. It prints a line as soon as a frame is complete, and each line is
stamped with the receiver's clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import App
from losslab.emulation.goodput import Goodput
from losslab.emulation.programs import Flow, Program, Timeline
from losslab.emulation.topology import RECEIVER_ADDRESS, SENDER_ADDRESS, at_version, host_in_url
from losslab.errors import LosslabError
from losslab.study.axes import axis, plain

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

PORT = 5004
SOURCE_PORT = 40_011
FRAME_RATE = 30
FFMPEG = ("ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error")
# Expected rate of a replicate.
EXPECTED_MBIT = 3.0
# Time between the first frame's arrival and its display: a live player's usual 200 ms.
PLAYOUT_BUFFER_S = 0.2
COLUMNS = "frame,pts_s,arrival_s,bytes"
CONNECT_TIMEOUT_US = 60_000_000
# Bit rate and rate-control buffer of each stream.
BIT_RATES = {"720p": ("6M", "1M"), "128x64": ("735k", "120k")}
SIZES = {"720p": "1280x720", "128x64": "128x64"}


def playout(frames: list[tuple[float, float]], buffer_s: float) -> dict[str, float]:
    """Simulate a player; return its stalls and the share of frames on time.

    `frames` are (presentation time, arrival time) in s, in order of presentation. The player shows
    the first frame `buffer_s` after its arrival. For `stall_count` and `stall_s`, it waits for a
    late frame and then continues; for `frames_on_time_percent`, it never waits.
    """
    first_pts, first_arrival = frames[0]
    on_time, stalls, stalled = 0, 0, 0.0
    for pts, arrival in frames:
        due = first_arrival + buffer_s + pts - first_pts
        on_time += arrival <= due
        late = arrival - (due + stalled)
        if late > 0:
            stalls += 1
            stalled += late
    return {
        "stall_count": stalls,
        "stall_s": stalled,
        "frames_on_time_percent": 100 * on_time / len(frames),
    }


def parse_frames(text: str) -> list[tuple[float, int, int]]:
    """Parse stamped framecrc lines into (presentation time in s, arrival in ns, bytes).

    A line is `NANOSECONDS stream, dts, pts, duration, size, crc`. Lines with `#` are the header,
    in which `#tb 0: 1/90000` states the unit of dts and pts.
    """
    frames = []
    seconds_per_tick = 1 / 90_000
    for line in text.splitlines():
        stamp, _, rest = line.partition(" ")
        if rest.startswith("#tb 0:"):
            numerator, denominator = rest.split(":")[1].split("/")
            seconds_per_tick = int(numerator) / int(denominator)
        elif rest and not rest.startswith("#"):
            fields = [field.strip() for field in rest.split(",")]
            frames.append((int(fields[2]) * seconds_per_tick, int(stamp), int(fields[4])))
    return frames


class Ffmpeg(App):
    """Video stream between two ffmpeg processes."""

    order = 2
    image = "ffmpeg"
    meaning = "live video"
    with_ipv6 = True
    start_s, per_s = 0.6, 0.011
    ports = {SOURCE_PORT: "video"}
    axes = {
        "video": axis(
            "720p",
            help="video stream of the app `ffmpeg`: H.264 with 30 frames per second",
            choices={
                name: f"{size} pixels, {BIT_RATES[name][0][:-1]} {BIT_RATES[name][0][-1]}bit/s"
                for name, size in SIZES.items()
            },
        )
    }

    def expected_mbit(self, condition: Condition, rate_mbit: float) -> float:
        return min(EXPECTED_MBIT, rate_mbit)

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        """Return the flow; its receiver prints a checksum line per frame.

        The sender sends the file at its native frame rate and does not re-encode it.
        """
        version = condition.ip_version
        host = host_in_url(RECEIVER_ADDRESS, version)
        receiver = [
            *FFMPEG, "-probesize", "32", "-analyzeduration", "0", "-f", "mpegts",
            "-i", f"tcp://{host}:{PORT}?listen=1&listen_timeout=60000",
            "-map", "0:v", "-c", "copy", "-copyts", "-f", "framecrc", "-flush_packets", "1", "-",
        ]  # fmt: skip
        sender = [
            *FFMPEG,
            # `-re` would send the first half second at once.
            "-readrate", "1", "-readrate_initial_burst", "0.001", "-i", str(video),
            "-t", plain(condition.duration_s),
            "-map", "0:v", "-c", "copy", "-f", "mpegts", "-flush_packets", "1", "-muxdelay", "0",
            f"tcp://{host}:{PORT}?timeout={CONNECT_TIMEOUT_US}"
            f"&local_addr={at_version(SENDER_ADDRESS, version)}&local_port={SOURCE_PORT}",
        ]  # fmt: skip
        return [
            Flow(
                name="ffmpeg",
                algorithm=condition.algorithm,
                port=PORT,
                source_port=SOURCE_PORT,
                listener=Program("receiver", receiver, "receiver.log", stamped=True),
                caller=Program("sender", sender, "sender.log"),
                bulk=False,
            )
        ]

    def input_command(self, condition: Condition, output: str) -> list[str] | None:
        """Return the command that encodes a stream: H.264 at 30 frames/s and a constant bit rate.

        It uses one thread and only instructions of every x86-64 processor, so that the bytes are
        the same on all machines. (Newer instructions gave the same bytes, too.)
        """
        size, seconds = SIZES[condition.video], plain(condition.duration_s)
        rate, buffer = BIT_RATES[condition.video]
        return [
            *FFMPEG, "-y", "-cpuflags", "sse2",
            "-f", "lavfi", "-i", f"testsrc2=size={size}:rate={FRAME_RATE}:duration={seconds}",
            "-vf", "noise=alls=12:allf=t:all_seed=1",
            "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-threads", "1",
            "-g", str(FRAME_RATE), "-bf", "0", "-pix_fmt", "yuv420p",
            "-b:v", rate, "-minrate", rate, "-maxrate", rate, "-bufsize", buffer,
            "-x264-params", "nal-hrd=cbr:force-cfr=1:lookahead_threads=1:sliced_threads=0:asm=sse2",
            "-flags", "+bitexact", "-fflags", "+bitexact", "-f", "mp4", output,
        ]  # fmt: skip

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Write frames.csv from receiver.log and return the summary."""
        frames = [
            (pts_s, (arrival_ns - timeline.origin_ns) / 1e9, octets)
            for pts_s, arrival_ns, octets in parse_frames((folder / "receiver.log").read_text())
        ]
        if not frames:
            raise LosslabError("at least one video frame must arrive, found none in receiver.log")
        lines = [
            f"{number},{pts_s:.6f},{arrival_s:.9f},{octets}"
            for number, (pts_s, arrival_s, octets) in enumerate(frames)
        ]
        (folder / "frames.csv").write_text("\n".join([COLUMNS, *lines]) + "\n")
        # The last frame begins before the configured end.
        sent = math.ceil(round(plan.duration_s * FRAME_RATE, 6))
        first_s, last_s = frames[0][1], frames[-1][1]
        octets = sum(each[2] for each in frames)
        played = playout([(pts_s, arrival_s) for pts_s, arrival_s, _ in frames], PLAYOUT_BUFFER_S)
        return {
            "time_to_first_frame_s": first_s,
            "completion_s": last_s,
            "throughput_mbit": octets * 8 / last_s / 1e6,
            "frames_delivered_percent": 100 * len(frames) / sent,
            **played,
            # Frames that did not arrive count as late.
            "frames_on_time_percent": played["frames_on_time_percent"] * len(frames) / sent,
        }

    def goodputs(self, summary: Mapping[str, Any], plan: Plan) -> list[Goodput]:
        # The last frame may arrive after the configured end.
        return [Goodput(summary["throughput_mbit"], summary["completion_s"], in_window=False)]


FEATURE = Ffmpeg()
