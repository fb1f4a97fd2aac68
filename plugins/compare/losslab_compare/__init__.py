"""Command `compare`: a measurement of iperf3, flent, a packet capture or a CSV beside a run."""

from losslab.commands import Command

COMPARE = Command(
    "losslab_compare.compare",
    "compare a measurement of iperf3, flent, a capture or a CSV file with a run",
    (
        "losslab compare iperf3.json --run my-run",
        "losslab compare rrul.flent.gz --run my-run --series 'TCP upload'",
        "losslab compare sender.pcap --run results/cells/STUDY/CELL --json",
    ),
    "reproduce and verify",
)
