"""The judge of random runs sees a forged run for each of its invariants."""

import hashlib
import json
import random
from collections import Counter

import pytest

from bench.random import __main__ as campaign
from bench.random import draw
from bench.random.judge import OF_ANY, OF_RESULTS, Finished, log_tail, same_bytes
from bench.random.recompute import RECOMPUTED
from losslab.study.condition import Condition

# A flow of 10 Mbit/s on a link of 20: a segment of 1448 bytes per 1.1584 ms, a sample per 20 ms.
BASICS = {"algorithm": "cubic", "rate_mbit": 20.0, "rtt_ms": 20.0, "buffer_packets": 50}
STEP_S, STEP_BYTES = 0.02, 25_000
TCP = (
    "t_s,flow,cwnd_packets,ssthresh_packets,srtt_ms,rttvar_ms,pacing_mbit,delivery_mbit,"
    "retransmits,delivered_bytes"
)
QUEUE = "t_s,backlog_packets,backlog_bytes,drops"
TIMES = [n * STEP_S for n in range(101)]
ROWS = [(t, 40001, 40, "", 25.0, 1, 0, 0, 0, n * STEP_BYTES) for n, t in enumerate(TIMES)]


def table(columns, rows):
    return "\n".join([columns, *(",".join(map(str, row)) for row in rows)]) + "\n"


@pytest.fixture
def forged(tmp_path):
    """Return a function that writes a consistent run, changed by its arguments, as `Finished`."""

    def make(asked=None, summary=None, files=None, edit=lambda manifest: None, **more):
        condition = Condition(**BASICS | {"duration_s": 2.0, "warmup_s": 0.5} | (asked or {}))
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        packets = 100 * STEP_BYTES // 1448
        texts = {
            "tcp.csv": table(TCP, ROWS),
            "queue.csv": table(QUEUE, [(t, 4, 6056, 0) for t in TIMES]),
            "ping_idle.csv": table("t_s,rtt_ms", [(n / 50, 20.0) for n in range(20)]),
            "ping.csv": table("t_s,rtt_ms", [(n / 10, 24.0) for n in range(20)]),
            "intervals.csv": table("t_s,goodput_mbit", [((n + 1) / 10, 10.0) for n in range(20)]),
        } | (files or {})
        link = {"packets": packets + 40, "bytes": packets * 1514 + 40 * 98}
        both = {"rx": dict(link), "tx": dict(link)}
        none = {way: {"packets": 0, "bytes": 0} for way in ("rx", "tx")}
        names = {
            "sender": ["sender-r1"], "r1": ["r1-sender", "r1-r2"],
            "r2": ["r2-receiver", "r2-r1"], "receiver": ["receiver-r2"],
        }  # fmt: skip
        state = {
            host: {
                "links": {name: json.loads(json.dumps(both)) for name in links},
                "qdiscs": [{"dev": n, "root": True, "drops": 0, "qlen": 0} for n in links],
                "counters": {"IcmpInEchos": 40, "TcpRetransSegs": 0},
            }
            for host, links in names.items()
        }
        state["receiver"]["links"]["receiver-r3"] = none
        manifest = {
            "cell": condition.to_json(), "seed": 7, "valid": True, "reasons": [],
            "summary": {
                "goodput_mbit": 10.0, "total_goodput_mbit": 10.0, "retransmits": 0,
                "bytes_received": 100 * STEP_BYTES, "rtt_ms": 20.0, "rtt_loaded_ms": 24.0,
                "srtt_mean_ms": 25.0, "cwnd_median_packets": 40, "queue_mean_packets": 4.0,
                "queue_max_packets": 4, "bottleneck_drops": 0, "loss_packets": 0,
            } | (summary or {}),
            "observed": {
                "state": state,
                "flows": [{"name": "iperf3", "wanted": "cubic", "found": ["cubic"]}],
            },
        }  # fmt: skip
        edit(manifest)
        for name, text in texts.items():
            (folder / name).write_text(text)
        digests = {n: hashlib.sha256(t.encode()).hexdigest() for n, t in texts.items()}
        (folder / "manifest.json").write_text(json.dumps({"files": digests} | manifest))
        return Finished(condition.to_json(), 7, folder, **{"status": 0} | more)

    return make


