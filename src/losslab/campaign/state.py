"""Private state of a run's congestion controls, one row per event, with its variables by name.

The capture of the state has the kernel's entries as they are, and the layouts of the algorithms'
structs (`instrument.csource`). config/states.toml says what the fields mean.
"""

from __future__ import annotations

import gzip
import json
import operator
import zlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from losslab.campaign import packets
from losslab.emulation import capture
from losslab.emulation.capture import STATE
from losslab.errors import did_you_mean
from losslab.instrument.csource import Field, Layouts, typed_layouts
from losslab.reading import UsageError, read_toml
from losslab.repository import ROOT, find
from losslab.study.names import load_algorithms
from losslab.study.schemas import check_schema
from losslab.study.studyfiles import as_list

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Column = np.ndarray[Any, Any]

Variable = Mapping[str, Any]
DECLARATIONS = "config/states.toml"
PHASE = "phase"  # a variable that a plot shows as bands
# `struct tcp_event` of net/ipv4/tcp_record.c, up to the private state.
HEAD = (
    ("us", "<u8"), ("pacing", "<u8"), ("cwnd", "<u4"), ("ssthresh", "<u4"), ("in_flight", "<u4"),
    ("prior_in_flight", "<u4"), ("delivered", "<u4"), ("lost", "<u4"), ("srtt_us", "<u4"),
    ("app_limited_until", "<u4"), ("rate_delivered", "<i4"), ("rate_losses", "<i4"),
    ("rate_rtt_us", "<i4"), ("rate_interval_us", "<i4"), ("acked_sacked", "<i4"),
    ("departs_us", "<u4"), ("port", "<u2"), ("event", "u1"), ("ca_state", "u1"),
    ("app_limited", "u1"), ("pad", "u1"), ("private_bytes", "<u2"), ("algorithm", "S16"),
)  # fmt: skip
WORD_BYTES, WORD_BITS = 8, 64
EVENTS = {"1": "ack", "2": "ca_state", "3": "undo", "4": "tx_start"}
CA_STATES = {"0": "open", "1": "disorder", "2": "cwr", "3": "recovery", "4": "loss"}
NOT_SET, NOT_PACED = 0x7FFFFFFF, 2**64 - 1  # TCP_INFINITE_SSTHRESH, net/tcp.h; ~0UL
MAX_BYTES, MAX_TIME_NS = 2**31, 2**60
BROKEN = (AttributeError, EOFError, KeyError, OSError, TypeError, ValueError, zlib.error)
# Columns of every event, before those of the state.
COLUMNS = (
    "t_s", "flow", "algorithm", "event", "ca_state", "cwnd_packets", "ssthresh_packets",
    "in_flight_packets", "pacing_mbit", "srtt_ms", "delivered_packets", "lost_packets",
    "sample_packets", "sample_s", "sample_rtt_ms", "app_limited", "departs_ms",
)  # fmt: skip


class Capture(NamedTuple):
    """Content of a capture of the state."""

    origin_ns: int
    layouts: Layouts
    events: Column  # with the fields of HEAD, and the private bytes


def read(path: Path) -> Capture:
    """Read a capture of the state; UsageError if it is not whole."""
    try:
        with gzip.open(path) as file:
            header = json.loads(file.readline(MAX_BYTES))
            content = file.read(MAX_BYTES)
        events = unpacked(content)
        origin_ns = operator.index(header["origin_ns"])
        if not 0 <= origin_ns < MAX_TIME_NS:
            raise ValueError(f"the origin of time must be in [0, 2^60) ns, found {origin_ns}")
        return Capture(origin_ns, typed_layouts(header["layouts"]), events)
    except BROKEN as error:
        raise UsageError(
            f"{path} must be as losslab writes it, found: {error!r}",
            hint="measure it again with --capture state",
        ) from error


