"""Captured states: fields of any place and width, and declared variables."""

import gzip
import json
import struct
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab.campaign import state
from losslab.emulation import capture
from losslab.instrument.csource import Field, typed_layouts
from losslab.instrument.kernelsource import TABLE
from losslab.reading import UsageError

BYTES = 48
HEAD = struct.Struct("=QQ8I6IH4BH16s")
FIELD = st.tuples(st.integers(0, 8 * BYTES - 1), st.integers(1, 64), st.booleans())
BBR = json.loads(TABLE.read_text())["6.12"]["bbr"]


@settings(max_examples=60)
@given(st.lists(FIELD, min_size=1, max_size=9), st.lists(st.binary(min_size=BYTES, max_size=BYTES)))
def test_field_of_any_place_width_and_sign_is_the_number_at_its_bits(fields, states):
    layout = [
        Field(f"f{n}", begin, f"{'i' if signed else 'u'}{bits}")
        for n, (begin, bits, signed) in enumerate(fields)
    ]
    private = np.frombuffer(b"".join(states), "u1").reshape(len(states), BYTES)
    found = state.decoded(private, layout)
    for each, (begin, bits, signed) in zip(layout, fields, strict=True):
        if begin + bits > 8 * BYTES:
            assert each.name not in found
            continue
        numbers = [int.from_bytes(own, "little") >> begin & (1 << bits) - 1 for own in states]
        lowest = 1 << (bits - 1) if signed else 1 << bits
        assert found[each.name].tolist() == [n - (n >= lowest) * (1 << bits) for n in numbers]


def entry(at_us, algorithm, values, layout, port=40001, event=1):
    """Return an event of the kernel, whose private state has some values."""
    private = sum(
        value << each.begin
        for each in layout
        for name, value in values.items()
        if each.name == name
    )
    head = HEAD.pack(
        at_us, 1_250_000, 10, 0x7FFFFFFF, 7, 8, 100, 1, 20_000, 0, 2, 0, 20_500, 1_000, 2, 0, port,
        event, 3, 0, 0, 256, algorithm.encode(),
    )  # fmt: skip
    return head + private.to_bytes(256, "little")


def captured(path, *events, layouts=None):
    header = {"origin_ns": 1_000_000, "layouts": {"bbr": BBR} if layouts is None else layouts}
    first = gzip.compress(json.dumps(header).encode() + b"\n")
    parts = [capture.pack(bytearray().join(events))] if events else []
    path.write_bytes(first + gzip.compress(b"".join(parts)))
    return path


def bbr(at_us, **values):
    return entry(at_us, "bbr", values, typed_layouts({"bbr": BBR})["bbr"])


def test_events_have_common_columns_fields_in_c_and_declared_variables(tmp_path):
    file = captured(
        tmp_path / "c", bbr(2_000, mode=0, pacing_gain=739, min_rtt_us=2**32 - 1),
        bbr(3_000, mode=2, cycle_idx=5, **{"bw.s[0].v": 2**24}),
    )  # fmt: skip
    rows = state.frame(state.read(file))
    assert rows["t_s"].tolist() == [0.001, 0.002]
    assert rows[["flow", "algorithm", "event", "ca_state"]].drop_duplicates().values.tolist() == [
        [40001, "bbr", "ack", "recovery"]
    ]
    assert rows["pacing_mbit"].tolist() == [10.0, 10.0]
    assert rows["ssthresh_packets"].isna().all()
    assert rows["phase"].tolist() == ["STARTUP", "PROBE_BW"]
    assert rows["pacing_gain"].tolist() == [739 / 256, 0]
    assert np.isnan(rows["min_rtt_ms"][0])
    assert rows["max_bw_mbit"][1] == 1448 * 8  # a packet per microsecond
    assert rows["cycle_idx"].tolist() == [0, 5]


def test_event_without_a_time_has_that_of_the_event_before(tmp_path):
    file = captured(tmp_path / "c", bbr(0), bbr(3_000), bbr(0), bbr(4_000))
    assert state.frame(state.read(file))["t_s"].tolist() == [0, 0.002, 0.002, 0.003]


