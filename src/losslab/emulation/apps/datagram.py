"""UDP datagrams with a congestion control in user space, one of `schemes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation.app import App
from losslab.emulation.apps.datagram_program import BIN_NS
from losslab.emulation.goodput import read_report
from losslab.emulation.programs import PYTHON, Flow, Program, Timeline
from losslab.emulation.schemes import make_scheme
from losslab.emulation.topology import RECEIVER_ADDRESS, at_version
from losslab.errors import LosslabError
from losslab.study import packetsizes
from losslab.study.axes import NONE, Seed, axis, plain

if TYPE_CHECKING:
    from losslab.emulation.plan import Plan
    from losslab.study.condition import Condition

PROGRAM = "losslab.emulation.apps.datagram_program"
PORT = 9_000
SOURCE_PORT = 40_021


class Datagram(App):
    """UDP datagrams between two Python programs."""

    order = 4
    meaning = "UDP with a `scheme`"
    with_ecn = with_flows = False
    with_ipv6 = True
    start_s, per_gb_s = 0.3, 49.0  # Python starts, and handles every datagram
    programs = (PROGRAM,)
    axes = {
        "scheme": axis(
            NONE,
            help="congestion control of the app `datagram`, with parameters: "
            "`ewma,alpha=0.9,scale=1.5`",
            commas=True, seed=Seed.NEVER,
        )
    }  # fmt: skip

    def conflicts(self, condition: Condition) -> Iterator[str]:
        yield from super().conflicts(condition)
        if self.used(condition) and condition.scheme == NONE:
            yield "the app datagram needs a scheme, found none"
        elif condition.scheme != NONE:
            try:
                make_scheme(condition.scheme)
            except LosslabError as error:
                yield error.message

    def modules(self, condition: Condition) -> list[str]:
        return [*super().modules(condition), type(make_scheme(condition.scheme)).__module__]

    def flows(self, condition: Condition, video: Path | None = None) -> list[Flow]:
        octets = packetsizes.of(condition).datagram_bytes
        receiver = at_version(RECEIVER_ADDRESS, condition.ip_version)
        other = octets != packetsizes.DEFAULT.datagram_bytes
        send = [
            *PYTHON, PROGRAM, "send", f"{receiver}/{octets}" if other else receiver, str(PORT),
            "--source-port", str(SOURCE_PORT), "--scheme", condition.scheme,
            "--duration-s", plain(condition.duration_s), "--warmup-s", plain(condition.warmup_s),
        ]  # fmt: skip
        receive = [*PYTHON, PROGRAM, "receive", receiver, str(PORT)]
        return [
            Flow(
                name="datagram",
                algorithm=condition.algorithm,
                port=PORT,
                listener=Program("receiver", receive, "receiver.log"),
                caller=Program("sender", send, "sender.log"),
                protocol="udp",
                bulk=False,
            )
        ]

    def collect(self, plan: Plan, folder: Path, timeline: Timeline) -> dict[str, Any]:
        """Return the summary of both ends' counts.

        Each datagram counts once. Goodput counts those acknowledged between the warm-up and the
        configured end, `received_mbit` those that arrived in the whole bins of the receiver between
        them; both are 0 if none did.
        """
        counts = read_report(folder / "sender.log") | read_report(folder / "receiver.log")
        mbit = plan.path_spec.sizes.datagram_bytes * 8 / 1e6
        return {
            "goodput_mbit": counts["acked"] * mbit / (plan.duration_s - plan.warmup_s),
            "received_mbit": _arrived_per_s(counts, plan) * mbit,
            "datagrams_sent": counts["sent"],
            "datagrams_received": counts["received"],
            "timeouts": counts["timeouts"],
        }


def _arrived_per_s(counts: Mapping[str, Any], plan: Plan) -> float:
    """Return how many datagrams arrived per second of the whole bins in the goodput's window."""
    began_ns, arrivals = int(counts["began_ns"]), counts["arrivals"]
    begin_ns, end_ns = (began_ns + round(t_s * 1e9) for t_s in (plan.warmup_s, plan.duration_s))
    first, end = -(-begin_ns // BIN_NS), end_ns // BIN_NS
    count = sum(number for at, number in arrivals.items() if first <= int(at) < end)
    return count * 1e9 / (BIN_NS * (end - first)) if end > first else 0.0


FEATURE = Datagram()
