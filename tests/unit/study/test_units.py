"""Values with units: read as the number in the axis's own unit, or refused with that unit."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from losslab import cellspec, sweeps
from losslab.errors import LosslabError
from losslab.reading import MAX_NUMBER_LENGTH, UsageError
from losslab.study import background, schedule, schemas, studyfiles, units
from losslab.study.axes import plain
from losslab.study.condition import AXES

PATH = {"algorithm": "cubic", "rate_mbit": 20.0, "rtt_ms": 40.0, "reverse_rate_mbit": 2.0}


@pytest.mark.parametrize(
    ("name", "said", "meant"),
    [
        ("rtt_ms", "40ms", 40), ("rtt_ms", "1s", 1000), ("rtt_ms", "440us", 0.44),
        ("duration_s", "500ms", 0.5), ("duration_s", "2 min", 120),
        ("rate_mbit", "20M", 20), ("rate_mbit", "20Mbit", 20), ("rate_mbit", "1G", 1000),
        ("rate_mbit", "500k", 0.5), ("rate_mbit", "20mbit/s", 20), ("rate_mbit", "20 Mbit/s", 20),
        ("loss_percent", "0.5%", 0.5),
        ("write_kib", "1MiB", 1024), ("write_kib", "128KiB", 128),
        ("buffer_packets", "2MB", 1321), ("buffer_packets", "64KB", 42),
        ("buffer_packets", "64KiB", 43), ("buffer_packets", "100packets", 100),
        # 20 Mbit/s times 40 ms are 100,000 bytes, or 66.05 packets.
        ("buffer_packets", "1bdp", 66), ("buffer_packets", "0.5bdp", 33),
        ("buffer_packets", "30ms", 50), ("buffer_packets", "0.01bdp", 2),
        ("reverse_buffer_packets", "1bdp", 7), ("reverse_buffer_packets", "300ms", 50),
        ("policer_mbit", "500kbit", 0.5), ("mtu_bytes", "9kB", 9000),
    ],
)  # fmt: skip
def test_value_with_unit_is_the_number_in_the_axis_unit(name, said, meant):
    number = cellspec.condition({"warmup_s": 0} | PATH | {name: meant})
    assert cellspec.condition({"warmup_s": 0} | PATH | {name: said}) == number


WITH_UNITS = [(name, word) for name in AXES if (unit := units.unit_of(name)) for word in unit.units]


@given(st.sampled_from(WITH_UNITS), st.integers(0, 10**6), st.integers(-3, 0))
def test_number_written_with_any_unit_is_read_back(named, digits, exponent):
    name, word = named
    unit = units.unit_of(name)
    meant = Decimal(digits).scaleb(0 if name in units.SIZES else exponent)
    written = meant * Decimal(unit.size) / Decimal(unit.units[word])
    found = units.value(name, f"{written:.24f}"[:MAX_NUMBER_LENGTH] + word)
    powers_of_ten = written == round(written, 12)
    assert found == (float(meant) if powers_of_ten else pytest.approx(float(meant), rel=1e-12))


@given(st.text(max_size=12), st.sampled_from(["%", "ms", "M", "bdp", "B", "packets"]))
def test_any_text_is_read_or_refused(text, unit):
    for name in AXES:
        for said in (text, f"{text}{unit}", f"1{text}{unit}"):
            try:
                found = units.value(name, said, PATH)
            except LosslabError:
                continue
            assert found == said or isinstance(found, int | float)


def test_number_option_accepts_the_unit_of_its_name():
    read = units.number_option("interval-ms", above=0)
    assert [read(text) for text in ("20", "2s", "0.5ms")] == [20.0, 2000.0, 0.5]
    for text, said in (
        ("2bdp", "interval_ms must be in ms"),
        ("0s", "interval-ms must be above 0"),
    ):
        with pytest.raises(UsageError, match=said):
            read(text)


def test_mini_languages_accept_units_and_keep_their_own_text():
    flows = "cubic,start_s=500ms,rate_mbit=2M,size_kb=1MB+same,count=2,rtt_ms=0.1s"
    found = units.resolved({"flows": flows, "changes": "at_s=4s,rate_mbit=500k,rtt_ms=1s"})
    assert found["flows"] == ("cubic,start_s=0.5,rate_mbit=2,size_kb=1000+same,count=2,rtt_ms=100")
    assert found["changes"] == "at_s=4,rate_mbit=0.5,rtt_ms=1000"
    # Text without units stays as it is, whatever its notation.
    for axis, text in (("changes", "at_s=4.0,rate_mbit=1e1"), ("flows", background.EXAMPLE)):
        assert units.resolved({axis: text})[axis] == text


def test_study_accepts_units_in_blocks_and_its_own_names():
    study = {
        "defaults": {"algorithm": "cubic", "rtt_ms": "40ms"},
        "flows": {"late": [{"algorithm": "same", "start_s": "500ms"}]},
        "changes": {"step": [{"at_s": "4s", "rate_mbit": "5M"}]},
    }
    block = {
        "rate_mbit": ["20M", 40], "buffer_packets": "1bdp", "flows": "late", "changes": "step",
    }  # fmt: skip
    found = list(studyfiles.block_grid(study, block))
    assert [point["buffer_packets"] for point in found] == [66, 132]
    assert {(point["flows"], point["changes"]) for point in found} == {
        ("same,start_s=0.5", "at_s=4,rate_mbit=5")
    }
    assert [studyfiles.matches(point, {"buffer_packets": "1bdp"}) for point in found] == [True] * 2
    assert [studyfiles.matches(point, {"rate_mbit": "40M"}) for point in found] == [False, True]


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"rtt_ms": "40ms", "buffer_packets": ["1bdp", "2MB"], "loss_percent": 1}, None),
        ({"rtt_ms": "40M"}, "rtt_ms must be in ms"),
        ({"rtt_ms": "fast"}, "'fast' is not of type 'number'"),
        ({"rtt_ms": True}, "is not of type"),
        ({"rtt_ms": "40"}, "'40' is not of type 'number'"),
    ],
)
def test_schema_of_studies_accepts_numbers_with_units(axes, said):
    config = {"studies": {"loss": {"main": {
        "replicates": 1, "duration_s": "10s", "warmup_s": 0, "only": axes}}}}  # fmt: skip
    problems = schemas.problems(config, "config")
    assert problems == [] if said is None else said in problems[0]


def test_each_cell_of_a_sweep_has_its_own_bdp(tmp_path):
    given = {"algorithm": ["cubic"], "rate_mbit": [20.0, 40.0], "rtt_ms": [40.0],
             "buffer_packets": ["1bdp", "2MB", 70.0]}  # fmt: skip
    points = [each.condition.to_json() for each in sweeps.cells(given, tmp_path)]
    assert [point["buffer_packets"] for point in points] == [66, 1321, 70, 132, 1321, 70]
    assert [*units.notes(given, points)] == [
        "buffer_packets 1bdp = 66 to 132 packets of 1514 bytes",
        "buffer_packets 2MB = 1,321 packets of 1514 bytes",
    ]


@pytest.mark.parametrize(("mtu", "packets"), [(9000, 11), ("9kB", 11), (576, 169), (-14, 169)])
def test_bdp_is_in_full_packets_of_the_paths_mtu(mtu, packets):
    assert (
        units.resolved(PATH | {"buffer_packets": "1bdp", "mtu_bytes": mtu})["buffer_packets"]
        == packets
    )


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=2))
def test_schedule_written_with_units_is_the_same_schedule(numbers):
    at_s, rate = (plain(number) for number in numbers)
    text = f"at_s={at_s},rate_mbit={rate}"
    with_units = units.resolved({"changes": f"at_s={at_s}s,rate_mbit={rate}Mbit"})["changes"]
    assert schedule.parse(with_units) == schedule.parse(text)