def test_variable_within_another_replaces_its_value():
    its = {"field": "a", "names": ["ONE", {"field": "b", "names": ["UP"]}]}
    columns = {"a": np.array([0, 1, 1, 2]), "b": np.array([0, 0, 1, 0])}
    assert state.value(columns, its).tolist() == ["ONE", "UP", "1", "2"]


def test_algorithms_of_a_run_have_their_own_fields(tmp_path):
    layout = [["beta", 32, "i8", {"-1": "DOWN", "0": "SAME"}]]
    file = captured(
        tmp_path / "c", bbr(1_000, mode=1), entry(2_000, "mine", {"beta": 255},
        typed_layouts({"mine": layout})["mine"], port=40002), bbr(3_000, mode=2),
        layouts={"bbr": BBR, "mine": layout},
    )  # fmt: skip
    rows = state.frame(state.read(file))
    assert rows["algorithm"].tolist() == ["bbr", "mine", "bbr"]
    assert rows["phase"].tolist()[::2] == ["DRAIN", "PROBE_BW"]
    assert rows["beta"].tolist()[1] == "DOWN"
    assert rows["beta"].isna().tolist() == [True, False, True]
    assert state.variables(rows, "mine") == [n for n in rows.columns if n not in state.COLUMNS]
    assert state.variables(rows, "bbr")[:2] == ["phase", "max_bw_mbit"]


def test_phases_have_their_begin_and_end():
    rows = pd.DataFrame({"t_s": [0.0, 1.0, 2.0, 5.0], "phase": ["A", "A", "B", "B"]})
    assert state.phases(rows) == [(0.0, 2.0, "A"), (2.0, 5.0, "B")]
    assert state.phases(rows.drop(columns="phase")) == []
    assert state.phases(rows[:0]) == []


@pytest.mark.parametrize("kept", [0, 5, 40, -1, -300])
def test_capture_that_is_not_whole_is_refused(tmp_path, kept):
    file = captured(tmp_path / "c", bbr(1_000), bbr(2_000))
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(UsageError, match="must be as losslab writes it"):
        state.read(file)


def test_capture_without_events_has_no_rows(tmp_path):
    rows = state.frame(state.read(captured(tmp_path / "c")))
    assert list(rows.columns) == list(state.COLUMNS)
    assert rows.empty


def test_declared_fields_are_those_of_losslabs_kernels():
    """A kernel that has an algorithm has all fields of its variables."""
    for kernel, algorithms in json.loads(TABLE.read_text()).items():
        for name, variables in state.declared().items():
            known = {field[0] for field in algorithms.get(name, ())}
            needed = {field for its in variables.values() for field in state._fields(its)}
            assert name not in algorithms or needed <= known, (kernel, name)


def test_own_declaration_comes_before_losslabs(campaign_folder):
    (campaign_folder / "config").mkdir(exist_ok=True)
    own = campaign_folder / state.DECLARATIONS
    own.write_text('[bbr]\nmode = { field = "mode" }\n')
    assert state.declared()["bbr"] == {"mode": {"field": "mode"}}
    assert "cubic" in state.declared()
    own.write_text('[bbr]\nmode = { fields = "mode" }\n')
    with pytest.raises(UsageError, match="fields"):
        state.declared()
    own.write_text('[bbr]\nmode = { field = "mod" }\n')
    with pytest.raises(UsageError, match="found mod; did you mean mode"):
        state.frame(state.read(captured(campaign_folder / "c", bbr(1))))


def test_full_record_of_the_kernel_is_a_violation(tmp_path, monkeypatch):
    full = SimpleNamespace(
        full=True, begin=lambda _: None, read_into=lambda _: 0, close=lambda: None
    )
    monkeypatch.setattr(capture, "Record", lambda: full)
    [reason] = capture.StateLog("{}").write(tmp_path / "c")
    assert "found the kernel's record full" in reason
