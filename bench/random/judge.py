"""Judge a replicate by its raw files: invariants that no run of any condition may violate.

Nothing here imports losslab: an error in the product must not repeat in its judge. An invariant is
a function that yields violations. Those in `OF_ANY` hold for every finished command, `OF_RESULTS`
for every valid result.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Row = Mapping[str, str]
ETHERNET, PING, IDLE_PINGS = 14, 98, 20
CLOCK_S = 0.001  # samples and timers are this exact
INTERVAL_S = 0.1
# Probability that a campaign without a fault has a violation by chance, over all its cells.
FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class Finished:
    """A finished `losslab measure`, what it was asked, and its folder."""

    asked: Mapping[str, Any]
    seed: int
    folder: Path
    status: int
    stdout: str = ""
    stderr: str = ""
    cells: int = 1  # of the campaign, for the probability of a false alarm

    @cached_property
    def manifest(self) -> Any:
        """Return the manifest; empty without one."""
        path = self.folder / "manifest.json"
        return json.loads(path.read_text()) if path.is_file() else {}

    @property
    def ip_header(self) -> int:
        """Return the bytes of IP's header."""
        return 20 if self.asked["ip_version"] == 4 else 40

    @property
    def ping(self) -> int:
        """Return the bytes of a ping on the link."""
        return PING + self.ip_header - 20

    @property
    def pings(self) -> int:
        """Count the pings that the receiver answered."""
        return self.counter("receiver", "IcmpInEchos") + self.counter("receiver", "Icmp6InEchos")

    @property
    def tcp_headers(self) -> int:
        """Return the bytes of all headers of a segment, mostly with time stamps."""
        options = 0 if "tcp_timestamps=0" in self.asked["sysctl"] else 12
        return ETHERNET + self.ip_header + 20 + options

    @property
    def udp_headers(self) -> int:
        """Return the bytes of all headers of a datagram."""
        return ETHERNET + self.ip_header + 8

    @property
    def frame(self) -> int:
        """Return the bytes of a full packet on the link."""
        return ETHERNET + int(self.asked["mtu_bytes"])

    @property
    def segment(self) -> int:
        """Return the payload of a full segment."""
        return self.frame - self.tcp_headers

    @property
    def datagram(self) -> int:
        """Return the payload of a full datagram."""
        return self.frame - self.udp_headers

    @property
    def valid(self) -> bool:
        """Return whether the run is a valid result."""
        return bool(self.manifest.get("valid"))

    @property
    def summary(self) -> Any:
        """Return the metrics."""
        return self.manifest["summary"]

    def rows(self, name: str) -> list[dict[str, str]]:
        """Read a table; empty if the run has none."""
        path = self.folder / name
        if not path.is_file():
            return []
        with path.open(newline="") as file:
            return list(csv.DictReader(file))

    def report(self, name: str) -> Any:
        """Read a program's JSON report."""
        return json.loads((self.folder / name).read_text())

    def link(self, host: str, name: str) -> Any:
        """Return the counters of an interface since it was made."""
        return self.manifest["observed"]["state"][host]["links"][name]

    def drops(self, host: str, device: str, counter: str = "drops") -> int:
        """Return a count of a device's root qdisc since it was set: drops, or packets in it."""
        qdiscs = self.manifest["observed"]["state"][host]["qdiscs"]
        of = [q for q in qdiscs if q.get("dev") == device and q.get("root")]
        return int(of[0][counter]) if of else 0

    def lost_in_outages(self, host: str, device: str) -> int:
        """Return the packets that an exact link lost: the last number of each of its steps."""
        rates = self.manifest["observed"]["state"][host].get("rates", {})
        steps = [step for link, of in rates.items() if link.split()[0] == device for step in of]
        return sum(int(step[-1]) for step in steps)

    def counter(self, host: str, name: str) -> int:
        """Return one of a host's TCP, IP or ICMP counters."""
        return int(self.manifest["observed"]["state"][host]["counters"].get(name, 0))

    @property
    def back(self) -> str:
        """Return the first router of the reverse path."""
        return "r2" if self.asked["path"] == "symmetric" else "r3"

    @property
    def window(self) -> tuple[float, float]:
        """Return warm-up and end: the time of most metrics."""
        return self.asked["warmup_s"], self.asked["duration_s"]

    @cached_property
    def sampled_s(self) -> list[float]:
        """Return the times of the samples between the warm-up and the end.

        Goodput of TCP counts from the opening of the first connection that carries data.
        """
        begin, end = self.window
        of_tcp = self.asked["app"] in ("iperf3", "stream", "web")
        times = sorted(
            {float(row["t_s"]) for row in self.rows("tcp.csv" if of_tcp else "queue.csv")}
        )
        carrying = {"40001", "40002", "80"} | {row["source_port"] for row in self.rows("flows.csv")}
        opened = [float(row["t_s"]) for row in self.rows("tcp.csv") if row["flow"] in carrying]
        if of_tcp and opened:
            begin = max(begin, min(opened))
        return [t for t in times if begin - CLOCK_S <= t <= end + CLOCK_S]

    @cached_property
    def delivered(self) -> dict[str, list[tuple[float, int]]]:
        """Return samples of (time, bytes delivered) by connection."""
        found: dict[str, list[tuple[float, int]]] = {}
        for row in self.rows("tcp.csv"):
            sample = float(row["t_s"]), int(row["delivered_bytes"])
            found.setdefault(row["flow"], []).append(sample)
        return found

    def delivered_between(self, port: str, begin: float, end: float) -> int:
        """Count the bytes of a connection that were delivered between two times."""
        return self._until(port, end) - self._until(port, begin)

    def _until(self, port: str, t_s: float) -> int:
        samples = self.delivered.get(port, [])
        return max((octets for at, octets in samples if at <= t_s + 1e-6), default=0)

    @property
    def competes(self) -> bool:
        """Return whether a second bulk flow runs."""
        return bool(self.asked["competitor"] != "none")

    @property
    def duplicates(self) -> int:
        """Count the packets that netem duplicated."""
        return int(self.summary.get("duplicate_packets") or 0)

    @property
    def tables_of_tc(self) -> bool:
        """Return whether packets, not aggregates, are counted, and no program forwards them."""
        return bool(self.asked["offloads"] == "off" and self.asked["trace"] == "none")

    @property
    def max_mbit(self) -> float:
        """Return the largest rate of the bottleneck."""
        return max(phase["rate_mbit"] for phase in self.phases)

    @cached_property
    def phases(self) -> list[dict[str, float]]:
        """List the parameters of the path over time, each phase from its `at_s`."""
        first = {name: float(self.asked[name]) for name in ("rate_mbit", "rtt_ms")}
        found = [{"at_s": 0.0, **first}]
        for part in self.asked["changes"].split("+") if self.asked["changes"] != "none" else []:
            pairs = (pair.split("=") for pair in part.split(","))
            found.append(found[-1] | {key: float(value) for key, value in pairs})
        return found


