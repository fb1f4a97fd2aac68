"""The commands `path from-tc` and `path to-tc`."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import yaml

from losslab import cellspec, runs
from losslab.campaign import rerun
from losslab.emulation import shaping
from losslab.emulation.qdiscs import DualPi2
from losslab.emulation.topology import bottleneck, interface, sysctls
from losslab.reading import CONFIG_BYTES, CONTROL, UsageError, read_text
from losslab.study import dictionary, hostsettings
from losslab.study.axes import short
from losslab.study.condition import AXES, Condition
from losslab.study.hostsettings import KERNEL
from losslab.tclines import read
from losslab.tcpath import Reading

OUT = "from-tc"
NOT_CARRIED = (
    "path", "trace", "trace_back", "second_rate_mbit", "changes", "pauses", "drop_list",
    "competitor", "flows", "scheme", "initcwnd_packets", "initrwnd_packets", "window_bytes",
    "ip_version",
)  # fmt: skip


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `path from-tc` and `path to-tc`."""
    below = commands.add_parser("path").add_subparsers(metavar="COMMAND", required=True)
    source = below.add_parser("from-tc", help="print the condition that lines of tc describe")
    source.add_argument("file", help="shell script or Mininet program; -: standard input")
    source.add_argument("--algorithm", default="cubic", help="congestion control (default cubic)")
    for role, what in (("forward", "data"), ("reverse", "acknowledgements")):
        source.add_argument(f"--{role}", metavar="IF", help=f"router's interface that sends {what}")
    source.add_argument("--sender", metavar="IF", help="the sender's own interface")
    source.add_argument(
        "--var", action="append", default=[], metavar="NAME=VALUE",
        help="value of a variable of the script, such as 1=eth0; may be repeated",
    )  # fmt: skip
    form = source.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--yaml", action="store_true", help="print a block for a study")
    source.set_defaults(run=_from_tc)
    made = below.add_parser("to-tc", help="print a script that sets a path on a Linux router")
    made.add_argument("manifest", type=Path, nargs="?", metavar="RUN", help="a run's folder")
    dictionary.add_options(made, algorithm="cubic")
    made.set_defaults(run=_to_tc)


def _from_tc(options: argparse.Namespace) -> int:
    if options.file == "-":
        text = CONTROL.sub(" ", sys.stdin.buffer.read(CONFIG_BYTES).decode(errors="replace"))
    else:
        text = read_text(Path(options.file), CONFIG_BYTES)
    given = dict(pair.split("=", 1) for pair in options.var if "=" in pair)
    if len(given) < len(options.var):
        raise UsageError("--var must be NAME=VALUE, found none")
    roles = {role: getattr(options, role) for role in ("forward", "reverse", "sender")}
    found = Reading(read(text, given), roles, options.algorithm)
    condition = cellspec.condition(found.values)
    if options.json:
        rows = {
            "condition": found.values,
            "from": [{"tc": words, "axes": axes} for words, axes in found.taken],
            "left_out": [
                {"tc": words, "reason": reason} for words, reason in dict.fromkeys(found.left)
            ],
            "beware": list(dict.fromkeys(found.traps)),
        }
        print(json.dumps(rows, indent=1))
        return 1 if found.left else 0
    print("\n".join(report(found)))
    if options.yaml:
        print(yaml.safe_dump({"blocks": {"from-tc": found.values}}, sort_keys=False).rstrip())
    else:
        print(cellspec.measure_command(condition, 1, OUT))
    return 1 if found.left else 0


def report(found: Reading) -> list[str]:
    """Return the axes of each word, the words without an axis, and warnings, as comments."""
    lines = [f"# {words} -> {axes}" for words, axes in found.taken]
    lines += [f"# left out: {words} ({reason})" for words, reason in dict.fromkeys(found.left)]
    return [*lines, *(f"# beware: {trap}" for trap in dict.fromkeys(found.traps))]


