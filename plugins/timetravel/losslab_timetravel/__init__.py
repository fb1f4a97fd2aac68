"""Commands `whatif`, `why` and `export`: a recorded run's other futures, causes and packets."""

from losslab.commands import Command

HEADING = "ask what would have happened"
WHATIF = Command(
    "losslab_timetravel.whatif",
    "run other futures of a replicate from a time on",
    (
        "losslab whatif my-run --at 3.2 --list",
        "losslab whatif my-run --at 3.2 --spare 1461 --set loss_percent=0 --algorithm bbr",
        "losslab whatif my-run --at 3.2 --drop 1500 --seeds 64",
    ),
    HEADING,
)
WHY = Command(
    "losslab_timetravel.why",
    "find the dropped packets that caused a stall",
    (
        "losslab why my-run --stall --out cause",
        "losslab why my-run --metric fct_p99_s --out cause",
        "losslab why my-run --timeout --at 2.5 --out cause",
        "losslab why conform/runs/bbr-9a9d0a50c972-1 --case bbr-draft/2 --out cause",
    ),
    HEADING,
)
EXPORT = Command(
    "losslab_timetravel.export",
    "write a run as qlog or pcap",
    (
        "losslab export my-run --qlog --out my-run.qlog",
        "losslab export my-run --pcap r1-r2 --out bottleneck.pcap",
    ),
    "inspect runs and campaigns",
)
