"""Lines of tc and Mininet as conditions, and conditions as lines of tc."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab import cellspec, cli
from losslab.reading import UsageError
from losslab.study.condition import Condition
from losslab.tools.paths import from_tc, inguest, linux, tclines, to_tc
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "how-to" / "paths.md").read_text()
CODE = re.compile(r"`([^`]+)`")
ROWS = [
    [CODE.findall(cell) for cell in row.strip("|\n").split(" | ")]
    for row in re.search(r"\| lines \| options .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE)[1].splitlines()
]


@pytest.fixture(autouse=True)
def unjudged(monkeypatch):
    """Linux judges in a guest, which tests of units do not have."""
    monkeypatch.setattr(linux, "judge", lambda source: None)


def found(text, algorithm="cubic", variables=(), **roles):
    return from_tc.Reading(tclines.Lines.of(tclines.read(text, dict(variables))), roles, algorithm)


def left(reading):
    """Return the words without an axis, without their interfaces."""
    return [words.split(": ", 1)[-1] for words, _ in reading.left]


def axes(condition):
    default = Condition(algorithm="cubic").to_json()
    return {k: v for k, v in condition.to_json().items() if v != default[k]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][0][:70])
def test_page_has_the_result_of_its_lines(row):
    lines, options, without, _source = row
    reading = found("\n".join(lines))
    command = cellspec.measure_command(reading.condition, 1, "x", path_only=True)
    expected = " ".join(["losslab measure --algorithm cubic", *options, "--seed 1 --out x"])
    assert command == expected
    assert list(dict.fromkeys(left(reading))) == without


def test_page_has_twenty_rows_and_mininets_example():
    assert len(ROWS) > 20
    assert any("addLink" in line for lines, *_ in ROWS for line in lines)


# The kernel's rates are whole bytes per second: others are rounded.
RATES = st.integers(1, 80_000).map(lambda n: n / 8)


@st.composite
def conditions(draw):
    """Draw conditions with some of the axes that tc can carry."""
    rtt_us = draw(st.integers(100, 10_000_000))
    choices = {
        "loss_percent": st.integers(1, 99_999).map(lambda n: n / 1000),
        "loss_burst_packets": st.integers(2, 50),
        "loss_direction": st.sampled_from(["data", "both", "back"]),
        "queue": st.sampled_from(
            ["bfifo", "codel", "fq_codel", "pie", "red", "red-step", "cake", "dualpi2"]
        ),
        "ecn": st.just("on"),
        "qdisc": st.sampled_from(["sfq limit 90", "codel limit 90 target 1ms"]),
        "mark_packets": st.integers(1, 90),
        "jitter_ms": st.integers(1, 1_000_000).map(lambda n: n / 1000),
        "jitter_order": st.sampled_from(["kept", "mixed"]),
        "jitter_direction": st.sampled_from(["data", "both", "back"]),
        "jitter_distribution": st.sampled_from(["uniform", "normal"]),
        "jitter_correlation_percent": st.integers(1, 99).map(float),
        "duplicate_percent": st.integers(1, 99).map(float),
        "reorder_percent": st.integers(1, 99).map(float),
        "reorder_ms": st.integers(10, max(10, rtt_us // 2)).map(lambda n: n / 1000),
        "policer_mbit": RATES,
        "policer_burst_packets": st.integers(2, 1000),
        "ack_thinning": st.integers(2, 100),
        "ack_batch_ms": st.integers(1, 1_000_000).map(lambda n: n / 1000),
        "data_batch_ms": st.integers(1, 1_000_000).map(lambda n: n / 1000),
        "sender_delay_ms": st.integers(1, rtt_us).map(lambda n: n / 1000),
        "sender_queue": st.just("fq_codel"),
        "reverse_rate_mbit": RATES,
        "reverse_buffer_packets": st.integers(8_001, 9_000),
        "reverse_queue": st.sampled_from(["bfifo", "codel", "fq_codel", "pie", "red", "cake"]),
    }
    names = draw(st.lists(st.sampled_from(sorted(choices)), max_size=4, unique=True))
    values = {name: draw(choices[name]) for name in names}
    if "qdisc" in values:
        values["queue"] = "own"
    if any(name.startswith("jitter_") for name in values):
        values.setdefault("jitter_ms", 7.001)
    # Axes without an effect.
    for name, needed in (("loss_direction", "loss_percent"), ("reorder_ms", "reorder_percent")):
        if needed not in values:
            values.pop(name, None)
    if {"reverse_queue", "reverse_buffer_packets"} & values.keys():
        values.setdefault("reverse_rate_mbit", 2.5)
    if values.get("queue") == "dualpi2":
        values["kernel"] = "7.2"
    return Condition(
        algorithm="cubic",
        rtt_ms=rtt_us / 1000,
        rate_mbit=draw(RATES),
        # No kernel of others has exact links.
        shaper=draw(st.sampled_from(["tbf", "htb-netem"])),
        # Without an effect on the queue of the axis qdisc.
        buffer_packets=draw(st.integers(100, 8_000)) if "qdisc" not in values else 1000,
        **values,
    )


@settings(max_examples=400)
@given(conditions())
def test_script_of_a_condition_is_read_as_the_same_condition(condition):
    marking = condition.queue in ("codel", "fq_codel", "pie", "red", "red-step")
    if condition.problems() or (condition.ecn == "on" and not marking):
        return
    reading = found(to_tc.script(condition))
    assert (axes(reading.condition), reading.left) == (axes(condition), [])


@pytest.mark.parametrize(
    ("text", "units", "expected"),
    [
        ("10mbit", tclines.RATES, 10e6), ("10Mbps", tclines.RATES, 80e6), ("1", tclines.RATES, 1),
        ("2Kibit", tclines.RATES, 2048), ("5KBps", tclines.RATES, 40_000),
        ("32kbit", tclines.SIZES, 4096), ("384k", tclines.SIZES, 393_216),
        (".05mbit", tclines.SIZES, 6553.6), ("15000", tclines.SIZES, 15_000),
        ("100msec", tclines.TIMES, 0.1), ("250us", tclines.TIMES, 250e-6),
        ("0.3%", tclines.PERCENT, 0.3), ("2", tclines.PERCENT, 2),
    ],
)  # fmt: skip
def test_units_are_those_of_tc(text, units, expected):
    assert tclines.value(text, units) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("lines", "without", "reason"),
    [
        ("root netem delay 100", "netem delay 100", "must be a number with a unit"),
        ("root netem delay ${D}ms", "netem delay $Dms", "--var NAME=VALUE"),
        ("root netem delay 10ms 20ms limit 9999", "netem delay ... 20ms", "at most its delay"),
        ("root netem delay 20000ms", "netem delay 20000ms", "rtt_ms must be in [0, 10000]"),
        ("root tbf rate 1mbit burst 1600 latency 1s peakrate 2mbit", "tbf peakrate 2mbit", "peak"),
        ("root cake bandwidth 9mbit nat", "cake nat", "no axis"),
        ("root hfsc default 1", "hfsc", "no axis for this qdisc"),
        ("root netem delay -10ms", "netem delay -10ms", "must not be negative"),
    ],
)
def test_word_without_an_axis_is_left_out_with_its_reason(lines, without, reason):
    reading = found(f"tc qdisc add dev eth0 {lines}")
    reasons = {words.split(": ", 1)[-1]: why for words, why in reading.left}
    assert reason in reasons[without]


PAIR = """
tc qdisc add dev eth1 root netem delay 20ms limit 100000 loss 1%
tc qdisc add dev eth2 root netem delay 5ms limit 100000 loss {}
"""


JITTER = """
tc qdisc add dev eth1 root netem delay {} limit 100000
tc qdisc add dev eth2 root netem delay {} limit 100000
"""
TBF = """
tc qdisc add dev eth0 root handle 1: tbf rate 9mbit burst 3028 limit 3028
tc qdisc add dev eth0 parent 1:1 """
OWN = {"rate_mbit": 9.0, "queue": "own", "shaper": "tbf"}
CHANGED = """
tc qdisc add dev eth0 root handle 1: netem delay 7ms limit 9999
tc qdisc add dev eth0 parent 1:1 handle 2: tbf rate 9mbit burst 3028 limit 90840
tc qdisc change dev eth0 handle 2: tbf rate 8mbit burst 3k limit 90840
"""
POLICER = """
tc qdisc add dev eth0 clsact
tc filter add dev eth0 ingress matchall action police rate 8mbit burst 30280 conform-exceed drop
"""
NETEM = "tc qdisc add dev eth0 root netem rate 8mbit limit 100\n"
READ = {
    "options of fq_codel are an axis": (
        f"{TBF}fq_codel limit 90 target 1ms", OWN | {"qdisc": "fq_codel limit 90 target 1ms"}, []
    ),
    "sfq is an axis": (f"{TBF}sfq perturb 10", OWN | {"qdisc": "sfq perturb 10"}, []),
    "default options of codel are none": (
        f"{TBF}codel limit 90 target 5000us",
        {"rate_mbit": 9.0, "queue": "codel", "buffer_packets": 90, "shaper": "tbf"}, [],
    ),
    "pfifo is a buffer": (
        f"{TBF}pfifo limit 90", {"rate_mbit": 9.0, "buffer_packets": 90, "shaper": "tbf"}, []
    ),
    "a class of HTB is a token bucket": (
        "tc qdisc add dev eth0 root handle 1: htb default 1\n"
        "tc class add dev eth0 parent 1: classid 1:1 htb rate 9mbit",
        {"rate_mbit": 9.0, "shaper": "tbf"}, [],
    ),
    "a rate of CAKE is none": (
        "tc qdisc add dev eth0 root cake bandwidth 9mbit",
        {"rate_mbit": 9.0, "queue": "cake", "buffer_packets": 1820}, [],
    ),
    "two interfaces are both directions": (
        PAIR.format("1%"), {"loss_percent": 1.0, "loss_direction": "both", "rtt_ms": 25.0}, []
    ),
    "another loss of the reverse direction is left out": (
        PAIR.format("2%"), {"loss_percent": 1.0, "rtt_ms": 25.0}, ["netem loss 2%"]
    ),
    "two interfaces have the same jitter": (
        JITTER.format("100ms 20ms 25% distribution normal", "90ms 20ms 25% distribution normal"),
        {"rtt_ms": 30.0, "jitter_ms": 160.0, "jitter_order": "mixed", "jitter_direction": "both",
         "jitter_distribution": "normal", "jitter_correlation_percent": 25.0}, [],
    ),
    "other jitter of the reverse direction is left out": (
        JITTER.format("50ms 5ms distribution normal", "30ms 5ms"),
        {"rtt_ms": 60.0, "jitter_ms": 40.0, "jitter_order": "mixed",
         "jitter_distribution": "normal"},
        ["netem delay ... 5ms"],
    ),
    "only the reverse direction has jitter": (
        JITTER.format("10ms", "30ms 5ms rate 1tbit"),
        {"rtt_ms": 35.0, "jitter_ms": 10.0, "jitter_direction": "back"}, [],
    ),
    "normal jitter that would be below 0 is uniform": (
        "tc qdisc add dev eth0 root netem delay 50ms 20ms distribution normal limit 100000",
        {"rtt_ms": 15.359, "jitter_ms": 69.282, "jitter_order": "mixed"},
        ["netem distribution normal"],
    ),
    "a change of netem keeps its rate": (
        f"{NETEM}tc qdisc change dev eth0 root netem delay 1ms limit 100",
        {"rate_mbit": 8.0, "rtt_ms": 1.0, "buffer_packets": 99},
        ["netem rate 8mbit limit 100", "netem limit 100"],
    ),
    "a change by handle is of its qdisc": (
        CHANGED,
        {"rtt_ms": 7.0, "rate_mbit": 8.0, "queue": "bfifo", "buffer_packets": 60, "shaper": "tbf"},
        ["tbf rate 9mbit burst 3028 limit 90840"],
    ),
    "a program configures an interface": (
        "link.intf1.config(bw=8, delay='7ms', max_queue_size=99)\nh1.config(ip='10.0.0.1')",
        {"rate_mbit": 8.0, "rtt_ms": 7.0, "buffer_packets": 94, "shaper": "tbf"},
        ["htb burst 15k", "netem limit 99"],
    ),
    "clsact has a policer": (POLICER, {"policer_mbit": 8.0, "policer_burst_packets": 20}, []),
}  # fmt: skip


@pytest.mark.parametrize("subject", READ)
def test_lines_are_read_as_axes(subject):
    lines, expected, without = READ[subject]
    reading = found(lines)
    assert (axes(reading.condition), left(reading)) == (expected, without)


def test_share_of_packets_that_netem_would_not_delay_is_stated():
    """The normal distribution has 0.62 % below -2.5 standard deviations."""
    line = "tc qdisc add dev eth0 root netem delay 50ms 20ms distribution normal limit 100000"
    [(_, why)] = found(line).left
    assert why.endswith("netem would send 0.62 % of the packets without a delay")
    assert "keeps almost nothing" in " ".join(found(line.replace("20ms", "2ms 5%")).traps)


DOCSIS = """
tc qdisc add dev {} root handle 1: tbf rate 200mbit burst 3028 limit 2mb
tc qdisc add dev {} root handle 1: tbf rate 20mbit burst 3028 limit 3028
tc qdisc add dev {} parent 1:1 {}
"""
INGRESS = """
tc qdisc add dev eth0 handle ffff: ingress
tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0
"""


@pytest.mark.parametrize(
    ("prefix", "forward", "reverse"), [("", "eth1", "eth0"), (INGRESS, "eth0", "ifb0")]
)
@pytest.mark.parametrize(
    ("queue", "expected", "without"),
    [
        ("pfifo limit 90", {"reverse_buffer_packets": 90}, []),
        ("fq_codel", {"reverse_queue": "fq_codel", "reverse_buffer_packets": 10240}, []),
        ("codel limit 90 target 1ms", {"reverse_queue": "codel", "reverse_buffer_packets": 90},
         ["codel target 1ms"]),
        ("netem slot 5ms 5ms", {"reverse_buffer_packets": 1000, "ack_batch_ms": 5.0}, []),
    ],
)  # fmt: skip
def test_rate_of_the_other_interface_or_ifb_is_the_reverse_bottleneck(
    prefix, forward, reverse, queue, expected, without
):
    reading = found(prefix + DOCSIS.format(forward, reverse, reverse, queue))
    path = {"rate_mbit": 200.0, "queue": "bfifo", "buffer_packets": 1385, "reverse_rate_mbit": 20.0,
            "shaper": "tbf"}  # fmt: skip
    assert axes(reading.condition) == path | expected
    assert left(reading) == without


def test_roles_choose_the_directions():
    reading = found(PAIR.format("2%"), forward="eth2")
    assert axes(reading.condition) == {"loss_percent": 2.0, "rtt_ms": 25.0}
    with pytest.raises(UsageError, match="--reverse must be an interface of eth1, eth2"):
        found(PAIR.format("2%"), reverse="eth9")


def test_netem_on_the_sender_is_its_axis():
    line = "tc qdisc add dev eth0 root netem delay 50ms loss 1%"
    assert axes(found(line).condition) == {"loss_percent": 1.0, "rtt_ms": 50.0}
    reading = found(line, sender="eth0")
    assert axes(reading.condition) == {
        "loss_percent": 1.0, "rtt_ms": 50.0, "sender_delay_ms": 50.0
    }  # fmt: skip
    assert any("--sender eth0" in trap for trap in found(line).traps)
    assert not any("--sender" in trap for trap in reading.traps)


@pytest.mark.parametrize(
    ("lines", "trap"),
    [
        ("root netem delay 50ms", "the RTT grows once, not twice"),
        ("root tbf rate 100mbit burst 10kb latency 50ms", "less than rate / HZ"),
        ("root tbf rate 1mbit burst 1000 latency 50ms", "drops each packet"),
        ("root tbf rate 10mbps burst 100kb latency 50ms", "bytes per second"),
        ("root netem delay 50ms 10ms", "reorders packets"),
        ("root tbf rate 1mbit", "refuses tbf without a burst"),
        ("root tbf rate 1mbit burst 10kb limit 0", "refuses tbf without a burst"),
    ],
)
def test_common_mistake_is_named(lines, trap):
    assert any(trap in each for each in found(f"tc qdisc add dev eth0 {lines}").traps)


def test_netem_below_a_rate_is_no_separate_buffer():
    lines = "tc qdisc add dev eth0 root handle 1: tbf rate 12.112mbit burst 3028 limit 9999\n"
    lines += "tc qdisc add dev eth0 parent 1:1 netem delay 10ms limit 50"
    reading = found(lines)
    assert axes(reading.condition) == {
        "rate_mbit": 12.112, "rtt_ms": 10.0, "buffer_packets": 40, "shaper": "tbf"
    }  # fmt: skip
    assert "does not delay a packet that has waited" in dict(reading.left)["eth0: netem limit 50"]


@pytest.mark.parametrize(
    "script",
    [
        "docker exec client sh -c 'tc qdisc add dev eth0 root netem delay 7ms limit 9999'",
        "DELAY=14\nfoo && tc qdisc add dev eth0 root \\\n netem delay $(($DELAY / 2))ms limit 9999",
        "root@host:~# tc -n ns qdisc add dev eth0 root netem delay ${DELAY:-7}ms limit 9999; true",
        "# tc qdisc add dev eth0 root netem latency 7ms limit 9999",
        "qdisc add dev eth0 root netem delay 7ms limit 9999 2>/dev/null || true",
        "s1.cmd('sudo tc qdisc add dev s1-eth1 root netem delay 7ms limit 9999')",
        "D=7ms\n$TC qdisc add dev eth0 root netem ${D:+delay $D} ${L:+loss $L} limit 9999",
        "tc qdisc add dev eth0 root handle 2: netem delay 9ms limit 9999\n"
        "tc qdisc del dev eth0 root; tc qdisc add dev eth0 root netem delay 7ms limit 9999",
        "for i in 1 2; do sudo tc q add dev eth$i root netem del 7ms lim 9999; done",
        "tc q a dev eth0 root netem delay 9ms\ntc q d dev eth0 root\n"
        "tc q r dev eth0 root netem delay 7ms limit 9999; tc q l dev eth0; tc q s dev eth0",
    ],
)
def test_commands_are_found_in_scripts(script):
    assert axes(found(script).condition) == {"rtt_ms": 7.0}


@pytest.mark.parametrize(
    ("script", "words", "reason"),
    [
        (f"D=40\n{change}\ntc qdisc add dev eth0 root netem delay ${{D}}ms", "netem delay $Dms",
         "add --var")
        for change in ("D=$((D**2))", "D=$(echo $D | bc)", "D=`expr $D + 5`", "D+=5",
                       "(( D = D * 2 ))", "D*=2")
    ] + [
        ("os.system(f'tc qdisc add dev eth0 root netem delay {d}ms')",
         "os.system(f'tc qdisc add dev eth0 root netem delay {d}ms')", "not a command of a shell"),
        ("run(['tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'netem', 'loss', loss])",
         "run(['tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'netem', 'loss', loss])", "--run"),
        (f"tc qdisc add dev eth0 root netem loss 1% {'x' * tclines.LINE_MAX}",
         "tc qdisc add dev eth0 root netem loss 1% xxx", "a line of over"),
    ],
)  # fmt: skip
def test_line_that_cannot_be_read_is_left_out(script, words, reason):
    reading = found(f"{script}\ntc qdisc add dev eth9 root netem loss 2%")
    assert any(words in each and reason in why for each, why in reading.left)


def test_program_has_its_links_also_in_python_2_and_beside_tc():
    program = "net.addLink(h1, s1, bw=8)\ns1.cmd('tc qdisc add dev s1-eth2 root netem delay 7ms')"
    assert "s1-eth2" in dict(found(program).left)
    program = """
    print "topology"
    DELAY = '10ms'
    net.addLink(h1, s1, bw=20, delay=DELAY, max_queue_size=10*size)
    net.addLink(s1, h2, bw=6, delay=DELAY)
    """
    reading = found(program)
    assert (reading.values["rate_mbit"], reading.values["rtt_ms"]) == (6.0, 40.0)
    assert "netem limit 10*size" in left(reading)
    second = found(program, forward="s1-h2", reverse="h2-s1")
    assert (second.values["rate_mbit"], second.values["shaper"]) == (6.0, "htb-netem")
    assert {"h1-s1", "s1-h1"} <= set(left(second))


def test_command_prints_the_path_and_its_status(tmp_path, capsys, monkeypatch):
    file = tmp_path / "path.sh"
    file.write_text("tc qdisc add dev $1 root tbf rate 10mbit burst 5000b latency 50ms\n")
    assert cli.main(["path", "from-tc", str(file), "--var", "1=eth7"]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("losslab measure --algorithm cubic --rate-mbit 10 ")
    assert "# left out: eth7: tbf burst 5000b (5000 bytes; losslab's bucket has 3028)" in out
    file.write_text("tc qdisc add dev eth0 root tbf rate 10mbit burst 3000 latency 50ms\n")
    assert cli.main(["path", "from-tc", str(file), "--json", "--algorithm", "bbr"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["condition"] == {
        "algorithm": "bbr", "rate_mbit": 10.0, "queue": "bfifo", "buffer_packets": 43,
        "shaper": "tbf",
    }  # fmt: skip
    assert cli.main(["path", "from-tc", str(file), "--yaml"]) == 0
    assert "blocks:\n  from-tc:\n    algorithm: cubic\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ip link set eth0 up\n", "must set a qdisc"),
        ("tc qdisc add dev eth0 root 'x\n", "a qdisc"),
        ("tc qdisc add root netem delay 1ms\n", "tc needs an interface"),
        ("tc filter add dev eth0 parent 1: u32 match u32 0 0 action mirred egress redirect dev\n",
         "must set a qdisc"),
    ],
)  # fmt: skip
def test_text_without_tc_is_refused(text, message, tmp_path, capsys):
    file = tmp_path / "path.sh"
    file.write_text(text)
    assert cli.main(["path", "from-tc", str(file)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--var", "RTTMS=10"], "a variable in the lines, found RTTMS=10"),
        (["--var", "RTT_MS"], "a variable in the lines, found RTT_MS"),
        (["--forward", "eth0", "--sender", "eth0"], "its own interface, found eth0 for two"),
    ],
)
def test_option_that_fits_no_line_is_refused(words, said, tmp_path, capsys):
    (tmp_path / "path.sh").write_text("tc qdisc add dev eth0 root netem delay ${RTT_MS}ms\n")
    assert cli.main(["path", "from-tc", str(tmp_path / "path.sh"), *words]) == 2
    assert said in capsys.readouterr().err


def test_script_names_what_it_cannot_carry(capsys):
    changes = ["--changes", "at_s=4,rate_mbit=5"]
    assert cli.main(["path", "to-tc", "--rate-mbit", "20", "--rtt-ms", "40", *changes]) == 1
    out = capsys.readouterr().out
    assert "# Not carried: changes=at_s=4,rate_mbit=5." in out
    assert 'tc qdisc add dev "$FORWARD" parent 100:1 handle 1: tbf rate 20000000bit' in out
    assert "seed" not in re.sub(r"(?m)^#.*", "", out)


def test_script_of_a_run_has_its_path(unpacked, capsys):
    run = min(unpacked.rglob("manifest.json")).parent
    condition = Condition.from_json(json.loads((run / "manifest.json").read_text())["cell"])
    cli.main(["path", "to-tc", str(run)])
    assert capsys.readouterr().out == to_tc.script(condition) + "\n"


NETEM20 = "tc qdisc add dev eth0 root netem delay 20ms limit {}\n"
UNKNOWN = {
    "a limit of netem": (NETEM20.format("$LIMIT"), {"buffer_packets"}),
    "a product in Python": (
        "net.addLink(h1, h2, bw=10, delay='20ms', max_queue_size=2 * 25)",
        {"buffer_packets", "reverse_buffer_packets"},
    ),
    "a rate, and so the size of a latency": (
        "tc qdisc add dev eth0 root tbf rate ${R}mbit burst 3028 latency 300ms",
        {"rate_mbit", "buffer_packets"},
    ),
    "a delay, and so the packets in it": (
        "tc qdisc add dev eth0 root netem delay ${D}ms rate 10mbit limit 50",
        {"rtt_ms", "buffer_packets"},
    ),
    "one of two delays": (
        NETEM20.format(99999) + "tc qdisc add dev eth1 root netem delay ${D}ms", {"rtt_ms"}
    ),
    "a loss": ("tc qdisc add dev eth0 root netem loss ${L}%", {"loss_percent"}),
    "an option of a function": (
        "tc qdisc add dev eth0 root handle 1: tbf rate 9mbit burst 3028 limit 9000\n"
        "tc qdisc add dev eth0 parent 1:1 codel limit $2", {"buffer_packets"},
    ),
    "an attribute": (
        "net.addLink(h1, h2, bw=args.bw, delay='5ms')",
        {"rate_mbit", "reverse_rate_mbit", "buffer_packets", "reverse_buffer_packets"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("subject", UNKNOWN)
def test_w4_value_that_cannot_be_read_is_unknown_and_no_default(subject, tmp_path, capsys):
    text, expected = UNKNOWN[subject]
    reading = found(text)
    assert reading.unknown.keys() == expected
    assert not expected & reading.values.keys()
    assert reading.left
    (tmp_path / "path").write_text(text)
    assert cli.main(["path", "from-tc", str(tmp_path / "path")]) == 1
    command = capsys.readouterr().out.splitlines()[-1]
    assert all(f"--{axis.replace('_', '-')} '?'" in command for axis in expected)
    assert cli.main(["path", "from-tc", str(tmp_path / "path"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["unknown"].keys() == expected


SERIES = """
class Path(Topo):
    def build(self):
        h1, h2 = self.addHost("h1"), self.addHost("h2")
        s0, s1 = self.addSwitch("s0"), self.addSwitch("s1")
        self.addLink(h1, s0, bw=1000, delay="5ms", loss={})
        self.addLink(s0, s1)
        self.addLink(s1, h2, bw=1.5, delay="7ms", max_queue_size=20, loss={})
