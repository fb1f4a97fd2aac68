"""Commands `path` and `trace`: paths and traces of other tools as conditions, and back."""

from losslab.commands import Command

PATH = Command(
    "losslab_paths.commands",
    "convert lines of tc or Mininet to a condition, and a condition to lines of tc",
    (
        "losslab path from-tc path.sh",
        "losslab path from-tc topology.py --json",
        "losslab path to-tc my-run",
        "losslab path to-tc --rate-mbit 20 --rtt-ms 40 --buffer-packets 70",
    ),
    "measure",
)
TRACE = Command(
    "losslab_paths.traces",
    "convert another project's rate trace to a packet-delivery trace",
    (
        "losslab trace import rates.csv --column throughput_mbps --interval-ms 1000",
        "losslab trace import report.log --out config/traces/tram.down",
    ),
    "add your own",
)