def seen(run):
    return {name for name, _ in campaign.violations(run)}


def test_a_consistent_run_violates_nothing(forged):
    assert list(campaign.violations(forged())) == []


def of(host, link, way, key, value):
    def edit(manifest):
        manifest["observed"]["state"][host]["links"][link][way][key] = value

    return edit


def root_drops(host, device, count):
    def edit(manifest):
        for qdisc in manifest["observed"]["state"][host]["qdiscs"]:
            if qdisc["dev"] == device:
                qdisc["drops"] = count

    return edit


def lost(manifest):
    """Lose a tenth of the packets behind the bottleneck."""
    root_drops("r2", "r2-receiver", 172)(manifest)
    for host, link, way in (("r2", "r2-receiver", "tx"), ("receiver", "receiver-r2", "rx")):
        manifest["observed"]["state"][host]["links"][link][way]["packets"] -= 172
    manifest["summary"]["loss_packets"] = 172


def set_in(part, key, value):
    return lambda manifest: manifest[part].__setitem__(key, value)


def other_algorithm(manifest):
    manifest["observed"]["flows"][0]["found"] = ["bbr"]


FLOW_ROW = "1-1,cubic,10001,20,0.5,1.0,25000,finished,,25000,0,0.5"
FLOWS = {
    "flows.csv": "name,algorithm,source_port,rtt_ms,start_s,end_s,size_bytes,how,goodput_mbit,"
    f"received_bytes,retransmits,fct_s\n{FLOW_ROW}\n"
}
COMMAND = {
    "app": "command", "receiver_command": "nc", "sender_command": "head -c 1000000 /dev/zero | nc",
}  # fmt: skip
# 17 segments per sample.
ARRIVALS = {
    "arrivals.csv": table(
        "t_s,packets,ip_bytes", [(t, n * 17, n * 17 * 1500) for n, t in enumerate(TIMES)]
    )
}
DATAGRAM = {"app": "datagram", "scheme": "fixed"}
LOGS = {"sender.log": '{"sent": 1400}', "receiver.log": '{"received": 1300}'}
COUNTS = {"datagrams_sent": 1400, "datagrams_received": 1300, "received_mbit": 7.65}
FRAME = "22193856768 0,   0,   0,  3000,  11579, 0x2eb0440e"
VIDEO = {"app": "ffmpeg", "duration_s": 2.0}
WEB = {"app": "web", "duration_s": 26.0}
PAGE = {"web-client.log": '{"time_total": 1.0}'}
PAGED = {"download_s": 1.0, "connect_s": 0.02, "first_byte_s": 0.04}
SEEN = {
    "frames_delivered_percent": 100 / 60, "frames_on_time_percent": 100 / 60,
    "throughput_mbit": 11_579 * 8 / 1e6, "completion_s": 1.0, "time_to_first_frame_s": 1.0,
}  # fmt: skip
DONE = {
    "goodput_mbit": 17 * 1448 * 50 * 8 / 1e6, "throughput_mbit": 17 * 1500 * 50 * 8 / 1e6,
    "ended_s": 1.0, "bytes_received": 1_000_000,
}  # fmt: skip
# By invariant: a run that holds it, and the changes that violate it.
FORGERIES = {
    "no_traceback": ({}, {"stderr": "Traceback (most recent call last)\nKeyError: 'a'"}),
    "status_is_verdict": ({}, {"status": 1}),
    "manifest_is_of_what_was_asked": ({}, {"edit": set_in("cell", "rtt_ms", 20.000001)}),
    "metrics_are_in_range": ({}, {"summary": {"jain_index": 0.0}}),
    "goodput_is_below_capacity": ({}, {"asked": {"rate_mbit": 9.0}}),
    "payload_is_that_of_the_link": ({}, {"summary": {"bytes_received": 200 * STEP_BYTES}}),
    "packets_are_conserved": ({}, {"edit": of("r1", "r1-sender", "rx", "packets", 1)}),
    "losses_are_as_likely": ({"asked": {"loss_percent": 10.0}, "edit": lost},
                             {"asked": {"loss_percent": 1.0}}),
    "no_rtt_is_below_the_base": ({}, {"asked": {"rtt_ms": 20.5}}),
    "queue_fits_its_buffer": ({}, {"asked": {"buffer_packets": 2}}),
    "samples_are_in_order": ({}, {"files": {"tcp.csv": table(TCP, ROWS[::-1])}}),
    "flow_lasts_until_the_end": ({}, {"files": {"tcp.csv": table(TCP, ROWS[:80])}}),
    "algorithm_is_the_asked_one": ({}, {"edit": other_algorithm}),
    "rates_of_tcp": ({}, {"summary": {"goodput_mbit": 10.3}}),
    "rates_of_background_flows": (
        {"asked": {"flows": "cubic,size_kb=25"}, "files": FLOWS,
         "summary": {"flows_goodput_mbit": 25_000 * 8 / 1e6 / 1.5}},
        {"summary": {"flows_goodput_mbit": 1.3}},
    ),
    "round_trips": ({}, {"summary": {"rtt_loaded_ms": 23.9}}),
    "queue": ({}, {"summary": {"queue_mean_packets": 3.9}}),
    "retransmissions": ({}, {"summary": {"retransmits": 1}}),
    "intervals": ({}, {"summary": {"goodput_mbit": 5.0}}),
    "datagrams": ({"asked": DATAGRAM, "files": LOGS, "summary": COUNTS},
                  {"summary": {"goodput_mbit": 11.7}}),
    "video": ({"asked": VIDEO, "files": {"receiver.log": f"{FRAME}\n"}, "summary": SEEN},
              {"summary": {"throughput_mbit": 0.1}}),
    "page": ({"asked": WEB, "files": PAGE, "summary": PAGED}, {"summary": {"download_s": 0.9}}),
    "metrics_agree": ({}, {"summary": {"rtt_ms": 24.5}}),
    "programs": ({"asked": COMMAND, "files": ARRIVALS, "summary": DONE},
                 {"summary": {"bytes_received": 980_000}}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_only_the_forged_run_violates_the_invariant(forged, name):
    clean, change = FORGERIES[name]
    assert name not in seen(forged(**clean))
    both = clean.keys() & change.keys()
    assert name in seen(forged(**clean | change | {key: clean[key] | change[key] for key in both}))


def test_every_invariant_has_a_forgery():
    assert {each.__name__ for each in (*OF_ANY, *OF_RESULTS, *RECOMPUTED)} == set(FORGERIES)


def test_every_metric_ten_times_too_large_is_seen(forged, tmp_path):
    clean = forged()
    manifest = json.loads((clean.folder / "manifest.json").read_text())
    for name, value in manifest["summary"].items():
        if value:
            text = json.dumps(manifest | {"summary": manifest["summary"] | {name: 10 * value}})
            (clean.folder / "manifest.json").write_text(text)
            assert seen(Finished(clean.asked, 7, clean.folder, 0)), name


def test_other_bytes_of_the_same_seed_are_seen(tmp_path):
    for name, text in (("one", "1\n"), ("other", "2\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tcp.csv").write_text(text)
        (tmp_path / name / "host.json").write_text(name)
    assert list(same_bytes(tmp_path / "one", tmp_path / "one")) == []
    assert len(list(same_bytes(tmp_path / "one", tmp_path / "other"))) == 1


def test_bound_of_the_binomial_tail_is_above_the_tail():
    # P(X >= 20) of 100 trials at 10 % is 0.00198, by the binomial distribution.
    assert -12 < log_tail(20, 100, 0.1) < 0
    assert log_tail(10, 100, 0.1) == 0
    assert log_tail(1, 100, 0.0) < -1e9


def test_drawn_conditions_are_accepted_and_repeatable():
    drawn = []
    for _ in range(2):
        rng, refused = random.Random(3), Counter()
        drawn.append([draw.condition(rng, refused) for _ in range(40)])
    assert drawn[0] == drawn[1]
    assert [its.problems() for its in drawn[0]] == [[]] * 40
    apps = {its.app for its in drawn[0]}
    assert {"iperf3", "command", "datagram"} <= apps


def test_a_campaign_fails_by_a_violation_and_by_many_invalid_runs():
    totals = campaign.Totals()
    totals.verdicts.update(valid=94, invalid=5, refused=1)
    assert not totals.failed
    totals.verdicts.update(invalid=2)
    assert totals.failed
    assert campaign.Totals(violated=Counter(queue=1)).failed
