"""Live video: an H.264 stream sent at its own pace over TCP, judged frame by frame at the receiver.

The receiver is ffmpeg too; it prints a line per frame as soon as it has the frame whole, and each
line is stamped with the receiver's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import App
from losslab.emulation.flows import Flow, Program, Timeline
from losslab.emulation.topology import RECEIVER_ADDRESS, SENDER_ADDRESS
from losslab.errors import LosslabError
from losslab.study.axes import axis

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

PORT = 5004
SOURCE_PORT = 40_011
FRAME_RATE = 30
# What a replicate is expected to carry.
EXPECTED_MBIT = 3.0
# What a player holds back before it shows the first frame; a live player's usual 200 ms.
PLAYOUT_BUFFER_S = 0.2
CONNECT_TIMEOUT_US = 60_000_000
# Of each stream (condition.VIDEOS) the bit rate and the rate control's buffer.
BIT_RATES = {"720p": ("6M", "1M"), "128x64": ("735k", "120k")}
SIZES = {"720p": "1280x720", "128x64": "128x64"}


def encode_command(video: str, duration_s: float, output: str) -> list[str]:
    """Write the command that makes a stream: 30 frames/s at a constant bit rate, H.264.

    One thread, and of the processor's instructions those that every x86-64 has: no choice is left
    to the machine, and the bytes are the same on all. (Newer instructions gave the same, too.)
    """
    rate, buffer = BIT_RATES[video]
    return [
        "ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error", "-y", "-cpuflags", "sse2",
        "-f", "lavfi",
        "-i", f"testsrc2=size={SIZES[video]}:rate={FRAME_RATE}:duration={duration_s:g}",
        "-vf", "noise=alls=12:allf=t:all_seed=1",
        "-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-threads", "1",
        "-g", str(FRAME_RATE), "-bf", "0", "-pix_fmt", "yuv420p",
        "-b:v", rate, "-minrate", rate, "-maxrate", rate, "-bufsize", buffer,
        "-x264-params", "nal-hrd=cbr:force-cfr=1:lookahead_threads=1:sliced_threads=0:asm=sse2",
        "-flags", "+bitexact", "-fflags", "+bitexact", "-f", "mp4", output,
    ]  # fmt: skip


def playout(frames: list[tuple[float, float]], buffer_s: float) -> dict[str, float]:
    """Play frames as a player would, and count what a viewer would notice.

    `frames` have presentation and arrival times in s, in order of presentation; the first is shown
    `buffer_s` after it arrived. `stall_count` and `stall_s` are of a player that waits for a late
    frame and then goes on, `frames_on_time_percent` is of one that never waits.
    """
    first_pts, first_arrival = frames[0]
    due_fixed = [first_arrival + buffer_s + pts - first_pts for pts, _ in frames]
    on_time = sum(arrival <= due for due, (_, arrival) in zip(due_fixed, frames, strict=True))
    delay, stalls, stalled = 0.0, 0, 0.0
    for due, (_, arrival) in zip(due_fixed, frames, strict=True):
        late = arrival - (due + delay)
        if late > 0:
            stalls += 1
            stalled += late
            delay += late
    return {
        "stall_count": stalls,
        "stall_s": stalled,
        "frames_on_time_percent": 100 * on_time / len(frames),
    }


def parse_frames(text: str) -> list[tuple[float, int, int]]:
    """Read stamped framecrc lines as (presentation time s, arrival ns, bytes).

    A line is `NANOSECONDS stream, dts, pts, duration, size, crc`; lines with `#` are the header,
    where `#tb 0: 1/90000` states the unit of dts and pts.
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
    """A stream that one ffmpeg sends to another."""

    order = 2
    meaning = "live video"
    start_s, per_s = 0.6, 0.011
    after = "sender_delay_ms"
    axes = {
        "video": axis(
            "720p", help="the stream of the app `ffmpeg`", choices={"720p": "", "128x64": ""}
        )
    }

    def expected_mbit(self, condition: Condition, rate_mbit: float) -> float:
        return min(EXPECTED_MBIT, rate_mbit)

    def inputs(self, condition: Condition) -> Mapping[str, Any]:
        """Return the command that encodes the stream."""
        return {"video": {"command": encode_command(condition.video, condition.duration_s, "")}}

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        """List the one flow, whose receiver prints a checksum line per frame.

        The sender sends the file at its native frame rate, not re-encoded.
        """
        receiver = [
            "ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error",
            "-probesize", "32", "-analyzeduration", "0",
            "-f", "mpegts",
            "-i", f"tcp://{RECEIVER_ADDRESS}:{PORT}?listen=1&listen_timeout=60000",
            "-map", "0:v", "-c", "copy", "-copyts", "-f", "framecrc", "-flush_packets", "1", "-",
        ]  # fmt: skip
        sender = [
            "ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error",
            # `-re` would send the first half second at once.
            "-readrate", "1", "-readrate_initial_burst", "0.001", "-i", str(video),
            "-t", f"{condition.duration_s:g}",
            "-map", "0:v", "-c", "copy", "-f", "mpegts", "-flush_packets", "1", "-muxdelay", "0",
            f"tcp://{RECEIVER_ADDRESS}:{PORT}?timeout={CONNECT_TIMEOUT_US}"
            f"&local_addr={SENDER_ADDRESS}&local_port={SOURCE_PORT}",
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

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Turn receiver.log into frames.csv and the summary."""
        frames = parse_frames((folder / "receiver.log").read_text())
        if not frames:
            raise LosslabError("at least one video frame must arrive, found none in receiver.log")
        origin_ns = timeline.origin_ns
        rows = [(pts_s, (arrival - origin_ns) / 1e9, octets) for pts_s, arrival, octets in frames]
        lines = [
            f"{number},{pts_s:.6f},{arrival_s:.9f},{octets}"
            for number, (pts_s, arrival_s, octets) in enumerate(rows)
        ]
        header = "frame,pts_s,arrival_s,bytes"
        (folder / "frames.csv").write_text("\n".join([header, *lines]) + "\n")
        sent = round(plan.duration_s * FRAME_RATE)
        first_s, last_s = rows[0][1], rows[-1][1]
        octets = sum(row[2] for row in rows)
        played = playout([(pts_s, arrival_s) for pts_s, arrival_s, _ in rows], PLAYOUT_BUFFER_S)
        return {
            "time_to_first_frame_s": first_s,
            "completion_s": last_s,
            "throughput_mbit": octets * 8 / last_s / 1e6,
            "frames_delivered_percent": 100 * len(rows) / sent,
            **played,
            # Frames that never came are late too.
            "frames_on_time_percent": played["frames_on_time_percent"] * len(rows) / sent,
        }


FEATURE = Ffmpeg()
