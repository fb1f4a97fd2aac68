"""`losslab export`: a run's packets as pcap for Wireshark, or its TCP connections as qlog for qvis.

The qlog's data come from samples of the kernel's sockets (tcp.csv) and from the capture of the
sender's link. Each data segment is a packet, which is sent and later acknowledged (cumulatively or
selectively) or lost, when its bytes are retransmitted. The format is qlog 0.3 in JSON, which qvis
and ngtcp2 support, with the events `packet_sent`, `packet_received`, `packet_lost` and
`metrics_updated` (draft-ietf-quic-qlog-main-schema, draft-ietf-quic-qlog-quic-events).
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from losslab.campaign import packets, rerun
from losslab.campaign.packets import SENDERS_LINK, Segment
from losslab.campaign.results import Replicate, whole_file
from losslab.campaign.tables import flow_names
from losslab.errors import LosslabError
from losslab.reading import UsageError, out_file, read_rows
from losslab.study import packetsizes
from losslab.study.condition import Condition

HALF = 1 << 31  # sequence numbers are compared modulo 2^32
Event = dict[str, Any]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `export`."""
    command = commands.add_parser("export")
    command.add_argument(
        "folder", metavar="RUN", type=Path, help="a replicate's folder, or its manifest.json"
    )
    formats = command.add_mutually_exclusive_group(required=True)
    formats.add_argument("--qlog", action="store_true", help="write the sender's TCP connections")
    formats.add_argument(
        "--pcap", metavar="LINK", nargs="?", const=SENDERS_LINK,
        help=f"write the packets of an interface, such as r1-r2 (default {SENDERS_LINK})",
    )  # fmt: skip
    command.add_argument(rerun.TRUST, action="store_true", help=rerun.TRUST_HELP)
    command.add_argument("--out", type=out_file, help="file to write (default: RUN.qlog, RUN.pcap)")
    command.set_defaults(run=_export)


def _export(options: argparse.Namespace) -> int:
    given: Path = options.folder
    manifest = rerun.load_manifest(given)
    folder = given if given.is_dir() else given.parent
    Replicate(folder).checked()
    name = folder.resolve().name
    condition = Condition.from_json(manifest["cell"])
    link = options.pcap or SENDERS_LINK
    kind = "pcap" if options.pcap else "qlog"
    out: Path = options.out or Path(f"{name}.{kind}")
    if out.exists():
        raise LosslabError(
            f"the output file must not exist, found {out}", hint="choose another with --out"
        )
    with packets.captured(folder, manifest, link, options.trust) as path:
        if options.pcap:
            with whole_file(out) as partial:
                shutil.copyfile(path, partial)
        else:
            capture = path.read_bytes()
    title = f"losslab {condition.slug()}, seed {manifest['seed']}"
    if options.qlog:
        origin_ns, segments = packets.segments(capture)
        samples = read_rows(folder / "tcp.csv")
        try:
            if condition.listens == "sender":
                # Connections of a server share the sender's port. tcp.csv has the remote one.
                segments = [replace(each, port=each.remote_port) for each in segments]
            full = packetsizes.of(condition).segment_bytes
            content = log(title, samples, segments, origin_ns, flow_names(folder), full)
        except (KeyError, OverflowError, ValueError) as error:
            raise UsageError(
                f"{folder / 'tcp.csv'} must have the format of this version, found: {error!r}",
                hint="measure again with this version of losslab",
            ) from error
        if not content["traces"]:
            raise LosslabError(
                "a run must have a TCP connection of its sender to be exported as qlog, found none "
                f"in {folder}",
                hint="for the app quic, use the qlog that its program wrote to the run's folder",
            )
        with whole_file(out) as partial:
            partial.write_text(json.dumps(content) + "\n")
    print(out)
    return 0


@dataclass
class _Connection:
    """The state of a connection's packets at a time."""

    sent: int = 0
    # Packets in flight, neither acknowledged nor lost: number, and begin and end of the data.
    in_flight: dict[int, tuple[int, int]] = field(default_factory=dict)
    octets: int = 0  # in flight
    highest: int | None = None  # end of the data sent so far

    def send(self, segment: Segment) -> Iterator[int]:
        """Add a packet; yield the packets that are lost, because it retransmits their bytes."""
        begin, end = segment.begin, segment.begin + segment.octets
        if self.highest is not None and _before(begin, self.highest):
            for number, (first, last) in list(self.in_flight.items()):
                if _before(first, end) and _before(begin, last):
                    self._remove(number)
                    yield number
        self.in_flight[self.sent] = begin, end
        self.octets += segment.octets
        self.sent += 1
        if self.highest is None or _before(self.highest, end):
            self.highest = end

    def acknowledge(self, segment: Segment) -> list[int]:
        """Remove the packets that a segment acknowledges; return their numbers."""
        found = [
            number
            for number, (begin, end) in self.in_flight.items()
            if not _before(segment.acked, end)
            or any(not _before(begin, a) and not _before(b, end) for a, b in segment.sacked)
        ]
        for number in found:
            self._remove(number)
        return found

    def _remove(self, number: int) -> None:
        begin, end = self.in_flight.pop(number)
        self.octets -= end - begin


