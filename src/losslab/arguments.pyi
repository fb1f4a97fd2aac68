# Axes of `losslab.measure` and `losslab.sweep`, for editors and type checkers.
# Written by `python -m bench.readme --tables`.

from collections.abc import Iterable
from os import PathLike
from typing import Literal, TypeAlias, TypedDict

Number: TypeAlias = float | str  # text has a unit, such as "40ms"
Text: TypeAlias = str | PathLike[str]
Path: TypeAlias = Literal["symmetric", "asymmetric"]
App: TypeAlias = Literal["iperf3", "stream", "ffmpeg", "web", "datagram", "command", "quic"]
Offloads: TypeAlias = Literal["off", "on"]
LossDirection: TypeAlias = Literal["data", "both", "back"]
Queue: TypeAlias = Literal[
    "fifo",
    "bfifo",
    "two-fifos",
    "red",
    "pie",
    "codel",
    "fq_codel",
    "cake",
    "red-step",
    "dualpi2",
    "own",
]
Video: TypeAlias = Literal["720p", "128x64"]
ReceiveBuffer: TypeAlias = Literal["linux", "linux-2mib", "large", "kernel"]
Shaper: TypeAlias = Literal["link", "tbf", "htb-netem"]
SenderQueue: TypeAlias = Literal["fq", "fq_codel"]
JitterOrder: TypeAlias = Literal["kept", "mixed"]
JitterDirection: TypeAlias = Literal["data", "both", "back"]
JitterDistribution: TypeAlias = Literal["uniform", "normal"]
ReverseQueue: TypeAlias = Literal["fifo", "bfifo", "codel", "fq_codel", "pie", "cake", "red"]
Ecn: TypeAlias = Literal["off", "on", "accurate", "kernel"]
Listens: TypeAlias = Literal["receiver", "sender", "none"]
Until: TypeAlias = Literal["duration", "completion"]
CompetitorListens: TypeAlias = Literal["receiver", "sender", "none"]

class Axes(TypedDict, total=False):
    """A value of each axis."""

    algorithm: Text
    loss_percent: Number
    path: Path | Text
    app: App | Text
    rtt_ms: Number
    rate_mbit: Number
    buffer_packets: Number
    offloads: Offloads | Text
    loss_direction: LossDirection | Text
    competitor: Text
    queue: Queue | Text
    sender_delay_ms: Number
    trace: Text
    trace_back: Text
    scheme: Text
    video: Video | Text
    receive_buffer: ReceiveBuffer | Text
    shaper: Shaper | Text
    sender_queue: SenderQueue | Text
    kernel: Text
    parameters: Text
    flows: Text
    second_rate_mbit: Number
    write_kib: Number
    start_spread_s: Number
    changes: Text
    pauses: Text
    loss_burst_packets: Number
    jitter_ms: Number
    jitter_order: JitterOrder | Text
    jitter_direction: JitterDirection | Text
    jitter_distribution: JitterDistribution | Text
    jitter_correlation_percent: Number
    reorder_percent: Number
    reorder_ms: Number
    duplicate_percent: Number
    ack_thinning: Number
    ack_batch_ms: Number
    data_batch_ms: Number
    reverse_rate_mbit: Number
    reverse_buffer_packets: Number
    reverse_queue: ReverseQueue | Text
    policer_mbit: Number
    policer_burst_packets: Number
    ecn: Ecn | Text
    mark_packets: Number
    drop_list: Text
    trace_start_s: Number
    qdisc: Text
    sysctl: Text
    initcwnd_packets: Number
    initrwnd_packets: Number
    window_bytes: Number
    mtu_bytes: Number
    ip_version: Number
    sender_command: Text
    receiver_command: Text
    listens: Listens | Text
    bring: Text
    size_kb: Number
    app_rate_mbit: Number
    app_pattern: Text
    response_kb: Number
    request_bytes: Number
    think_ms: Number
    requests: Number
    env: Text
    testcase: Text
    until: Until | Text
    competitor_sender_command: Text
    competitor_receiver_command: Text
    competitor_listens: CompetitorListens | Text
    image: Text
    duration_s: Number
    warmup_s: Number

