"""The judge of random conditions: bounds of physics, on made-up runs."""

import ast
import json

import pytest

from bench.random import draw, judge, physics, recompute
from bench.random.judge import Finished, known
from losslab.study.condition import Condition

FLOWS = "cubic,size_kb=2.5,arrivals_per_s=1"


@pytest.fixture
def run(tmp_path):
    """Return a function that makes a run of 2 Mbit/s and 20 ms with a summary and tables."""

    def make(summary=(), shaper="tbf", tables=(), burst=3028, **asked):
        asked = Condition(
            algorithm="cubic", rate_mbit=2.0, rtt_ms=20.0, duration_s=2.0, warmup_s=0.0, **asked
        ).to_json()
        qdiscs = [{"dev": "r1-r2", "root": True, "kind": "tbf", "options": {"burst": burst}}]
        state = {"r1": {"qdiscs": qdiscs, "classes": {}, "links": {}, "counters": {}}}
        content = {"summary": dict(summary), "observed": {"state": state}, "valid": True}
        (tmp_path / "manifest.json").write_text(json.dumps(content))
        samples = "\n".join(f"{t / 10},40001,10,20.0,0,{t}" for t in range(21))
        head = "t_s,flow,cwnd_packets,srtt_ms,retransmits,delivered_bytes\n"
        for name, text in {"tcp.csv": head + samples, **dict(tables)}.items():
            (tmp_path / name).write_text(text)
        # The shaper is what a later version may have.
        return Finished(asked | {"shaper": shaper}, 1, tmp_path, 0)

    return make


def told(run, invariant):
    return " ".join(invariant(run))


@pytest.mark.parametrize("name", ["goodput", "received", "competitor_received", "flows_goodput"])
def test_no_rate_is_above_the_links(run, name):
    """W1 and W2: rates of up to eight times the link's were accepted as valid."""
    assert told(run({f"{name}_mbit": 1.9}), physics.rates_are_below_the_links) == ""
    said = told(run({f"{name}_mbit": 2.1}), physics.rates_are_below_the_links)
    assert said.startswith(f"{name}_mbit must be at most ")
    assert known(said) == ""


def test_datagrams_that_arrive_after_the_end_are_no_rate(run):
    told_ = told(
        run({"received_mbit": 3.8, "goodput_mbit": 1.9}, app="datagram", scheme="fixed,window=9"),
        physics.rates_are_below_the_links,
    )
    assert told_.startswith("received_mbit must be at most")


def test_a_token_bucket_is_granted_its_bucket_and_a_link_nothing(run):
    """4000 bytes are three segments of 4198 bytes on the link, which take 16.8 ms at 2 Mbit/s."""
    fast, slow = ({"completion_s": s, "first_byte_s": 0.0361} for s in (0.0402, 0.0468))
    flow = {"app": "stream", "size_kb": 4.0}
    check = physics.transfers_need_their_time
    assert told(run(fast, **flow), check) == ""
    assert told(run(slow, shaper="link", **flow), check) == ""
    assert "completion_s must be at least 0.0467" in told(run(fast, shaper="link", **flow), check)
    # The bucket is the one that tc shows.
    assert "completion_s must be" in told(run(fast, burst=10, **flow), check)
    first = {"completion_s": 0.0468, "first_byte_s": 0.0301}
    assert "first_byte_s must be" in told(run(first, shaper="link", **flow), check)


def test_a_page_needs_two_round_trips_and_its_bytes(run):
    page = {"web-client.log": json.dumps({"size_download": 25_000})}
    times = {"connect_s": 0.0201, "first_byte_s": 0.0402, "download_s": 0.1}
    said = told(run(times, app="web", tables=page), physics.transfers_need_their_time)
    assert said.startswith("download_s must be at least 0.13")


def requests(*response_ms):
    head = "number,sent_s,first_byte_ms,response_ms,bytes\n"
    return {"requests.csv": head + "".join(f"1,0.5,{ms},{ms},2800\n" for ms in response_ms)}