def unpacked(content: bytes) -> Column:
    """Return the events of all parts that `capture.pack` made."""
    import numpy as np

    parts: list[Column] = []
    at = total = 0
    while at < len(content):
        begin = at + capture.COUNT_BYTES
        count = int.from_bytes(content[at:begin], "little")
        size = capture.event_bytes(content[begin : begin + capture.HEAD_BYTES])
        total += size * count
        if total > MAX_BYTES:
            raise ValueError(f"events must have at most {MAX_BYTES} bytes, found {total}")
        first, differs = np.frombuffer(content, "u1", 2 * size, begin).reshape(2, size)
        places = np.repeat(first[:, None], count, axis=1)
        varying, at = differs != 0, begin + 2 * size
        values = np.frombuffer(content, "u1", int(varying.sum()) * count, at)
        places[varying] = values.reshape(-1, count)
        parts.append(places.T)
        at += len(values)
    rows = np.concatenate(parts or [np.zeros((0, capture.HEAD_BYTES), "u1")])
    fields = [*HEAD, ("private", "u1", (rows.shape[1] - capture.HEAD_BYTES,))]
    return np.ascontiguousarray(rows).view(np.dtype(fields))[:, 0]


def declared() -> dict[str, dict[str, Variable]]:
    """Return the variables of algorithms; those of the campaign's folder come before losslab's."""
    return read_declarations(ROOT / DECLARATIONS) | read_declarations(find(DECLARATIONS))


def read_declarations(path: Path) -> dict[str, dict[str, Variable]]:
    """Read the variables of algorithms from a file."""
    content = read_toml(path)
    check_schema(content, "states", str(path))
    known = {row["name"] for row in load_algorithms(find("config/algorithms.tsv"))}
    if other := sorted(content.keys() - known):
        raise UsageError(f"tables of {path} must be in config/algorithms.tsv, found {other[0]}")
    return content


def frame(captured: Capture) -> pd.DataFrame:
    """Return a row per event: COLUMNS, all fields by their names in C, and declared variables.

    A variable replaces the field of its name. Of several algorithms in a run, each has its own.
    """
    import numpy as np
    import pandas as pd

    variables, events = declared(), captured.events
    # A new connection of a server has no time yet: its event has that of the one before.
    times = np.maximum.accumulate(events["us"].astype("<i8") * 1000 - captured.origin_ns).clip(0)
    parts = [pd.DataFrame(_common(times[:0], events[:0]))]
    for octets in dict.fromkeys(events["algorithm"].tolist()):
        algorithm = octets.decode(errors="replace")
        chosen = events["algorithm"] == octets
        columns = _common(times[chosen], events[chosen])
        layout = captured.layouts.get(algorithm, [])
        fields = decoded(events[chosen]["private"], layout)
        columns |= fields
        for field in layout:
            if field.names and field.name in fields:
                columns[field.name] = _texts(fields[field.name], field.names)
        for name, variable in variables.get(algorithm, {}).items():
            if unknown := sorted({*_fields(variable)} - fields.keys()):
                raise UsageError(
                    f"fields in {DECLARATIONS} must be in the struct of {algorithm}, found "
                    f"{', '.join(unknown)}{did_you_mean(unknown[0], fields)}",
                    hint=f"it has {', '.join(fields) or 'none'}",
                )
            columns[name] = value(fields, variable)
        parts.append(pd.DataFrame(columns, index=chosen.nonzero()[0]))
    return pd.concat(parts[len(parts) > 1 :]).sort_index()


def decoded(private: Column, layout: Sequence[Field]) -> dict[str, Column]:
    """Return the fields of private states, a row of bytes each, as integers."""
    import numpy as np

    padded = np.pad(private, ((0, 0), (0, 2 * WORD_BYTES)))

    def word(at: int) -> Column:
        return np.ascontiguousarray(padded[:, at : at + WORD_BYTES]).view("<u8")[:, 0]

    fields = {}
    for field in layout:
        at, shift = divmod(field.begin, 8)
        bits = int(field.type[1:])
        if field.begin + bits > 8 * private.shape[1]:
            continue
        numbers: Column = word(at) >> np.uint64(shift)
        if shift + bits > WORD_BITS:  # of a packed struct
            numbers |= word(at + WORD_BYTES) << np.uint64(WORD_BITS - shift)
        unused = np.uint64(WORD_BITS - bits)
        numbers = numbers << unused
        # A right shift of a signed number repeats its sign.
        signed = field.type[0] == "i"
        numbers = numbers.view("<i8") >> np.int64(unused) if signed else numbers >> unused
        fields[field.name] = numbers if signed or bits == WORD_BITS else numbers.astype("<i8")
    return fields


