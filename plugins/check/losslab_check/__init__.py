"""Commands `check`, `bisect` and `divergence`: effects of a change of the kernel or a program."""

from losslab.commands import Command

HEADING = "judge an algorithm or a change"
CHECK = Command(
    "losslab_check.check",
    "report what a change does to a suite's cells",
    (
        "losslab check tcp_cubic.c --out check",
        "losslab check series/ --only loss --only deep/bbr --fail-on worse --out check",
        "losslab check net/ipv4/tcp_input.c=new.c --base net/ipv4/tcp_input.c=old.c --out check",
    ),
    HEADING,
)
BISECT = Command(
    "losslab_check.bisect",
    "find the first commit that changes a run",
    (
        "losslab bisect --git ~/linux --good v1 --bad v2 --out bisect",
        "losslab bisect --patches series --metric goodput_mbit --at-least 9 --out bisect",
        "losslab bisect --releases 6.1,6.12,7.2 --only loss --out bisect",
    ),
    HEADING,
)
DIVERGENCE = Command(
    "losslab_check.divergence",
    "print the first packet, sample and state in which two runs differ",
    ("losslab divergence my-run other-run",),
    HEADING,
)
