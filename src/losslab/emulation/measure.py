"""Measure replicates where the hosts are: plan, build, apply, read back, run, check, sum up.

Runs inside the guest, or in an image entered on the host; standard library and Mininet only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import batch, capture, hosts, netns, standby, traffic
from losslab.emulation.outcome import Seen, sum_up
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import ping
from losslab.emulation.topology import RECEIVER_ADDRESS, emulated_hosts
from losslab.emulation.waits import wait_for_whole_second
from losslab.study.condition import Condition

if TYPE_CHECKING:
    from losslab.emulation.batch import Handle
    from losslab.emulation.flows import Host
    from losslab.emulation.plan import Plan
    from losslab.emulation.realtime import Watch


@dataclass(frozen=True)
class Stage:
    """Hosts and links of a condition, set up as far as no seed decides."""

    condition: Condition
    nodes: Mapping[str, Host]
    handles: dict[str, Handle]


@contextlib.contextmanager
def stage(
    condition: Condition,
    host_class: type | None = None,
    disposable: bool = False,
    loaded: bool = True,
) -> Iterator[Stage]:
    """Make the hosts of a condition for the length of the block.

    `disposable` hosts are left to the guest's power-off; `loaded` ones have their Python programs
    loaded.
    """
    plan = make_plan(condition, 0)
    hosts.require_algorithms(plan.algorithms)
    hosts.require_ecn(plan.hosts)
    beside = plan.crowd.network if plan.crowd else None
    mechanisms = plan.promise.mechanisms
    programs = standby.of_flows(plan.programs)
    programs += [program for each in mechanisms for program in each.loaded(plan)]
    with (
        emulated_hosts(host_class, disposable, beside) as nodes,
        batch.handles({name: node.pid for name, node in nodes.items()}) as handles,
    ):
        hosts.apply(plan.hosts, handles)
        with standby.hosts(nodes, programs if loaded else []) as ready:
            yield Stage(condition, ready, handles)


def replicate(
    ready: Stage, job: dict[str, Any], folder: Path, watch: Watch | None = None
) -> dict[str, Any]:
    """Measure one replicate into the `raw` folder of a job's; arguments and result as `measure`."""
    raw = folder / "raw"
    raw.mkdir()
    video = folder / "video.mp4" if job["video"] else None
    result = measure(ready, int(job["seed"]), raw, video, watch, job.get("captures", []))
    result["machine"] = {
        "kernel": os.uname().release,
        "version": os.uname().version,
        "initial_cwnd_packets": 10,  # TCP_INIT_CWND, net/tcp.h
    }
    return result


def measure(
    ready: Stage,
    seed: int,
    folder: Path,
    video: Path | None = None,
    watch: Watch | None = None,
    captures: Sequence[str] = (),
) -> dict[str, Any]:
    """Run one replicate and leave its raw files in `folder`; return what `outcome.sum_up` does.

    The folder exists and is empty; beside it are the links' traces. `video` is the stream that the
    app `ffmpeg` sends, `watch` sees in real time whether the machine was good enough, and of the
    interfaces `captures` every packet goes into a file.
    """
    plan = make_plan(ready.condition, seed, video)
    mechanisms = plan.promise.mechanisms
    for mechanism in mechanisms:
        mechanism.prepare(plan, folder.parent)
    nodes = ready.nodes
    hosts.shape(plan.hosts, ready.handles)
    missing: list[str] = []
    with capture.running(captures, plan, nodes, folder, missing):
        with watch or contextlib.nullcontext():
            wait_for_whole_second()
            idle = _ping_idle(nodes["sender"].pid, plan, folder)
            before = hosts.read_back(plan.hosts, ready.handles)
            made = (each.session(plan, ready.handles) for each in mechanisms)
            sessions = [session for session in made if session is not None]
            noted: dict[str, Any] = {}
            with contextlib.ExitStack() as stack:
                for each in mechanisms:
                    noted |= stack.enter_context(each.attached(plan, nodes, ready.handles, folder))
                run = traffic.run(plan, nodes, folder, sessions)
        after = hosts.read_back_settled(plan.hosts, ready.handles, plan.promise.rtt_ms)
    seen = Seen(idle, before, run, noted, after, sessions)
    result = sum_up(plan, seen, folder, watch)
    return result | {"reasons": result["reasons"] + missing}


def _ping_idle(sender_pid: int, plan: Plan, folder: Path) -> list[tuple[float, float]]:
    """Measure the round-trip time of the empty path, each by itself: none waits behind another."""
    with netns.inside(sender_pid):
        probe = ping.EchoProbe(RECEIVER_ADDRESS)
    with contextlib.closing(probe):
        replies = ping.measure_idle(probe, plan.promise.rtt_ms, plan.promise.above_ms / 1e3)
    ping.write_csv(replies, folder / "ping_idle.csv")
    return replies
