"""Command `conform`: judge an algorithm by the executable test cases of a draft."""

from losslab.commands import Command

CONFORM = Command(
    "losslab_conform.conform",
    "judge an algorithm by the test cases of a draft",
    (
        "losslab conform bbr-draft",
        "losslab conform bbr-draft bbr3 --case 18 --junit conform.xml",
        "losslab conform bbr-draft bbr3 --change tcp_bbr.c --against recorded.json",
    ),
    "judge an algorithm or a change",
)
