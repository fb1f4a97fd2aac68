"""Command `check`: effects of a change of the kernel or a program on a suite."""

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