Invariant = Callable[[Finished], Iterator[str]]
# Faults of losslab that are known and not mended yet: a pattern of the violation, or of the reason
# of an invalid run. Whoever mends one removes its line.
KNOWN: dict[str, str] = {}


def known(violation: str) -> str:
    """Return the known fault that a violation shows; "" if none."""
    return next((name for name, words in KNOWN.items() if re.search(words, violation)), "")


def no_traceback(run: Finished) -> Iterator[str]:
    """No command may end with a traceback."""
    for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
        if "Traceback (most recent call last)" in text or "bug in losslab" in text:
            yield f"a traceback in {name}: {text.strip().splitlines()[-1]}"


def status_is_verdict(run: Finished) -> Iterator[str]:
    """Exit status, manifest and folder must agree."""
    if run.status not in (0, 1, 2):
        yield f"exit status {run.status}"
    if (run.status == 0) != run.valid:
        yield f"exit status {run.status} of a run whose manifest says valid: {run.valid}"
    if run.status == 2 and run.folder.exists():
        yield "a refused run left a folder"
    if run.manifest and not run.valid and not run.manifest["reasons"]:
        yield "an invalid run without a reason"


def manifest_is_of_what_was_asked(run: Finished) -> Iterator[str]:
    """The manifest must have the condition, the seed and the files of this run."""
    if not run.manifest:
        return
    cell = run.manifest["cell"]
    for name, value in run.asked.items():
        if cell.get(name) != value:
            yield f"{name} {value!r} was asked, the manifest has {cell.get(name)!r}"
    if run.manifest["seed"] != run.seed:
        yield f"seed {run.seed} was asked, the manifest has {run.manifest['seed']}"
    for name, digest in run.manifest.get("files", {}).items():
        if hashlib.sha256((run.folder / name).read_bytes()).hexdigest() != digest:
            yield f"{name} is not the file of the manifest's digest"


def metrics_are_in_range(run: Finished) -> Iterator[str]:
    """No metric may have a value that its definition excludes."""
    for name, value in run.summary.items():
        if value is None:
            continue
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            yield f"{name} must be a number of at least 0, found {value!r}"
        elif name.endswith("_percent") and value > 100:
            yield f"{name} must be at most 100, found {value}"
        elif name == "jain_index" and not 0 < value <= 1 + 1e-9:
            yield f"jain_index must be in (0, 1], found {value}"
    if run.summary.get("jain_index") and run.summary.get("total_goodput_mbit") == 0:
        yield "Jain's index of flows that delivered nothing"


