"""Values with units, such as `40ms`, `20Mbit`, `0.5%`, `2MB` and `1bdp`.

An axis's name, or a key's of a mini-language, ends in its unit (`rate_mbit`). Values are converted
to it where they are read. Conditions, names, seeds and manifests have the same numbers as if they
had been written without a unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from losslab.errors import LosslabError
from losslab.reading import LARGEST, NUMBER, UsageError, input_errors, number, shown, whole
from losslab.study.axes import decimal, plain
from losslab.study.condition import AXES, NO_TRACE
from losslab.study.packetsizes import DEFAULT, frame_bytes

QUANTITY = re.compile(rf"({NUMBER.pattern}) ?([A-Za-zµ%/]+)", re.ASCII)
PAIR = re.compile(r"([a-z_]+)=([^,+]*)")
# One packet in transmission and one in the queue.
MIN_BUFFER_PACKETS = 2
# Axes whose values are mini-languages with numbers.
LANGUAGES = ("flows", "changes", "pauses")
# Axes in packets that may be bytes, and those that may also be a multiple of the BDP or a time.
SIZES = ("buffer_packets", "mark_packets", "reverse_buffer_packets", "policer_burst_packets")
RELATIVE = SIZES[:3]

# A loss of at most so many percent may be a fraction: 0.01 for 1 %.
FRACTION_PERCENT = 0.1

TIMES = {"ns": "1e-9", "us": "1e-6", "µs": "1e-6", "ms": "1e-3", "s": "1", "min": "60"}
# In any case. Not `Mbps`, which is bytes to tc, and bits to others.
RATES = {"bit": "1", "k": "1e3", "kbit": "1e3", "m": "1e6", "mbit": "1e6", "g": "1e9",
         "gbit": "1e9"}  # fmt: skip
BYTES = {"B": "1", "kB": "1e3", "KB": "1e3", "MB": "1e6", "GB": "1e9", "KiB": "1024",
         "MiB": "1048576", "GiB": "1073741824"}  # fmt: skip


FRAME = str(DEFAULT.frame_bytes)


class Unit(NamedTuple):
    """Unit of an axis: its name, its size in that of `units`, and the units that it accepts."""

    name: str
    size: str
    units: Mapping[str, str]
    examples: str


UNITS = {
    "ms": Unit("ms", "1e-3", TIMES, "40, 40ms or 0.5s"),
    "s": Unit("s", "1", TIMES, "2, 2s or 500ms"),
    "mbit": Unit("Mbit/s", "1e6", RATES, "20, 20Mbit, 500k or 1G"),
    "percent": Unit("%", "1", {"%": "1"}, "0.5 or 0.5%"),
    "kb": Unit("kB", "1e3", BYTES, "300, 300kB or 2MB"),
    "kib": Unit("KiB", "1024", BYTES, "64, 64KiB or 1MiB"),
    "bytes": Unit("bytes", "1", BYTES, "65536, 64KiB or 1MB"),
    # A packet is a full frame; `value` takes its size from the MTU.
    "packets": Unit("packets", FRAME, BYTES | {"packets": FRAME}, "100, 2MB or 64KiB"),
}


def unit_of(name: str) -> Unit | None:
    """Return the unit in the name of an axis or a key; None if it accepts bare numbers only."""
    if name.endswith("per_s") or (name.endswith("_packets") and name not in SIZES):
        return None
    return UNITS.get(name.rpartition("_")[2]) if "_" in name else None


def value(name: str, given: Any, point: Mapping[str, Any] | None = None) -> Any:
    """Convert a value with a unit to the unit of `name`; return any other value unchanged.

    Sizes in `bdp` or times stay as they are without the `point`, which has the rate and the RTT.
    Raises LosslabError for a unit of another kind.
    """
    match = QUANTITY.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return given
    unit, count, word = unit_of(name), number(match[1], name), match[4]
    if name in RELATIVE and (word == "bdp" or word in TIMES):
        return given if point is None else _relative(name, given, count, word, point)
    spelt = word.lower().removesuffix("/s") if unit and unit.units is RATES else word
    if unit is None or spelt not in unit.units:
        form = f"in {unit.name}, such as {unit.examples}" if unit else "a number without a unit"
        if name in RELATIVE:
            form += ", or 1bdp or 30ms of the path"
        raise LosslabError(f"{name} must be {form}, found {shown(given)}")
    frame = frame_of(point or {})
    one = Decimal(frame if name in SIZES else unit.size)
    size = one if spelt == unit.name == "packets" else Decimal(unit.units[spelt])
    converted = float(Decimal(repr(count)) * size / one)
    if abs(converted) > LARGEST:
        raise LosslabError(f"{name} must be a finite number, found {shown(given)}")
    if name in SIZES and 0 < converted < 0.5:
        raise LosslabError(
            f"{name} must be at least a packet of {frame} bytes, found {shown(given)}"
        )
    return round(converted) if name in SIZES else converted


def frame_of(point: Mapping[str, Any]) -> int:
    """Return the size of a point's full frame in bytes."""
    given = value("mtu_bytes", point.get("mtu_bytes", DEFAULT.mtu_bytes))
    return frame_bytes(float(AXES["mtu_bytes"].typed(given)))