def _before(a: int, b: int) -> bool:
    """Return whether a sequence number comes before another, modulo 2^32."""
    return 0 < (b - a) % (1 << 32) < HALF


def log(
    title: str,
    samples: Iterable[Mapping[str, str]],
    segments: Sequence[Segment],
    origin_ns: int,
    names: Mapping[str, str] = MappingProxyType({}),
    segment_bytes: int = packetsizes.DEFAULT.segment_bytes,
) -> dict[str, Any]:
    """Return a run's qlog from the rows of tcp.csv and the captured segments.

    `names` are those of the connections that carry data, by source port as in tcp.csv. Their traces
    come first: qvis opens the first one. The others control the app's programs.
    """
    by_port = defaultdict[int, list[Segment]](list)
    for segment in segments:
        by_port[segment.port].append(segment)
    rows, traces = list(samples), []
    ports = dict.fromkeys(int(row["flow"]) for row in rows)
    for port in sorted(ports, key=lambda port: str(port) not in names):
        what = f"data of the flow {names[str(port)]}" if str(port) in names else "control"
        socket_events = [_metrics(row, segment_bytes) for row in rows if int(row["flow"]) == port]
        packet_events = _events(by_port[port], origin_ns)
        events = sorted([*packet_events, *socket_events], key=lambda event: event["time"])
        traces.append(
            {
                "title": f"{what}, TCP port {port}, {title}",
                "vantage_point": {"name": "sender", "type": "server"},
                "common_fields": {
                    "ODCID": f"{port:04x}", "protocol_type": ["TCP"], "time_format": "relative",
                    "reference_time": 0,
                },
                "events": events,
            }
        )  # fmt: skip
    return {"qlog_version": "0.3", "qlog_format": "JSON", "title": title, "traces": traces}


def _metrics(row: Mapping[str, str], segment_bytes: int) -> Event:
    """Return the event of a row of tcp.csv, with windows in bytes."""
    data: Event = {
        "congestion_window": int(row["cwnd_packets"]) * segment_bytes,
        "smoothed_rtt": float(row["srtt_ms"]),
        "rtt_variance": float(row["rttvar_ms"]),
    }
    if row["ssthresh_packets"]:
        data["ssthresh"] = int(row["ssthresh_packets"]) * segment_bytes
    if float(row["pacing_mbit"]):
        data["pacing_rate"] = round(float(row["pacing_mbit"]) * 1e6)
    time_ms = round(1e3 * float(row["t_s"]), 6)
    return {"time": time_ms, "name": "recovery:metrics_updated", "data": data}


def _events(segments: Sequence[Segment], origin_ns: int) -> Iterator[Event]:
    connection, in_flight = _Connection(), -1
    for segment in segments:
        time_ms = (segment.at_ns - origin_ns) / 1e6
        if segment.sent and segment.octets > 0:
            for lost in connection.send(segment):
                yield _event(time_ms, "recovery:packet_lost", {"header": _header(lost)})
            data: Event = {
                "header": _header(connection.sent - 1), "raw": {"length": segment.octets},
            }  # fmt: skip
            yield _event(time_ms, "transport:packet_sent", data)
        elif not segment.sent:
            acked = connection.acknowledge(segment)
            if not acked:
                continue
            frame = Event(frame_type="ack", acked_ranges=_ranges(acked))
            data = Event(header=Event(packet_type="1RTT"), frames=[frame])
            yield _event(time_ms, "transport:packet_received", data)
        if connection.octets != in_flight:
            in_flight = connection.octets
            yield _event(time_ms, "recovery:metrics_updated", {"bytes_in_flight": in_flight})


def _event(time_ms: float, name: str, data: Event) -> Event:
    return {"time": time_ms, "name": name, "data": data}


def _header(number: int) -> Event:
    return {"packet_type": "1RTT", "packet_number": number}


def _ranges(numbers: Iterable[int]) -> list[list[int]]:
    """Convert ascending numbers to ranges."""
    groups = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    runs = ([number for _, number in run] for _, run in groups)
    return [[run[0], run[-1]] for run in runs]
