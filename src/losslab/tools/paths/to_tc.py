"""Shell scripts that set a condition's path on a Linux router."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

from losslab import cellspec
from losslab.emulation import shaping
from losslab.emulation.qdiscs import DualPi2
from losslab.emulation.topology import bottleneck, interface, sysctls
from losslab.study import hostsettings
from losslab.study.axes import short
from losslab.study.condition import AXES, Condition
from losslab.study.hostsettings import KERNEL

OUT = "from-tc"
NOT_CARRIED = (
    "path", "trace", "trace_back", "second_rate_mbit", "changes", "pauses", "drop_list",
    "competitor", "flows", "scheme", "initcwnd_packets", "initrwnd_packets", "window_bytes",
    "ip_version",
)  # fmt: skip


def not_carried(condition: Condition) -> list[str]:
    """List the axes of the path that tc cannot set on a router."""
    return [
        f"{name}={short(getattr(condition, name))}"
        for name in NOT_CARRIED
        if getattr(condition, name) != AXES[name].default
    ]


def script(condition: Condition) -> str:
    """Return a shell script that sets a condition's path on a router and its hosts.

    No kernel of others has exact links: a token bucket takes their place.
    """
    at: dict[str, list[str]] = {"forward": [], "reverse": [], "sender": []}
    under, number = "root", 100
    exact = shaping.exact(condition)
    qdiscs = shaping.path_qdiscs(replace(condition, shaper="tbf") if exact else condition, 1)
    to_receiver = interface("r2", "receiver")
    # The forward netem link precedes the bottleneck: both are on one interface.
    for qdisc in sorted(qdiscs, key=lambda q: q.where != to_receiver):
        forward = qdisc.where in (to_receiver, bottleneck())
        role = "forward" if forward else "sender" if qdisc.where.host == "sender" else "reverse"
        its = qdisc
        if qdisc.where == to_receiver:
            its = replace(qdisc, parent=under, handle=f"{number}:")
            under, number = f"parent {number}:1", number + 1
        elif forward and qdisc.parent == "root":
            its = replace(qdisc, parent=under)
        if isinstance(its, DualPi2):
            its = replace(its, arguments=f"limit {its.limit}")
        text = re.sub(r" seed \d+", "", its.command())
        text = text.replace(f" dev {qdisc.where.name} ", f' dev "${role.upper()}" ')
        at[role] += [f"  tc {' '.join(line.split())}" for line in text.splitlines()]
    left = not_carried(condition)
    lines = [
        "#!/bin/sh",
        "# The path of: "
        + cellspec.measure_command(condition, 1, OUT, path_only=True).replace("\n", " "),
        "# On the router, with the interfaces towards receiver and sender:",
        "#   FORWARD=eth1 REVERSE=eth0 sh path.sh router",
        "# On the hosts: SENDER=eth0 sh path.sh sender, and RECEIVER=eth0 sh path.sh receiver",
        "# Not carried: the seeds. netem has one since Linux 6.6, but draws for every packet.",
        *([f"# Not carried: {', '.join(left)}. Programs of losslab do this."] if left else []),
        *(
            ["# Not carried: shaper=link. The token bucket sends two packets at once."]
            if exact
            else []
        ),
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
