"""Measurement of a replicate: plan, set up, read back, run traffic, check, summarise.

This module runs in the guest, or in an image on the host. It imports the standard library and
Mininet only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from losslab.emulation import batch, capture, cut, hosts, netns, preloaded, traffic
from losslab.emulation.outcome import Observations, summarise
from losslab.emulation.plan import make_plan
from losslab.emulation.probes import ping
from losslab.emulation.schedule_runner import ScheduleRunner
from losslab.emulation.timers import wait_for_whole_second
from losslab.emulation.topology import RECEIVER_ADDRESS, Network, emulated_hosts
from losslab.study.condition import Condition

if TYPE_CHECKING:
    from losslab.emulation.batch import Handle
    from losslab.emulation.flows import Host
    from losslab.emulation.plan import Plan
    from losslab.emulation.realtime import Watch


@dataclass(frozen=True)
class Stage:
    """Hosts and links of a condition, set up except for what depends on the seed."""

    condition: Condition
    nodes: Mapping[str, Host]
    handles: dict[str, Handle]


@dataclass(frozen=True)
class BareHosts:
    """Hosts and links of the path that no condition has set up yet."""

    network: Network
    handles: dict[str, Handle]


@contextlib.contextmanager
def bare_hosts(host_class: type | None = None, disposable: bool = False) -> Iterator[BareHosts]:
    """Make bare hosts for the length of the block; arguments as of `topology.emulated_hosts`."""
    with (
        emulated_hosts(host_class, disposable) as network,
        batch.handles(_pids(network.nodes)) as handles,
    ):
        yield BareHosts(network, handles)


@contextlib.contextmanager
def stage(bare: BareHosts, condition: Condition, loaded: bool = True) -> Iterator[Stage]:
    """Set up bare hosts, which cannot be used again, for a condition during the block."""
    plan = make_plan(condition, 0)
    hosts.require_algorithms(plan.algorithms)
    hosts.require_ecn(plan.hosts)
    mechanisms = plan.path_spec.mechanisms
    programs = preloaded.of_flows(plan.programs)
    programs += [program for each in mechanisms for program in each.preloaded_programs(plan)]
    new = bare.network.extend(plan.background.network) if plan.background else {}
    with batch.handles(_pids(new)) as more:
        handles = bare.handles | more
        hosts.apply(plan.hosts, handles)
        with preloaded.hosts(bare.network.nodes, programs if loaded else []) as ready:
            yield Stage(condition, ready, handles)


def _pids(nodes: Mapping[str, Host]) -> dict[str, int]:
    return {name: node.pid for name, node in nodes.items()}


def replicate(
    ready: Stage, job: dict[str, Any], folder: Path, watch: Watch | None = None
) -> dict[str, Any]:
    """Measure a job's replicate; return its result with the kernel's version."""
    raw = folder / "raw"
    raw.mkdir()
    video = folder / "video.mp4" if job["video"] else None
    result = measure(
        ready, int(job["seed"]), raw, video, watch, job.get("captures", []), job.get("cut_s")
    )
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
    cut_s: float | None = None,
) -> dict[str, Any]:
    """Run one replicate; return its result, as `outcome.summarise`.

    Raw files go to the empty `folder`; link traces are in its parent. `video` is the stream that
    the app `ffmpeg` sends, `watch` monitors the machine in real time, `captures` are interfaces,
    and `cut_s` is the time of a cut (see `emulation.cut`).
    """
    plan = make_plan(ready.condition, seed, video)
    mechanisms = plan.path_spec.mechanisms
    nodes = ready.nodes
    hosts.shape(plan.hosts, ready.handles)
    incomplete: list[str] = []
    with capture.running(captures, plan, nodes, folder, incomplete):
        with watch or contextlib.nullcontext():
            wait_for_whole_second()
            idle = _ping_idle(nodes["sender"].pid, plan, folder)
            before = hosts.read_back(plan.hosts, ready.handles)
            changes = plan.parts.get("changes")
            sessions = (
                [ScheduleRunner(changes, ready.handles, plan.background_qdiscs)] if changes else []
            )
            cuts = [] if cut_s is None else [cut.Announcement(plan, cut_s)]
            noted: dict[str, Any] = {}
            with contextlib.ExitStack() as stack:
                for each in mechanisms:
                    noted |= stack.enter_context(each.attached(plan, nodes, ready.handles, folder))
                run = traffic.run(plan, nodes, folder, [*cuts, *sessions])
        after = hosts.read_back_settled(plan.hosts, ready.handles, plan.path_spec.rtt_ms)
    condition = ready.condition
    if cut_s is not None:
        condition, plan = cut.ended(plan, condition, seed, run, folder.parent, video)
    observations = Observations(idle, before, run, noted, after, sessions)
    result = summarise(plan, observations, folder, watch)
    own = {"cell": condition.to_json()} if cut_s is not None else {}
    return result | {"reasons": result["reasons"] + incomplete} | own


def _ping_idle(sender_pid: int, plan: Plan, folder: Path) -> list[tuple[float, float]]:
    """Measure the RTT of the idle path with one ping at a time, so that none queues."""
    with netns.inside(sender_pid):
        probe = ping.EchoProbe(RECEIVER_ADDRESS)
    with contextlib.closing(probe):
        path = plan.path_spec
        replies = ping.measure_idle(probe, path.rtt_ms, path.effect.above_ms / 1e3)
    ping.write_csv(replies, folder / "ping_idle.csv")
    return replies