"""


def test_w5_links_in_series_are_one_path():
    values = axes(found(SERIES.format(0, 0)).condition)
    assert (values["rate_mbit"], values["rtt_ms"]) == (1.5, 24)
    values = axes(found(SERIES.format(10, 10)).condition)
    assert values["loss_percent"] == pytest.approx(19)
    alone = SERIES.replace(", loss={}", "")
    values = axes(found(alone).condition)
    assert (values["buffer_packets"], values["shaper"]) == (20, "htb-netem")


def test_w5_hosts_whose_paths_differ_are_a_question():
    program = SERIES.format(0, 0) + "        self.addLink(self.addHost('h3'), s1, bw=7)\n"
    program = program.replace("self.addHost('h3')", "h3").replace(
        'h1, h2 = self.addHost("h1")',
        'h3 = self.addHost("h3")\n        h1, h2 = self.addHost("h1")',
    )
    with pytest.raises(UsageError, match="a path has two hosts, found 3"):
        found(program)
    assert found(program, between="h3,h2").values["rate_mbit"] == 1.5
    assert found(program, between="h1,h3").values["rate_mbit"] == 7
    with pytest.raises(UsageError, match="--between must be two of"):
        found(program, between="h1,h9")


def test_w6_links_in_a_loop_are_left_out():
    reading = found("net.addLink(a, b, bw=3)\nfor h in hosts:\n    net.addLink(h, s1, bw=9)")
    assert ("net.addLink(h, s1, bw=9)", tclines.LOOPED) in reading.left


CLASSES = """
tc qdisc add dev up root handle 1: htb default 1
tc class add dev up parent 1: classid 1:1 htb rate 1gbit
tc class add dev up parent 1: classid 1:10 htb rate 10mbit
"""


def test_w7_two_classes_are_a_question():
    with pytest.raises(UsageError, match="found 2: 1:1: htb rate 1gbit; 1:10: htb rate 10mbit"):
        found(CLASSES)
    assert found(CLASSES, **{"class": "1:10"}).values["rate_mbit"] == 10
    assert found(CLASSES, **{"class": "1:1"}).values["rate_mbit"] == 1000
    with pytest.raises(UsageError, match="--class must be one of 1:1, 1:10"):
        found(CLASSES, **{"class": "1:7"})


def test_w7_more_than_two_interfaces_are_a_question():
    line = (
        "ip netns exec {0} tc qdisc add dev {1} root netem delay 100ms rate {2}mbit limit 20000\n"
    )
    places = [
        ("middle", "v0", 500),
        ("middle", "v1", 75),
        ("client", "v0", 50),
        ("client", "v1", 25),
    ]
    lines = "".join(line.format(*place) for place in places)
    with pytest.raises(UsageError, match="a path has two interfaces, found 4"):
        found(lines)
    with pytest.raises(UsageError, match="--forward must be one of middle:v0, client:v0"):
        found(lines, forward="v0")
    reading = found(lines, forward="middle:v0", reverse="client:v0")
    values = reading.values
    assert (values["rtt_ms"], values["rate_mbit"], values["reverse_rate_mbit"]) == (200, 500, 50)
    chain = found(lines, forward="middle:v0,client:v1", reverse="client:v0,middle:v1")
    assert (chain.values["rtt_ms"], chain.values["rate_mbit"]) == (400, 25)
    assert any("data leaves by eth1" in trap for trap in found(PAIR.format("2%")).traps)


def test_w8_handle_is_not_used_twice():
    reading = found(
        "tc qdisc add dev veth0 root handle 2: netem delay 100ms limit 99999\n"
        "tc qdisc add dev veth0 parent 2: handle 2: tbf rate 1mbit burst 15400 latency 300ms"
    )
    assert axes(reading.condition) == {"rtt_ms": 100.0}
    assert any("second qdisc with the handle 2:" in why for _, why in reading.left)


def test_class_without_a_parent_does_not_borrow():
    """Measured in a guest: 0.18 Mbit/s with a rate of 200 kbit and a ceiling of 950."""
    lines = "tc qdisc add dev eth0 root handle 1: htb default 10\n"
    lines += "tc class add dev eth0 parent {} classid 1:10 htb rate 200kbit ceil 950kbit\n"
    assert found(lines.format("1:")).values["rate_mbit"] == 0.2
    root = "tc class add dev eth0 parent 1: classid 1:1 htb rate 2mbit\n"
    first, second = lines.format("1:1").splitlines()
    assert found(f"{first}\n{root}{second}").values["rate_mbit"] == 0.95
    # As in a guest: `tc class show` has "class htb 1:10 root".
    alone = found(lines.format("1:1"))
    assert alone.values["rate_mbit"] == 0.2
    assert any("1:1 does not exist" in trap for trap in alone.traps)


@pytest.mark.parametrize(
    ("words", "mbit"),
    [("$((20*${UP}/100))", 0.2), ("$(( UP / 4 + 1 ))", 0.251), ("$((UP))", 1),
     ("$((UP*(2+1)))", None), ("$(($DOWN*2))", None), ("$((UP/0))", None)],
)  # fmt: skip
def test_arithmetic_of_a_shell_is_calculated_or_unknown(words, mbit):
    reading = found(f"UP=1000\ntc qdisc add dev eth0 root netem rate {words}kbit limit 9")
    assert reading.values.get("rate_mbit") == mbit
    assert ("rate_mbit" in reading.unknown) == (mbit is None)


def test_link_of_mininet_with_a_loss_of_0_has_none():
    program = "self.addLink(h1, h2, bw=10, delay='5ms'{})"
    assert found(program.format(", loss=0")).values == found(program.format("")).values


def test_equally_short_ways_with_different_settings_are_a_question():
    links = [("h1", "r1", 10), ("h1", "r2", 20), ("r1", "h2", 10), ("r2", "h2", 20)]
    program = "h1, h2 = net.addHost('h1'), net.addHost('h2')\n" + "".join(
        f"net.addLink({a}, {b}, bw=10, delay='{ms}ms')\n" for a, b, ms in links
    )
    with pytest.raises(
        UsageError, match="found 2 with different settings: h1-r1,r1-h2; h1-r2"
    ) as e:
        found(program)
    assert "--forward h1-r1,r1-h2 --reverse h2-r1,r1-h1" in str(e.value.hint)
    assert found(program, forward="h1-r2,r2-h2", reverse="h2-r2,r2-h1").values["rtt_ms"] == 80
    assert found(program.replace("20ms", "10ms")).values["rtt_ms"] == 40


def test_filter_of_all_packets_into_another_class_is_left_out():
    lines = (
        "tc qdisc add dev eth0 root handle 1: prio\n"
        "tc qdisc add dev eth0 parent 1:1 handle 10: netem delay 9ms limit 99999\n"
        "tc qdisc add dev eth0 parent 1:2 handle 20: sfq\n"
        "tc filter add dev eth0 parent 1: prio 2 u32 match ip dst 0.0.0.0/0 flowid {}\n"
    )
    assert any("flowid 1:2" in words for words, _ in found(lines.format("1:2")).left)
    assert not any("flowid" in words for words, _ in found(lines.format("1:1")).left)


NETEM7 = "tc qdisc add dev eth0 root netem delay 7ms limit 99999"
FORMS = {
    "services of Compose": (
        f"services:\n  a:\n    command: sh -c \"{NETEM7} && x\"\n  b:\n"
        f"    command: {json.dumps(NETEM7.split())}\n", {"rtt_ms": 14.0},
    ),
    "items of a list": (
        "command:\n  - tc\n  - qdisc\n  - add\n  - dev\n  - eth0\n  - root\n  - netem\n"
        "  - delay\n  - 7ms\n  - limit\n  - '99999'\n", {"rtt_ms": 7.0},
    ),
    "ssh": (
        "ssh -p 22 user@a 'tc qdisc add dev eth0 root netem delay 7ms limit 99999'\n"
        "ssh user@b tc qdisc add dev eth0 root netem delay 7ms limit 99999", {"rtt_ms": 14.0},
    ),
    "what tc shows": (
        "qdisc tbf 1: dev eth1 root refcnt 2 rate 20Mbit burst 3028b lat 50ms\n"
        " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)\n"
        "qdisc netem 10: dev eth1 parent 1:1 limit 1000 delay 40ms seed 7\n"
        "qdisc noqueue 0: dev lo root refcnt 2\n",
        {"rtt_ms": 40.0, "rate_mbit": 20.0, "buffer_packets": 933, "shaper": "tbf"},
    ),
    "tcset": (
        "tcset eth0 --rate 100Mbps --delay 20ms --loss 0.1%",
        {"rtt_ms": 20.0, "rate_mbit": 100.0, "loss_percent": 0.1, "buffer_packets": 834,
         "shaper": "tbf"},
    ),
    "pumba": (
        "pumba netem --duration 5m --interface eth1 delay --time 500 --jitter 50 server",
        {"rtt_ms": 450.0, "jitter_ms": 100.0, "jitter_order": "mixed",
         "jitter_correlation_percent": 20.0},
    ),
    "pumba's loss": ("docker run gaiaadm/pumba netem loss --percent 3 db", {"loss_percent": 3.0}),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_r_path_has_many_forms(form):
    text, expected = FORMS[form]
    assert axes(found(text).condition) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mm-delay 20 mm-link --uplink-queue=droptail --uplink-queue-args=\"packets=100\" up down",
         "--rtt-ms 40 --trace up --trace-back down --buffer-packets 100"),
        ("mm-loss downlink 0.02 mm-delay 5 x",
         "--rtt-ms 10 --loss-percent 2 --loss-direction back"),
        ('[{"name": "db", "listen": "127.0.0.1:6000", "upstream": "127.0.0.1:5432"}]',
         "--rtt-ms, and --rate-mbit"),
    ],
)  # fmt: skip
def test_r_refusal_says_what_the_file_is_and_what_to_do(text, said, tmp_path, capsys):
    (tmp_path / "path").write_text(text)
    assert cli.main(["path", "from-tc", str(tmp_path / "path")]) == 2
    assert said in capsys.readouterr().err


def test_printed_command_is_none_and_deletion_is_mentioned():
    printed = 'echo "tc qdisc add dev eth0 root netem delay 9ms"'
    with pytest.raises(UsageError, match="must set a qdisc"):
        found(printed)
    reading = found(f"{printed}\n{NETEM20.format(99999)}tc qdisc del dev eth0 root")
    assert reading.values["rtt_ms"] == 20
    assert any("prints this and does not run it" in trap for trap in reading.traps)
    assert any("deletes root of eth0 later" in trap for trap in reading.traps)


@pytest.mark.parametrize(
    ("program", "words", "host", "command"),
    [
        ("docker", "exec -it -u root a tc qdisc", "a", "tc qdisc"),
        ("docker", "compose exec a tc qdisc", "a", "tc qdisc"),
        ("docker", "run -d image", "", ""),
        ("ssh", "-p 22 me@box tc qdisc", "box", "tc qdisc"),
        ("kubectl", "exec pod -c one -- tc qdisc", "pod", "tc qdisc"),
        ("nsenter", "-t 7 -n tc qdisc", "", "tc qdisc"),
    ],
)
def test_recorder_finds_the_command_inside_another(program, words, host, command):
    assert inguest._inside(program, words.split()) == (host, command.split())