def _relative(name: str, given: str, count: float, word: str, point: Mapping[str, Any]) -> int:
    """Convert a size in BDP, or in the time that the bottleneck takes to send it, to packets."""
    rate = "reverse_rate_mbit" if name.startswith("reverse_") else "rate_mbit"
    values = {axis: AXES[axis].default for axis in (rate, "rtt_ms", "trace")} | {**point}
    if values["trace"] != NO_TRACE:
        raise LosslabError(
            f"{name} must be in packets or bytes with a trace, whose rate varies, found {given}"
        )
    values["rtt_ms"] = values["rtt_ms"] if word == "bdp" else given
    rate_mbit, time_ms = (
        float(AXES[axis].typed(value(axis, values[axis]))) for axis in (rate, "rtt_ms")
    )
    bits = rate_mbit * 1e6 * time_ms / 1e3
    packets = (count if word == "bdp" else 1) * bits / (8 * frame_of(point))
    if not 0 < packets <= LARGEST:
        raise LosslabError(
            f"{name} must be above 0 packets and finite, found {given} with rtt_ms {time_ms:g} "
            f"and {rate} {rate_mbit:g}"
        )
    return max(MIN_BUFFER_PACKETS, round(packets))


def option(name: str, text: str) -> Any:
    """Read the value of an axis's option: a number, or a size whose packets `resolved` counts."""
    if QUANTITY.fullmatch(text):
        with input_errors():
            found = value(name, text)
        return text if name in SIZES else found
    return (whole if AXES[name].kind == "int" else number)(text, name)


def number_option(
    name: str, above: float = -math.inf, least: float = -math.inf
) -> Callable[[str], float]:
    """Return the argparse `type` of an option for finite numbers above `above`, from `least` on.

    The end of its name is its unit.
    """

    def read(text: str) -> float:
        with input_errors():
            given = value(name.replace("-", "_"), text)
        parsed = given if isinstance(given, float) else number(given, name)
        if parsed <= above:
            raise UsageError(f"{name} must be above {above:g}, found {parsed:g}")
        if parsed < least:
            raise UsageError(f"{name} must be at least {least:g}, found {parsed:g}")
        return parsed

    return read


def resolved(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point's values, axis by axis, in the units of their axes."""
    return {name: one(name, given, point) for name, given in point.items()}


def one(name: str, given: Any, point: Mapping[str, Any]) -> Any:
    """Return the value of one axis of a point in the axis's unit."""
    if isinstance(given, str) and name in LANGUAGES:
        return PAIR.sub(_pair, given)
    if isinstance(given, str) and name in AXES:
        axis = AXES[name]
        return value(name, given, point) if axis.kind != "str" else axis.typed(given)
    return given


def _pair(match: re.Match[str]) -> str:
    """Convert the value of a pair `key=value`; leave bare numbers and words as they are."""
    key, text = match.groups()
    found = text if decimal(text) is not None else value(key, text)
    return match[0] if isinstance(found, str) else f"{key}={plain(found)}"


def notes(given: Mapping[str, Iterable[Any]], points: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a user may not expect of values: sizes in whole packets, and tiny losses."""
    losses = dict.fromkeys(float(point.get("loss_percent", 0)) for point in points)
    for percent in (each for each in losses if 0 < each <= FRACTION_PERCENT):
        yield (
            f"loss_percent {percent:g} is 1 packet in {100 / percent:,.0f}; for {100 * percent:g} %"
            f" of the packets, write {100 * percent:g}"
        )
    for name in SIZES:
        for text in given.get(name, ()):
            if not isinstance(text, str):
                continue
            counts = {value(name, text, point) for point in points} & {p[name] for p in points}
            span = " to ".join(f"{count:,}" for count in sorted({min(counts), max(counts)}))
            frames = " to ".join(map(str, sorted({*map(frame_of, points)})))
            yield f"{name} {text} = {span} packets of {frames} bytes"
