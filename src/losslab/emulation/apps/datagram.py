"""UDP datagrams under a congestion control of our own, one of `schemes`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.apps.datagram_program import DATAGRAM_BYTES
from losslab.emulation.flows import Flow, Program, Timeline
from losslab.emulation.standby import PYTHON
from losslab.emulation.topology import RECEIVER_ADDRESS
from losslab.errors import LosslabError
from losslab.study.condition import Condition

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan

PORT = 9_000
SOURCE_PORT = 40_021


def flows(condition: Condition, video: Path | None = None) -> list[Flow]:
    """List the one flow."""
    end = [*PYTHON, "losslab.emulation.apps.datagram_program"]
    return [
        Flow(
            name="datagram",
            algorithm=condition.algorithm,
            port=PORT,
            listener=Program(
                "receiver", [*end, "receive", RECEIVER_ADDRESS, str(PORT)], "receiver.log"
            ),
            caller=Program(
                "sender",
                [
                    *end, "send", RECEIVER_ADDRESS, str(PORT),
                    "--source-port", str(SOURCE_PORT), "--scheme", condition.scheme,
                    "--duration-s", f"{condition.duration_s:g}",
                    "--warmup-s", f"{condition.warmup_s:g}",
                ],
                "sender.log",
            ),
            protocol="udp",
            bulk=False,
        )
    ]  # fmt: skip


def collect(plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
    """Turn both ends' counts into the summary.

    Goodput counts what was acknowledged between the warm-up and the configured end;
    `received_mbit` spreads over the run all that arrived, also of what waited at its end.

    Raises:
        LosslabError: an end did not print its counts, or nothing arrived.
    """
    counts: dict[str, int] = {}
    for name in ("sender.log", "receiver.log"):
        text = (folder / name).read_text()
        try:
            counts |= json.loads(text)
        except json.JSONDecodeError as error:
            raise LosslabError(f"{name} must be counts as JSON, found: {text.strip()}") from error
    if counts["received"] == 0:
        raise LosslabError("at least one datagram must arrive, found none")
    mbit = DATAGRAM_BYTES * 8 / 1e6
    return {
        "goodput_mbit": counts["acked"] * mbit / (plan.duration_s - plan.warmup_s),
        "received_mbit": counts["received"] * mbit / plan.duration_s,
        "datagrams_sent": counts["sent"],
        "datagrams_received": counts["received"],
        "timeouts": counts["timeouts"],
    }
