"""Any input: readers accept finite values in range, or refuse with a `UsageError`."""

import dataclasses
import gzip
import json
import math
import os
import re
import tempfile
import types
from itertools import islice
from pathlib import Path

import pandas
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from losslab import cellspec, reading, sweeps
from losslab.campaign import results, state
from losslab.emulation import capture
from losslab.emulation.link import tracelink
from losslab.instrument import csource, kernels
from losslab.reading import UsageError
from losslab.study import claims, design, studyfiles
from losslab.study.condition import AXES
from losslab.tools.compare import commands, measurement
from losslab.tools.conform import judge, suite
from losslab.tools.conform.timeline import Timeline
from losslab.tools.decide import question
from losslab.tools.paths import from_tc, tclines, traces
from losslab.tools.timetravel import whatif
from tests.conftest import RANDOM_SEED, ROOT
from tests.unit.campaign.test_state import BBR, bbr

NAMES = design.load_names(ROOT)
GRID = claims.design_points(studyfiles.load_study("quic", ROOT))
# Inputs that broke readers: NaN, other notations, syntax, bytes.
PIECES = [
    *(text.encode() for text in (
        "nan", "inf", "-inf", "1e400", "-1", "-0", "0", "1_0", "0x10", "010", "1:30", ".5", "5.",
        "9" * 400, "9" * 5000, "true", "null", "~", "on", "[]", "{}", '"', "'", "&a", "*a",
        "&a *a", "<<: *a", "!!binary x", "? ", "- ", ": ", "#", "%", "\t", "\n", "\r", ",", "+",
        "=", ";", "../..", "[" * 200, "{" * 200, "- " * 200, "\u0663", "\u2028", "\ufeff",
        "none", "same", "default", "cubic", "loss_percent", "2026-01-31", "---", "...",
    )),
    b"\x00", b"\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J",
]  # fmt: skip
TOKEN = re.compile(rb"[A-Za-z0-9_.+-]+|[^A-Za-z0-9_.+-]")


@st.composite
def changed(draw, seeds):
    """Draw a valid input with up to four changes, or anything."""
    tokens = TOKEN.findall(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(len(tokens) - 1, 0)))
        end = at + draw(st.integers(0, 20))
        new = draw(st.sampled_from(PIECES) | st.binary(max_size=4))
        tokens[at:end] = draw(st.sampled_from([[new], [], tokens[at:end] * 2]))
    return b"".join(tokens)


