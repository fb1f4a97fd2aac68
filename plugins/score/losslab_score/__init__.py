"""Command `score`: judge algorithms by the criteria of RFC 9743."""

from losslab.commands import Command

SCORE = Command(
    "losslab_score.score",
    "judge algorithms by the criteria of RFC 9743",
    (
        "losslab score cubic bbr --quick --out scores",
        "losslab score mine --out scores --against recorded/scorecard.json",
    ),
    "judge an algorithm or a change",
)
