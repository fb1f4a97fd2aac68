"""Sysctls of the end hosts: the syntax of the axis `sysctl`.

    HOST:NAME=VALUE+...             the axis, as in EXAMPLE; sorted, values of both hosts as `both:`

The value `kernel` leaves a sysctl at the kernel's own default, which is read and recorded.

The guest imports this module: use only the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from losslab.errors import LosslabError, did_you_mean
from losslab.study.axes import NONE

EXAMPLE = "sender:net.ipv4.tcp_notsent_lowat=131072"
ENDS = ("sender", "receiver")
BOTH = "both"
# The value of a sysctl, and of the axes `ecn` and `receive_buffer`, that losslab does not set.
KERNEL = "kernel"
NAME = re.compile(r"net(\.[a-z0-9_-]+){2,}")
VALUE = re.compile(r"[A-Za-z0-9._:/-]+( [A-Za-z0-9._:/-]+)*")
# The kernel reads these as octal or hexadecimal numbers.
OTHER_BASE = re.compile(r"-?0[0-9xX][0-9A-Fa-f]*")
# Sysctls that axes set.
AXES_OF = {
    "net.ipv4.tcp_congestion_control": "algorithm",
    "net.ipv4.tcp_allowed_congestion_control": "algorithm",
    "net.ipv4.tcp_available_congestion_control": "algorithm",
    "net.core.default_qdisc": "sender_queue",
    "net.ipv4.tcp_ecn": "ecn",
    "net.ipv4.tcp_rmem": "receive_buffer",
}
# Those of them that may be set with the axis at `kernel`.
WITH_KERNEL = ("ecn", "receive_buffer")
# Sysctls that losslab sets to one value in every run.
FIXED = re.compile(
    r"net\.ipv4\.(ip_forward|tcp_no_metrics_save|conf\.[^.]+\.(rp_filter|send_redirects|forwarding))"
    r"|net\.ipv6\.conf\.[^.]+\.disable_ipv6"
)
# Sysctls of the whole kernel, which a network namespace cannot change: net_core_table and
# ipv4_table of the kernel's sources. Others are refused when they are set.
OF_KERNEL = re.compile(
    r"net\.core\.(?!(somaxconn|optmem_max|txrehash)$).*"
    r"|net\.ipv4\.(tcp_mem|udp_mem|tcp_max_orphans|inet_peer_.*)"
)
# With these, the send buffer or the receive window may limit a flow.
OF_BUFFERS = re.compile(r"net\.ipv4\.tcp_(wmem|notsent_lowat|limit_output_bytes|mem|autocorking)")
OF_WINDOWS = re.compile(
    r"net\.ipv4\.tcp_(rmem|adv_win_scale|app_win|moderate_rcvbuf|window_scaling|shrink_window"
    r"|rcvbuf_low_rtt|workaround_signed_windows)"
)

Settings = dict[str, dict[str, str]]  # values by host and name


def parse(text: str) -> Settings:
    """Parse the axis's value; LosslabError says which part is wrong."""
    settings: Settings = {host: {} for host in ENDS}
    for setting in text.split("+") if text != NONE else ():
        place, equals, value = setting.partition("=")
        host, colon, name = (word.strip() for word in place.partition(":"))
        if not (colon and equals):
            raise LosslabError(
                f"sysctl must be HOST:NAME=VALUE, as in {EXAMPLE}, found {setting!r:.80}"
            )
        if host not in (*ENDS, BOTH):
            raise LosslabError(
                f"the host of a sysctl must be sender, receiver or both, found {host!r:.40}"
                + did_you_mean(host, (*ENDS, BOTH))
            )
        if not NAME.fullmatch(name):
            dotted = name.replace("/", ".").strip(".").removeprefix("proc.sys.")
            instead = f"; write {dotted}" if NAME.fullmatch(dotted) else ""
            raise LosslabError(
                "the name of a sysctl must be of the network, with dots, as net.ipv4.tcp_sack, "
                f"found {name!r:.80}{instead}"
            )
        value = " ".join(value.split())
        if not VALUE.fullmatch(value):
            raise LosslabError(
                f"the value of the sysctl {name:.60} must be words of letters, digits and .-_:/, "
                f"separated by spaces, found {value!r:.80}"
            )
        if wrong := [word for word in value.split() if OTHER_BASE.fullmatch(word)]:
            raise LosslabError(
                f"numbers of the sysctl {name:.60} must be decimal, found {wrong[0]:.40}"
            )
        for end in ENDS if host == BOTH else (host,):
            if name in settings[end]:
                raise LosslabError(f"sysctl must set {name:.80} of {end} once, found it twice")
            settings[end][name] = value
    return settings


def to_text(settings: Mapping[str, Mapping[str, str]]) -> str:
    """Return the axis's value."""
    sender, receiver = (settings[host] for host in ENDS)
    words = []
    for name in sorted({*sender, *receiver}):
        if sender.get(name) == receiver.get(name):
            words.append(f"{BOTH}:{name}={sender[name]}")
        else:
            words += [f"{h}:{name}={settings[h][name]}" for h in ENDS if name in settings[h]]
    return "+".join(words) or NONE


def canonical(text: str) -> str:
    """Return the one text of all that mean the same; `problems` says what is wrong with others."""
    try:
        return to_text(parse(text))
    except LosslabError:
        return text


def problems(text: str, axes: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the axis's value, as far as it can be known before a run.

    `axes` has the values of the axes in `WITH_KERNEL`.
    """
    try:
        settings = parse(text)
    except LosslabError as error:
        yield error.message
        return
    for name in sorted({name for its in settings.values() for name in its}):
        axis = AXES_OF.get(name)
        if axis in WITH_KERNEL and axes[axis] != KERNEL:
            yield (
                f"sysctl must not set {name}, which the axis {axis} sets, except with {axis} "
                f"{KERNEL}, found {axis} {axes[axis]}"
            )
        elif axis is not None and axis not in WITH_KERNEL:
            yield f"sysctl must not set {name}: use the axis {axis}"
        elif FIXED.fullmatch(name):
            yield f"sysctl must not set {name}, which has the same value in every run"
        elif OF_KERNEL.fullmatch(name):
            yield (
                f"sysctl must set values of a host's network namespace, found {name}, which is of "
                "the whole kernel"
            )


def may_limit(text: str, names: re.Pattern[str]) -> bool:
    """Return whether the axis sets any of some sysctls."""
    return any(names.fullmatch(name) for its in parse(text).values() for name in its)