def finite(value):
    """Check that all numbers are finite, and all text can be written."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            finite(each)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, float):
        assert math.isfinite(value)


def in_range(condition):
    assert condition.problems() == []
    data = condition.to_json()
    finite(data)
    assert type(condition).from_json(json.loads(json.dumps(data))) == condition


def word(data):
    return data.decode("utf-8", "surrogateescape")


def axis(name, **others):
    path = {"algorithm": "cubic", "rtt_ms": 20.0, "rate_mbit": 20.0, **others}
    return lambda data: in_range(cellspec.condition({**path, name: word(data)}, NAMES))


def swept(data):
    found = sweeps.values(AXES["loss_percent"], word(data))[:50]
    for cell in sweeps.cells({"algorithm": ["cubic"], "loss_percent": found}, Path("sweep")):
        in_range(cell.condition)


def of_condition(data):
    in_range(cellspec.condition(reading.parse_json(word(data), "--condition"), NAMES))


def of_tc(data):
    """Read lines of tc or Mininet: an axis has a value only if a word of the file says it."""
    lines = tclines.Lines.of(tclines.read(word(data), {"1": "eth1"}))
    path = from_tc.Reading(lines, {}, "cubic")
    in_range(path.condition)
    said = " ".join(axes for _, axes in path.taken)
    assert [axis for axis in path.values if axis != "algorithm" and axis not in said] == []


def of_module(data):
    """Read a kernel module's folder: its Makefile, and a source that registers an algorithm."""
    makefile, _, source = data.partition(b"\n---\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "Makefile").write_bytes(makefile)
        (folder / "tcp_mine.c").write_bytes(source)
        made, files, notes = csource.inspect(folder, folder, "mine")
        encodings = ("utf-8", "latin-1")  # those in which losslab reads a source
        # In C, neighbouring strings are one: "mi" "ne" is "mine".
        texts = [source.decode(name, "replace") for name in encodings]
        named = any(made.registers in re.sub(r'"\s*"', "", text) for text in texts)
        assert named or any("its name is in macros" in note for note in notes)
        assert {Path(each).name for each in files} <= {"tcp_mine.c"}


def of_study(path):
    """Load a study, and every cell of its blocks."""
    folder = path.parent / "studies" / "mine"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.yaml").write_bytes(path.read_bytes())
    study = studyfiles.load_study("mine", path.parent, ())
    with reading.input_errors():  # as the loading of a study's cells does
        for block in study["blocks"].values():
            for point in islice(studyfiles.block_grid(study, block), 20):
                finite(point)


def of_campaign(path):
    for study in design.load_studies(reading.read_config(path), ROOT):
        for cell in study.cells:
            in_range(cell.condition)
            assert 1 <= cell.stopping.minimum <= cell.stopping.maximum


def of_trace(path):
    with reading.input_errors():
        times = tracelink.parse(reading.read_text(path, reading.RESULT_BYTES), str(path))
    assert times == sorted(times)


def of_state(path):
    path.write_bytes(gzip.compress(path.read_bytes(), 1))
    state.frame(state.read(path))


def of_rates(path):
    said = traces.Choices(unit="mbit", interval_ms=1000.0)
    text = reading.read_text(path, reading.RESULT_BYTES)
    for choices in (traces.Choices(), said):
        periods, _ = traces.read(text, str(path), choices)
        if sum(each.bits for each in periods) < 10**9:
            times = traces.times_of(periods)
            assert times == sorted(times)


def of_question(data):
    """Read words of a decision: `share USE NAME=LOW..HIGH`."""
    share, use, bounds = [*word(data).split(" "), "", ""][:3]
    name, percent = question.read_share(share)
    uses, page_kb = question.read_uses([use])
    its = question.Question(("cubic", "bbr"), {"rtt_ms": 20.0, "rate_mbit": 20.0}, {name: percent},
                            10, uses, page_kb, 20.0)  # fmt: skip
    for variant in question.others(its, [bounds] if bounds else ["none"]):
        finite(dict(variant.question.path))


def of_suite(path):
    """Read a draft's cases; judge a made-up time line by each."""
    rows = pandas.DataFrame({
        "t_s": [0.5, 1.0, 1.5], "event": ["ack", "ca_state", "undo"],
        "phase": ["FAST", "SLOW", "FAST"], "ca_state": ["open", "recovery", "open"],
        "limit_packets": [math.nan, 9, 8],
        "delivered_packets": [1, 2, 3], "lost_packets": [0, 0, 1], "sample_packets": [1.0, 1, 1],
    })  # fmt: skip
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(studyfiles, "suite_path", lambda *_: path)
        selected = suite.load("mine")
    for case in suite.cases(selected, []):
        condition = case.condition({"algorithm": "cubic"}, case.known_s)
        in_range(condition)
        line = Timeline(rows, condition, ["FAST", "SLOW"], case.groups, case.interrupts, 0.7)
        judge.verdict_of(*judge.of_case(case.data, line))


def of_measurement(path):
    found = measurement.read(path, "TCP upload" if b"results" in path.read_bytes() else "")
    finite(dataclasses.asdict(found))
    made = types.SimpleNamespace(manifest=RUN, table=lambda _: [], samples=lambda _: {})
    json.dumps(commands.compared(found, [made]), allow_nan=False)


def examples(*names):
    folder = ROOT / "tests/unit/tools/compare/examples"
    return [(folder / name).read_bytes() for name in names]


def recorded(pattern):
    """Return recorded files, without the longest field."""
    paths = sorted((ROOT / "tests/golden/cells").glob(pattern))[:3]
    found = [json.loads((gzip.open if p.suffix == ".gz" else open)(p).read()) for p in paths]
    return [json.dumps({k: v for k, v in each.items() if k != "plan"}).encode() for each in found]


def text(name):
    return [(ROOT / name).read_bytes()]


RUN = {
    "cell": {"algorithm": "cubic", "warmup_s": 1.0, "duration_s": 4.0},
    "summary": {"goodput_mbit": 1.0, "retransmits": 2},
}


# Readers of words and of files, each with valid inputs.
WORDS = {
    "flows": ([b"same,count=9+cubic,start_s=2s", b"cubic,arrivals_per_s=20,size_kb=10"],
              axis("flows")),
    "changes": ([b"at_s=4,rate_mbit=5,rtt_ms=30+at_s=7,outage_s=0.05"], axis("changes")),
    "drops": ([b"data 12,57 ack 3"], axis("drop_list")),
    "packets": ([b"57,58", b"ack:3"], lambda data: whatif.packets(word(data))),
    "tc": ([b"D=9\ntc qdisc add dev eth0 root handle 1: netem delay $((D/2))ms 1ms loss state 1%\n"
            b"tc qdisc add dev eth0 parent 1: handle 2: tbf rate 8mbit burst 2k latency 9ms\n"
            b"tc qdisc add dev eth0 parent 2: red limit 90k min 9k max 9001",
            b"tc qdisc add dev $1 root handle 1: htb default 2\n"
            b"tc class add dev $1 parent 1: classid 1:2 htb rate 8mbit ceil 9mbit burst 9k\n"
            b"tc qdisc add dev $1 parent 1:2 netem limit 9 delay 9ms reorder 1% gap 1 slot 1ms",
            b"tc filter add dev eth0 parent ffff: matchall action police rate 1mbit burst 9k",
            ], of_tc),
    "mininet": ([
        b"addLink(h1, s1, bw=10, delay='5ms', loss=1, max_queue_size=9, use_tbf=True)",
        b"from mininet.link import TCLink\nclass Mine(Topo):\n    def build(self, n=2):\n"
        b"        self.addLink(a, b, cls=TCLink, bw=10, jitter='1ms', delay='5ms')\n",
    ], of_tc),
    "module": ([b"obj-m := tcp_mine.o\nccflags-y += -DX=1 \\\n -O2\n---\n"
                b"static struct tcp_congestion_ops mine = { .name = \"mine\", .ssthresh = f };\n"
                b"module_param(beta, int, 0644);\nMODULE_LICENSE(\"GPL\");\n"
                b"tcp_register_congestion_control(&mine);\n"], of_module),
    "scheme": ([b"ewma,alpha=0.9,scale=1.5", b"bbr"], axis("scheme", app="datagram")),
    "number": ([b"1", b"0.5", b"1e3"], lambda data: finite(reading.number(word(data)))),
    "seed": ([b"1", b"2147483647"], lambda data: finite(cellspec.SEED(word(data)))),
    "sweep": ([b"0:10:2", b"0,1,5", b"0.5%,1%:5%:2%"], swept),
    "rate": ([b"20M", b"20 mbit/s"], axis("rate_mbit")),
    "buffer": ([b"2MB", b"1.5bdp", b"30ms", b"64KiB"], axis("buffer_packets")),
    "decide": ([b"cubic=30% pages=300kB rtt_ms=10ms..0.1s", b"reno=50 bulk share=20%..60%"],
               of_question),
    "kernel": ([b"6.12+mine"], lambda data: kernels.of_key(word(data))),
    "condition": ([json.dumps(json.loads(each)["condition"]).encode()
                   for each in recorded("*/cell.json")], of_condition),
}  # fmt: skip
FILES = {
    "campaign": (text("config/campaigns/quic.yaml"), of_campaign),
    "study.yaml": ([each.replace(b"study: quic", b"study: mine")
                    for each in text("studies/quic/study.yaml")], of_study),
    "claims": (text("studies/quic/claims.yaml"), lambda p: claims.check_claims(p, "quic", GRID)),
    "kernels.toml": (text("config/kernels.toml"), lambda p: finite(design.load_kernels(p))),
    "manifest.json": (recorded("*/0/manifest.json.gz"),
                      lambda p: finite(results.read_manifest(p))),
    "cell.json": (recorded("*/cell.json"), lambda p: finite(results.read_cell(p).content)),
    "states.toml": (text("config/states.toml"), lambda p: finite(state.read_declarations(p))),
    "state": ([json.dumps({"origin_ns": 0, "layouts": {"bbr": BBR}}).encode() + b"\n"
               + bytes(capture.pack(bytearray(bbr(1))))], of_state),
    "trace": ([b"0\n5\n5\n12\n40\n"], of_trace),
    "iperf3": (examples("iperf3-tcp.json", "iperf3-udp.json"), of_measurement),
    "flent": (examples("flent.json"), of_measurement),
    "table": (examples("table.csv"), of_measurement),
    "pcap": (examples("sender.pcap"), of_measurement),
    "suite.yaml": (re.findall(rb"(?s)```yaml\n(suite: .+?)```", *text("docs/how-to/conform.md")),
                   of_suite),
    "rates": ([b"t,mbps\n0,1.5\n1,0\n2,3\n", b'[{"ms": 100, "kbps": 8}, {"ms": 5, "kbps": 0}]'],
              of_rates),
}  # fmt: skip


# Inputs of each reader, and of each in the nightly tests.
FEW, MANY = 25, 300


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", [*WORDS, *FILES])
def test_any_input_is_read_in_range_or_refused(name, count, tmp_path):
    """Every run has other inputs, of the seed that pytest prints."""
    seeds, read = (WORDS | FILES)[name]
    refused = []

    @seed(int(os.environ[RANDOM_SEED]))
    @settings(
        max_examples=count, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(changed(seeds) | st.binary(max_size=200))
    def each(data):
        given_ = data
        if name in FILES:
            given_ = tmp_path / name
            given_.write_bytes(data)
        try:
            read(given_)
        except UsageError as error:
            assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", str(error)) is None
            refused.append(data)

    each()
    assert set(seeds).isdisjoint(refused)
    for valid in seeds:
        if name in FILES:
            (tmp_path / name).write_bytes(valid)
            valid = tmp_path / name  # noqa: PLW2901
        read(valid)


def values(found):
    """Return the values of a measurement, by name."""
    return {k: v for k, v in dataclasses.asdict(found).items() if k not in ("absent", "notes")}


def without_a_key(content):
    """Yield copies of JSON without one key of an object, and where the key was."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for key, inner in pairs:
        if isinstance(content, dict):
            yield f"{key}", {k: v for k, v in content.items() if k != key}
        if isinstance(inner, dict | list):
            for where, changed_ in without_a_key(inner):
                copy = content.copy()
                copy[key] = changed_
                yield f"{key}.{where}", copy


@pytest.mark.parametrize("name", ["iperf3-tcp.json", "iperf3-udp.json", "flent.json"])
def test_a_measurement_has_no_value_that_its_file_does_not_say(name, tmp_path):
    """What a file without a key no longer says is absent or refused, and never 0."""
    content = json.loads(examples(name)[0])
    path = tmp_path / name
    series = "TCP upload" if "flent" in name else ""
    path.write_text(json.dumps(content))
    whole = values(measurement.read(path, series))
    wrong = []
    for where, changed_ in without_a_key(content):
        path.write_text(json.dumps(changed_))
        try:
            found = values(measurement.read(path, series))
        except UsageError:
            continue
        wrong += [f"without {where}: {key} {value!r}" for key, value in found.items()
                  if value in (0, 0.0) and whole[key] not in (0, 0.0)]  # fmt: skip
        # A loss that the file does not say is no loss of 0 %.
        if where.endswith("lost_percent") and found["lost_percent"] == 0:
            wrong.append(f"without {where}: {found['lost_percent']} % lost")
    assert wrong == []