def _to_tc(options: argparse.Namespace) -> int:
    if options.manifest is not None:
        condition = Condition.from_json(rerun.load_manifest(options.manifest)["cell"])
        if problems := condition.problems():
            raise UsageError("; ".join(problems))
    else:
        condition = runs.condition_of(options)
    print(script(condition))
    return 1 if not_carried(condition) else 0


def not_carried(condition: Condition) -> list[str]:
    """List the axes of the path that tc cannot set on a router."""
    return [
        f"{name}={short(getattr(condition, name))}"
        for name in NOT_CARRIED
        if getattr(condition, name) != AXES[name].default
    ]


def script(condition: Condition) -> str:
    """Return a shell script that sets a condition's path on a router and its hosts."""
    at: dict[str, list[str]] = {"forward": [], "reverse": [], "sender": []}
    under, number = "root", 100
    qdiscs = shaping.path_qdiscs(condition, 1)
    to_receiver = interface("r2", "receiver")
    # The forward netem link precedes the bottleneck: both are on one interface.
    for qdisc in sorted(qdiscs, key=lambda q: q.where != to_receiver):
        role = "reverse"
        its = qdisc
        if qdisc.where == to_receiver:
            its, role = replace(qdisc, parent=under, handle=f"{number}:"), "forward"
            under, number = f"parent {number}:1", number + 1
        elif qdisc.where == bottleneck():
            role = "forward"
            its = replace(qdisc, parent=under) if qdisc.parent == "root" else qdisc
        elif qdisc.where.host == "sender":
            role = "sender"
        if isinstance(its, DualPi2):
            its = replace(its, arguments=f"limit {its.limit}")
        text = re.sub(r" seed \d+", "", its.command())
        text = text.replace(f" dev {qdisc.where.name} ", f' dev "${role.upper()}" ')
        at[role] += [f"  tc {' '.join(line.split())}" for line in text.splitlines()]
    left = not_carried(condition)
    lines = [
        "#!/bin/sh",
        "# The path of: " + cellspec.measure_command(condition, 1, OUT).replace("\n", " "),
        "# On the router, with the interfaces towards receiver and sender:",
        "#   FORWARD=eth1 REVERSE=eth0 sh path.sh router",
        "# On the hosts: SENDER=eth0 sh path.sh sender, and RECEIVER=eth0 sh path.sh receiver",
        "# Not carried: the seeds. netem has one since Linux 6.6, but draws for every packet.",
        *([f"# Not carried: {', '.join(left)}. Programs of losslab do this."] if left else []),
        *(["# Delay and loss precede the bottleneck on its interface."] if number > 100 else []),
        "set -eu",
        'case "${1:-router}" in',
        "router)",
    ]
    for name in ("FORWARD", "REVERSE"):
        lines += [f'  tc qdisc del dev "${name}" {place} 2>/dev/null || true'
                  for place in ("root", "clsact")]  # fmt: skip
        lines += at[name.lower()]
    lines += [line for name in ("FORWARD", "REVERSE") for line in _device(condition, name)]
    lines += ["  sysctl -w net.ipv4.ip_forward=1", "  ;;"]
    own = hostsettings.parse(condition.sysctl)
    for name in ("SENDER", "RECEIVER"):
        lines.append(f"{name.lower()})")
        if name == "SENDER" and at["sender"]:
            lines += ['  tc qdisc del dev "$SENDER" root 2>/dev/null || true', *at["sender"]]
        lines += [
            f"  sysctl -w {shlex.quote(f'{key}={text}')}"
            for key, text in sysctls(name.lower(), condition, ()).items()
            if (key.startswith("net.ipv4.tcp_") or key in own[name.lower()]) and text != KERNEL
        ]
        lines += [*_device(condition, name), "  ;;"]
    return "\n".join([*lines, "esac"])


def _device(condition: Condition, name: str) -> list[str]:
    features = " ".join(f"{each} {condition.offloads}" for each in ("tso", "gso", "gro"))
    return [
        f'  ip link set dev "${name}" mtu {condition.mtu_bytes}',
        f'  ethtool -K "${name}" {features}',
    ]