class AxisLists(TypedDict, total=False):
    """A value, or the values, of each axis."""

    algorithm: Text | Iterable[Text]
    loss_percent: Number | Iterable[Number]
    path: Path | Text | Iterable[Path | Text]
    app: App | Text | Iterable[App | Text]
    rtt_ms: Number | Iterable[Number]
    rate_mbit: Number | Iterable[Number]
    buffer_packets: Number | Iterable[Number]
    offloads: Offloads | Text | Iterable[Offloads | Text]
    loss_direction: LossDirection | Text | Iterable[LossDirection | Text]
    competitor: Text | Iterable[Text]
    queue: Queue | Text | Iterable[Queue | Text]
    sender_delay_ms: Number | Iterable[Number]
    trace: Text | Iterable[Text]
    trace_back: Text | Iterable[Text]
    scheme: Text | Iterable[Text]
    video: Video | Text | Iterable[Video | Text]
    receive_buffer: ReceiveBuffer | Text | Iterable[ReceiveBuffer | Text]
    shaper: Shaper | Text | Iterable[Shaper | Text]
    sender_queue: SenderQueue | Text | Iterable[SenderQueue | Text]
    kernel: Text | Iterable[Text]
    parameters: Text | Iterable[Text]
    flows: Text | Iterable[Text]
    second_rate_mbit: Number | Iterable[Number]
    write_kib: Number | Iterable[Number]
    start_spread_s: Number | Iterable[Number]
    changes: Text | Iterable[Text]
    pauses: Text | Iterable[Text]
    loss_burst_packets: Number | Iterable[Number]
    jitter_ms: Number | Iterable[Number]
    jitter_order: JitterOrder | Text | Iterable[JitterOrder | Text]
    jitter_direction: JitterDirection | Text | Iterable[JitterDirection | Text]
    jitter_distribution: JitterDistribution | Text | Iterable[JitterDistribution | Text]
    jitter_correlation_percent: Number | Iterable[Number]
    reorder_percent: Number | Iterable[Number]
    reorder_ms: Number | Iterable[Number]
    duplicate_percent: Number | Iterable[Number]
    ack_thinning: Number | Iterable[Number]
    ack_batch_ms: Number | Iterable[Number]
    data_batch_ms: Number | Iterable[Number]
    reverse_rate_mbit: Number | Iterable[Number]
    reverse_buffer_packets: Number | Iterable[Number]
    reverse_queue: ReverseQueue | Text | Iterable[ReverseQueue | Text]
    policer_mbit: Number | Iterable[Number]
    policer_burst_packets: Number | Iterable[Number]
    ecn: Ecn | Text | Iterable[Ecn | Text]
    mark_packets: Number | Iterable[Number]
    drop_list: Text | Iterable[Text]
    trace_start_s: Number | Iterable[Number]
    qdisc: Text | Iterable[Text]
    sysctl: Text | Iterable[Text]
    initcwnd_packets: Number | Iterable[Number]
    initrwnd_packets: Number | Iterable[Number]
    window_bytes: Number | Iterable[Number]
    mtu_bytes: Number | Iterable[Number]
    ip_version: Number | Iterable[Number]
    sender_command: Text | Iterable[Text]
    receiver_command: Text | Iterable[Text]
    listens: Listens | Text | Iterable[Listens | Text]
    bring: Text | Iterable[Text]
    size_kb: Number | Iterable[Number]
    app_rate_mbit: Number | Iterable[Number]
    app_pattern: Text | Iterable[Text]
    response_kb: Number | Iterable[Number]
    request_bytes: Number | Iterable[Number]
    think_ms: Number | Iterable[Number]
    requests: Number | Iterable[Number]
    env: Text | Iterable[Text]
    testcase: Text | Iterable[Text]
    until: Until | Text | Iterable[Until | Text]
    competitor_sender_command: Text | Iterable[Text]
    competitor_receiver_command: Text | Iterable[Text]
    competitor_listens: CompetitorListens | Text | Iterable[CompetitorListens | Text]
    image: Text | Iterable[Text]
    duration_s: Number | Iterable[Number]
    warmup_s: Number | Iterable[Number]
