"""Measurement of a replicate: plan, set up, read back, run traffic, check, summarise.

A guest with a cut can be forked in the middle of its traffic. It announces the time of the cut when
its traffic starts. At that time its kernel waits to be forked, between two events (kernel patch
0015), so that no program of the guest notices. Only the replicate's end differs: it records which
packets were dropped, and a future summarises itself as the condition that it is a replicate of.

This module runs in the guest, or in an image on the host. It imports the standard library and
Mininet only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from losslab.emulation import capture, droplist, hosts, probes, programs, tampering, traffic
from losslab.emulation.hosts import Handle
from losslab.emulation.outcome import Observations, Watch, summarise
from losslab.emulation.plan import Plan, make_plan
from losslab.emulation.programs import Host, wait_for_whole_second
from losslab.emulation.schedule_runner import ScheduleRunner
from losslab.emulation.topology import RECEIVER_ADDRESS, Network, at_version, emulated_hosts
from losslab.emulation.traffic import Run
from losslab.study.axes import NONE
from losslab.study.condition import Condition
from losslab.study.hostsettings import ENDS

SNAPSHOT = "/proc/snapshot"


@dataclass(frozen=True)
class Announcement:
    """Announcement of a cut; a `traffic.Session`."""

    plan: Plan
    cut_s: float  # on the samples' clock
    complete = True  # the traffic may end before the cut, which is then refused

    @contextlib.contextmanager
    def running(self, origin_ns: int) -> Iterator[None]:
        """Ask for the cut, and count packets from now. Both take no virtual time."""
        droplist.start_counting(self.plan)
        descriptor = os.open(SNAPSHOT, os.O_WRONLY)
        os.write(descriptor, f"cut {round(self.cut_s * 1e9)}".encode())
        os.close(descriptor)
        yield


def ended(
    plan: Plan, condition: Condition, seed: int, run: Run, folder: Path, video: Path | None
) -> tuple[Condition, Plan]:
    """Record which packets were dropped; return the condition and the plan of this future.

    The arguments are those up to the cut, and the job's folder.
    """
    lists = droplist.parse(condition.drop_list)
    recorded = droplist.write(plan, lists, run.timeline.origin_ns, folder / droplist.TABLE)
    if not (folder / droplist.FUTURE).exists():
        return condition, plan
    future = json.loads((folder / droplist.FUTURE).read_text())
    if future["own_drops"]:
        dropped = {way: tuple(d.number for d in record.drops) for way, record in recorded.items()}
        # Acknowledgements that are never lost have no list.
        lists = {way: numbers for way, numbers in dropped.items() if way == "data" or numbers}
        drop_list = droplist.to_text(lists)
        condition = Condition.from_json(condition.to_json() | {"drop_list": drop_list})
        plan = make_plan(condition, seed, video)
    if future["algorithm"] is not None:
        plan = with_algorithm(plan, future["algorithm"])
    return condition, plan


def with_algorithm(plan: Plan, name: str) -> Plan:
    """Return the plan of a future whose flows changed their congestion control."""
    flows = [replace(start.flow, algorithm=name) for start in plan.starts]
    starts = [replace(s, flow=flow) for s, flow in zip(plan.starts, flows, strict=True)]
    return replace(plan, starts=starts)


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
        hosts.handles(_pids(network.nodes)) as handles,
    ):
        yield BareHosts(network, handles)


@contextlib.contextmanager
def stage(bare: BareHosts, condition: Condition, loaded: bool = True) -> Iterator[Stage]:
    """Set up bare hosts, which cannot be used again, for a condition during the block."""
    plan = make_plan(condition, 0)
    hosts.require_algorithms(plan.algorithms)
    hosts.require_ecn(plan.hosts)
    preloaded = programs.of_flows(plan.programs)
    new = bare.network.extend(plan.background.network) if plan.background else {}
    with hosts.handles(_pids(new)) as more:
        handles = bare.handles | more
        hosts.apply(plan.hosts, handles)
        if any(plan.hosts[host].kernels_sysctls for host in ENDS) or condition.sysctl != NONE:
            hosts.require_sysctls({host: plan.hosts[host] for host in ENDS}, handles)
        with programs.preloaded(bare.network.nodes, preloaded if loaded else []) as ready:
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
    clocks = tampering.Clocks()
    result = measure(
        ready, int(job["seed"]), raw, video, watch, job.get("captures", []), job.get("cut_s")
    )
    if watch is None:  # a machine's own clock follows a time server
        result["reasons"] = [*result["reasons"], *clocks.violations()]
    result["machine"] = {
        "kernel": os.uname().release,
        "version": os.uname().version,
        # TCP_INIT_CWND, net/tcp.h
        "initial_cwnd_packets": ready.condition.initcwnd_packets or 10,
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
    the app `ffmpeg` sends, `watch` monitors the machine in real time, `captures` are those of
    `capture.running`, and `cut_s` is the time of a cut (see `emulation.measure`).
    """
    plan = make_plan(ready.condition, seed, video)
    mechanisms = plan.path_spec.mechanisms
    nodes = ready.nodes
    hosts.shape(plan.hosts, ready.handles)
    incomplete: list[str] = []
    with capture.running(captures, plan, nodes, folder, incomplete) as state:
        with watch or contextlib.nullcontext():
            wait_for_whole_second()
            idle = _ping_idle(nodes["sender"].pid, plan, folder)
            before = hosts.read_back(plan.hosts, ready.handles)
            changes = plan.parts.get("changes")
            others, sizes = plan.background_qdiscs, plan.path_spec.sizes
            timed = plan.timed_links
            sessions = (
                [ScheduleRunner(changes, ready.handles, others, timed, sizes)] if changes else []
            )
            cuts = [] if cut_s is None else [Announcement(plan, cut_s)]
            noted: dict[str, Any] = {}
            with contextlib.ExitStack() as stack:
                for mechanism in mechanisms:
                    attached = mechanism.attached(plan, nodes, ready.handles, folder)
                    noted |= stack.enter_context(attached)
                # A schedule changes qdiscs itself, and is checked phase by phase.
                changed = tampering.Qdiscs({} if sessions or watch else _pids(nodes))
                run = traffic.run(plan, nodes, folder, [*cuts, *sessions], state)
                incomplete += changed.violations()
        after = hosts.read_back_settled(plan.hosts, ready.handles, plan.path_spec.rtt_ms)
    condition = ready.condition
    if cut_s is not None:
        condition, plan = ended(plan, condition, seed, run, folder.parent, video)
    observations = Observations(idle, before, run, noted, after, sessions)
    result = summarise(plan, observations, folder, watch)
    own = {"cell": condition.to_json()} if cut_s is not None else {}
    return result | {"reasons": result["reasons"] + incomplete} | own


def _ping_idle(sender_pid: int, plan: Plan, folder: Path) -> list[tuple[float, float]]:
    """Measure the RTT of the idle path with one ping at a time, so that none queues."""
    with hosts.inside(sender_pid):
        version = plan.path_spec.sizes.ip_version
        probe = probes.EchoProbe(at_version(RECEIVER_ADDRESS, version), probes.IDLE_IDENTIFIER)
    with contextlib.closing(probe):
        path = plan.path_spec
        own_s = (path.effect.above_ms + path.ping_ms) / 1e3
        replies = probes.measure_idle(probe, path.rtt_ms, own_s)
    probes.write_replies(replies, folder / "ping_idle.csv")
    return replies
