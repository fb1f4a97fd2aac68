"""Command `conform`: judge an algorithm by the cases of a suite: a draft's, or RFC 9743's."""

from losslab.commands import Command

CONFORM = Command(
    "losslab_conform.conform",
    "judge an algorithm by the test cases of a draft or by RFC 9743",
    (
        "losslab conform bbr-draft",
        "losslab conform rfc9743 bbr --out card --html card.html",
        "losslab conform bbr-draft bbr3 --case 18 --junit conform.xml",
        "losslab conform bbr-draft bbr3 --cell rtt-40ms --seeds 5",
        "losslab conform bbr-draft bbr3 --change tcp_bbr.c --against recorded.json",
    ),
    "judge an algorithm or a change",
)