def _texts(numbers: Column, names: Mapping[str, str]) -> Column:
    import numpy as np

    texts = [names.get(each, each) for each in map(str, numbers.tolist())]
    return np.array(texts, dtype=object)


def value(columns: Mapping[str, Column], variable: Variable) -> Column:
    """Return a declared variable, computed from fields."""
    import numpy as np

    numbers: Column = np.max([columns[name] for name in as_list(variable["field"])], axis=0)
    if "names" in variable:
        names = variable["names"]
        texts = _texts(numbers, {str(n): s for n, s in enumerate(names) if isinstance(s, str)})
        for number, name in enumerate(names):
            if not isinstance(name, str):
                texts[numbers == number] = value(columns, name)[numbers == number]
        return texts
    scaled = numbers * variable["scale"] if "scale" in variable else numbers
    if "none" not in variable:
        return scaled
    return np.where(numbers == variable["none"], np.nan, scaled)


def _fields(variable: Variable) -> list[str]:
    """Return the names of all fields that a variable needs."""
    nested = [name for name in variable.get("names", ()) if not isinstance(name, str)]
    return as_list(variable["field"]) + [field for each in nested for field in _fields(each)]


def _common(times: Column, events: Column) -> dict[str, Column]:
    import numpy as np

    def known(name: str, scale: float, unknown: Column) -> Column:
        return np.where(unknown, np.nan, events[name] * scale)

    columns = (
        times / 1e9, events["port"],
        events["algorithm"].astype("U16").astype(object), _texts(events["event"], EVENTS),
        _texts(events["ca_state"], CA_STATES), events["cwnd"],
        known("ssthresh", 1, events["ssthresh"] == NOT_SET), events["in_flight"],
        known("pacing", 8e-6, events["pacing"] == NOT_PACED), events["srtt_us"] / 1000,
        events["delivered"], events["lost"],
        # Only an acknowledgement has a rate sample, and not each.
        known("rate_delivered", 1, events["rate_interval_us"] <= 0),
        known("rate_interval_us", 1e-6, events["rate_interval_us"] <= 0),
        known("rate_rtt_us", 1e-3, events["rate_rtt_us"] <= 0), events["app_limited"] != 0,
        events["departs_us"] / 1000,
    )  # fmt: skip
    return dict(zip(COLUMNS, columns, strict=True))


def variables(rows: pd.DataFrame, algorithm: str) -> list[str]:
    """Return the variables that a plot of an algorithm shows: the declared, or else all fields."""
    own = [name for name in declared().get(algorithm, {}) if name in rows.columns]
    return own or [name for name in rows.columns if name not in COLUMNS]


def phases(rows: pd.DataFrame) -> list[tuple[float, float, str]]:
    """Return the phases of a flow: begin and end in s, and the name."""
    if PHASE not in rows.columns or rows.empty:
        return []
    texts, times = rows[PHASE].tolist(), rows["t_s"].tolist()
    begins = [0, *(n for n in range(1, len(texts)) if texts[n] != texts[n - 1])]
    ends = [times[end] for _, end in pairwise([*begins, len(texts) - 1])]
    return [(times[n], end, str(texts[n])) for n, end in zip(begins, ends, strict=True)]


def of_run(folder: Path, manifest: dict[str, Any], trusted: bool = False) -> pd.DataFrame:
    """Return the state of a run, as `frame`; a run without its capture is measured again."""
    with packets.captured(folder, manifest, STATE, trusted) as path:
        return frame(read(path))
