"""Commands `artifact` and `verify`: pack a campaign for others, and verify results."""

from losslab.commands import Command

HEADING = "reproduce and verify"
ARTIFACT = Command(
    "losslab_artifact.commands",
    "pack a campaign as an archive, or verify one",
    (
        "losslab artifact pack --campaign config/quick.yaml",
        "losslab artifact pack --venue usenix --anonymous",
        "losslab artifact pack --no-instrument --out small.tar.gz",
        "losslab artifact verify",
        "losslab artifact verify losslab-artifact --sample 60 --seed 8023415",
        "losslab artifact verify losslab-artifact --sample all",
    ),
    HEADING,
)
VERIFY = Command(
    "losslab_artifact.commands",
    "recompute results, from raw files to the report, and compare",
    ("losslab verify results", "losslab verify /data/results --json"),
    HEADING,
)