def payload_is_that_of_the_link(run: Finished) -> Iterator[str]:
    """Compare what each app says that arrived with the bytes that the receiver's links counted."""
    links = run.manifest["observed"]["state"]["receiver"]["links"]
    arrived = [link["rx"] for name, link in links.items() if name != "lo"]
    octets, packets = (sum(each[key] for each in arrived) for key in ("bytes", "packets"))
    if run.asked["offloads"] == "on":  # aggregates have one header for many segments
        packets = 0
    pings = run.pings
    few = 10 * (run.ping + run.tcp_headers) * (packets > 0)
    most_tcp = octets - run.tcp_headers * packets + few
    app, its = run.asked["app"], run.summary
    # Programs may send datagrams in fragments, of which only the first has UDP's header of 8 bytes.
    most_udp = octets - (run.udp_headers - 8 * (app == "command")) * packets
    connections = len(run.delivered)
    told = {
        "delivered by TCP": sum(max(n for _, n in all_) for all_ in run.delivered.values()),
        "bytes_received": its.get("bytes_received") or 0,
        "goodput of datagrams": (its.get("datagrams_received") or 0) * run.datagram,
    }
    for name, found in told.items():
        tcp = name.startswith("delivered") or app in ("iperf3", "stream")
        if found > (most := (most_tcp if tcp else most_udp) + 200 * connections + 2 * run.segment):
            yield f"{name} must be at most the {most} bytes of payload on the link, found {found}"
    if packets == 0 or app not in ("iperf3", "datagram") or run.asked["flows"] != "none":
        return
    # What arrived is acknowledged, unless it was sent twice or came after the last sample.
    again = run.counter("sender", "TcpRetransSegs") + run.duplicates
    if app == "iperf3":
        windows = [int(row["cwnd_packets"]) for row in run.rows("tcp.csv")] or [0]
        flight = 2 * max(windows) * connections + 0.2 * run.max_mbit * 1e6 / 8 / run.frame
        low = octets - run.tcp_headers * packets - pings * 32 - (again + flight + 20) * run.segment
        found = told["delivered by TCP"]
    else:
        data = (octets - run.ping * pings) / run.frame
        low = (data - again - 70) * run.datagram  # the sender's end markers are small datagrams
        found = told["goodput of datagrams"]
    if found < low:
        yield f"{app} delivered at least {low:.0f} bytes by the link's count, found {found}"


def packets_are_conserved(run: Finished) -> Iterator[str]:
    """Every packet that an interface sent arrived at the next one, or a qdisc dropped it."""
    if not run.tables_of_tc or run.asked["second_rate_mbit"] or run.asked["duplicate_percent"]:
        return
    state = run.manifest["observed"]["state"]
    sent = run.link("sender", "sender-r1")["tx"]["packets"]
    entered = run.link("r1", "r1-sender")["rx"]["packets"]
    passed = run.link("r1", "r1-r2")["tx"]["packets"]
    arrived = run.link("receiver", "receiver-r2")["rx"]["packets"]
    queued = run.drops("r1", "r1-r2", "qlen"), run.drops("r2", "r2-receiver", "qlen")
    filters = [q for q in state["r1"]["qdiscs"] if q.get("handle") == "ffff:"]
    policed = sum(q.get("drops", 0) for q in filters if q.get("dev") == "r1-r2")
    if sent != entered:
        yield f"r1 received {entered} of {sent} packets of the sender"
    outages = run.lost_in_outages("r1", "r1-r2")
    dropped = run.drops("r1", "r1-r2") + policed + queued[0] + outages
    if run.asked["shaper"] != "htb-netem" and entered != passed + dropped:
        yield f"r1 received {entered} packets, sent {passed}, dropped or keeps {dropped}"
    lost = run.drops("r2", "r2-receiver")
    if passed != arrived + lost + queued[1]:
        yield f"r2 received {passed} packets, {arrived} arrived and {lost} were lost"
    # A buffer of a few packets may drop pings before the traffic, which the state includes.
    few = 20 * (run.asked["buffer_packets"] < 20)
    # iperf3 sends for whole seconds: of a fraction, drops count until the run's end.
    drops = [(float(row["t_s"]), int(row["drops"])) for row in run.rows("queue.csv")]
    if run.asked["duration_s"] % 1 and drops:
        few += drops[-1][1] - max((n for t, n in drops if t <= run.window[1]), default=0)
    if not 0 <= run.drops("r1", "r1-r2") - (told := run.summary["bottleneck_drops"]) <= few:
        yield f"bottleneck_drops must be the qdisc's {run.drops('r1', 'r1-r2')}, found {told}"
    if run.asked["sender_delay_ms"]:
        return  # the sender's netem loses aggregates, whose packets it does not count
    idle_lost = IDLE_PINGS - len(run.rows("ping_idle.csv"))
    lost += outages
    if not lost - idle_lost <= run.summary["loss_packets"] <= lost:
        yield f"loss_packets must be {lost} by tc, found {run.summary['loss_packets']}"


