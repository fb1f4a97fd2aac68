"""Command `decide`: which congestion control to use on a path, and at whose cost."""

from losslab.commands import Command

DECIDE = Command(
    "losslab_decide.decide",
    "say which congestion control to use on a path, and at whose cost",
    (
        "losslab decide cubic bbr --rate-mbit 200M --rtt-ms 40ms --loss-percent 0.5% "
        "--buffer-packets 2MB --share cubic=30% --use bulk --use pages=300kB --use video "
        "--out my-decision",
        "losslab decide cubic bbr --from-tc path.sh --uncertain loss_percent=0.1..2 --out other",
    ),
    "judge an algorithm or a change",
)