def test_a_response_needs_a_round_trip_and_its_transmission(run):
    check = physics.responses_need_their_time
    flow = {"app": "stream", "response_kb": 2.8}
    assert told(run(shaper="link", tables=requests(32), **flow), check) == ""
    assert "response_ms must be" in told(run(shaper="link", tables=requests(30), **flow), check)
    assert "response_ms must be" in told(run(tables=requests(19), **flow), check)


@pytest.mark.parametrize(("median", "right"), [(44.9, False), (45, True), (50, True), (57, False)])
def test_a_median_is_between_its_neighbours(run, median, right):
    flow = {"app": "stream", "response_kb": 2.8, "tables": requests(45, 90, 56, 40)}
    said = told(run({"response_median_ms": median}, **flow), physics.responses_need_their_time)
    assert (said == "") == right


@pytest.mark.parametrize(
    ("fct_s", "shaper", "words"),
    [(0.0411, "link", ""), (0.03, "tbf", ""), (0.03, "link", "of 2500 bytes"),
     (0.029, "tbf", "of 2500 bytes")],
)  # fmt: skip
def test_a_background_flow_needs_its_time(run, fct_s, shaper, words):
    row = f"1-1,cubic,10001,20,0.5,0.6,2500,finished,,2500,0,{fct_s}\n"
    head = "name,algorithm,source_port,rtt_ms,start_s,end_s,size_bytes,how,goodput_mbit,"
    table = {"flows.csv": f"{head}received_bytes,retransmits,fct_s\n{row}"}
    made = run({"fct_median_s": fct_s}, shaper=shaper, flows=FLOWS, tables=table)
    assert words in told(made, physics.short_flows_need_their_time)
    assert bool(words) == bool(told(made, physics.short_flows_need_their_time))
    made = run({"fct_median_s": 0.05}, flows=FLOWS, tables=table)
    assert "fct_median_s must be from" in told(made, physics.short_flows_need_their_time)


@pytest.mark.parametrize(("rtt_ms", "right"), [(19, False), (20, True), (1e9, False)])
def test_round_trips_are_between_the_base_and_the_length_of_the_run(run, rtt_ms, right):
    """W5: RTTs had only a lower bound."""
    ping = {"ping.csv": f"t_s,rtt_ms\n0.1,{rtt_ms}\n"}
    assert (told(run(tables=ping), physics.round_trips_are_possible) == "") == right
    made = run({"rtt_loaded_ms": rtt_ms})
    assert right or rtt_ms == 19 or told(made, physics.round_trips_are_possible)


@pytest.mark.parametrize(("packets", "right"), [(11, True), (12, False)])
def test_the_queue_fits_its_buffer(run, packets, right):
    """W6: a program can change a setting, and restore it."""
    rows = f"t_s,backlog_packets,backlog_bytes,drops\n0.1,{packets},1,0\n"
    made = run(buffer_packets=10, tables={"queue.csv": rows})
    assert (told(made, physics.queue_fits_its_buffer) == "") == right


def test_totals_are_sums(run):
    parts = {"goodput_mbit": 1.0, "flows_goodput_mbit": 0.5}
    assert told(run(parts | {"total_goodput_mbit": 1.5}), physics.sums_equal_totals) == ""
    said = told(run(parts | {"total_goodput_mbit": 1.6}), physics.sums_equal_totals)
    assert said.startswith("total_goodput_mbit must be 1.5")


def test_the_judge_shares_nothing_with_the_product():
    for module in (judge, physics, recompute):
        with open(module.__file__) as file:
            tree = ast.parse(file.read())
        names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
        assert not [name for name in names if name.startswith("losslab")], module


def test_drawn_command_names_its_length_also_if_it_is_the_default():
    """For BBR, `losslab measure` chooses another one without it."""
    words = draw.words(Condition("bbr"))
    assert words[words.index("--duration-s") + 1] == "10.0"
    assert words[words.index("--warmup-s") + 1] == "1.0"