def log_tail(count: int, trials: int, p: float) -> float:
    """Bound the logarithm of a binomial's tail beyond `count` (Chernoff's bound)."""
    share = count / trials
    parts = ((share, p), (1 - share, 1 - p))
    if any(q <= 0 < f for f, q in parts):
        return -math.inf
    return -trials * sum(f * math.log(f / q) for f, q in parts if f > 0)


def losses_are_as_likely(run: Finished) -> Iterator[str]:
    """Check random loss and duplication against Chernoff's bound, over all cells' intervals."""
    its = run.asked
    listed = its["changes"] != "none" or its["drop_list"] != "none" or its["sender_delay_ms"]
    if listed or not run.tables_of_tc or its["shaper"] == "htb-netem" or its["second_rate_mbit"]:
        return
    p, direction = its["loss_percent"] / 100, its["loss_direction"]
    forward = run.drops("r2", "r2-receiver"), run.link("r2", "r2-receiver")["tx"]["packets"]
    device = f"{run.back}-r1"
    thinned = its["ack_thinning"] > 1
    reverse = run.drops(run.back, device), run.link(run.back, device)["tx"]["packets"]
    cases = [("data", forward, p if direction != "back" else 0.0)]
    if not thinned and not its["reverse_rate_mbit"]:  # whose queue drops packets, too
        cases += [("reverse", reverse, p if direction != "data" else 0.0)]
    for name, (drops, passed), chance in cases:
        burst = max(1.0, its["loss_burst_packets"])
        # The variance of a Gilbert chain's sum: as many independent draws are fewer.
        kept = 1 - (1 / burst + chance / (1 - chance) / burst)
        trials = (drops + passed) * ((1 - kept) / (1 + kept) if burst > 1 else 1.0)
        share = drops / max(1, drops + passed)
        tail = log_tail(round(share * trials), max(1, round(trials)), chance)
        if tail < math.log(FALSE_ALARM / (4 * run.cells)):
            yield f"{name} packets lost: {drops} of {drops + passed} at {100 * chance:g} %"


def samples_are_in_order(run: Finished) -> Iterator[str]:
    """Times and delivered bytes of a connection must not decrease."""
    for port, samples in run.delivered.items():
        times = [t for t, _ in samples]
        if times != sorted(times):
            yield f"tcp.csv has samples of flow {port} out of order"
        most = 0
        for t_s, octets in samples:
            # Selectively acknowledged packets count as full ones until all before them arrive.
            if octets < most - 0.1 * most - 20 * run.segment:
                yield f"delivered bytes of flow {port} fall from {most} to {octets} at {t_s} s"
                break
            most = max(most, octets)


def flow_lasts_until_the_end(run: Finished) -> Iterator[str]:
    """A bulk flow must send until the configured end."""
    if run.asked["app"] != "iperf3":
        return
    end, flows = run.asked["duration_s"], ("40001", "40002")[: 1 + run.competes]
    for flow in flows:
        last = max((t for t, _ in run.delivered.get(flow, [])), default=0.0)
        if last < end - 2 * INTERVAL_S - CLOCK_S:
            yield f"iperf3 must send until {end:g} s, found the last sample of {flow} at {last:g} s"


def algorithm_is_the_asked_one(run: Finished) -> Iterator[str]:
    """Each flow must have used its congestion control."""
    for flow in run.manifest["observed"]["flows"]:
        if flow["wanted"] != "own" and flow["found"] != [flow["wanted"]]:
            yield f"{flow['name']} must use {flow['wanted']}, found {flow['found']}"
        first = flow["name"] in ("iperf3", "stream", "ffmpeg", "web", "command")
        if first and flow["wanted"] != run.asked["algorithm"]:
            yield f"{flow['name']} must use {run.asked['algorithm']}, found {flow['wanted']}"


def same_bytes(first: Path, second: Path) -> Iterator[str]:
    """Yield the files that differ between two runs of a seed, apart from the machine's record."""
    names = {path.name for folder in (first, second) for path in folder.iterdir()} - {"host.json"}
    for name in sorted(names):
        one, other = first / name, second / name
        if not one.is_file() or not other.is_file() or one.read_bytes() != other.read_bytes():
            yield f"the same seed must give the same bytes, found another {name}"


OF_ANY: Sequence[Invariant] = (no_traceback, status_is_verdict, manifest_is_of_what_was_asked)
OF_RESULTS: Sequence[Invariant] = (
    metrics_are_in_range, payload_is_that_of_the_link, packets_are_conserved,
    losses_are_as_likely, samples_are_in_order, flow_lasts_until_the_end,
    algorithm_is_the_asked_one,
)  # fmt: skip
