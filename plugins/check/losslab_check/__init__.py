"""Commands `check` and `divergence`: effects of a change of the kernel or a program."""

from losslab.commands import Command

CHECK = Command(
    "losslab_check.check",
    "report what a change does to a suite's cells",
    (
        "losslab check tcp_cubic.c --out check",
        "losslab check series/ --only loss --only deep/bbr --fail-on worse --out check",
        "losslab check net/ipv4/tcp_input.c=new.c --base net/ipv4/tcp_input.c=old.c --out check",
    ),
    "judge an algorithm or a change",
)
DIVERGENCE = Command(
    "losslab_check.divergence",
    "print the first packet, sample and state in which two runs differ",
    ("losslab divergence my-run other-run",),
    "judge an algorithm or a change",
)
