"""Settings of the hosts: the axis `sysctl`, and what is refused before anything runs."""

import argparse
import dataclasses
import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from losslab import cellspec, cli, sweeps
from losslab.emulation import hosts
from losslab.emulation.app import apps
from losslab.emulation.plan import make_plan
from losslab.study import dictionary, hostsettings, studyfiles
from losslab.study.condition import Condition, seed_of
from tests.unit.emulation.test_plan import read_back
from tests.unit.study.test_condition import CONDITION

LOWAT = "sender:net.ipv4.tcp_notsent_lowat=131072"
SACK = "net.ipv4.tcp_sack=0"
WMEM = "both:net.ipv4.tcp_wmem=4096 131072 6291456"
NAME = st.from_regex(r"net\.ipv4\.tcp_x[a-z0-9_]{0,8}", fullmatch=True)
WORD = st.from_regex(r"[1-9][0-9]{0,8}|0|-1|kernel|[0-9a-f]{8}-[0-9a-f]{8}", fullmatch=True)
VALUE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
SETTINGS = st.dictionaries(NAME, VALUE, max_size=3)


@given(SETTINGS, SETTINGS)
def test_text_of_settings_is_read_back_set_and_compared(sender, receiver):
    text = hostsettings.to_text({"sender": sender, "receiver": receiver})
    assert hostsettings.parse(text) == {"sender": sender, "receiver": receiver}
    condition = dataclasses.replace(CONDITION, sysctl=text)
    assert condition.problems() == []
    assert condition == Condition.from_json(condition.to_json())
    plan = make_plan(condition, 7).hosts
    for host, its in (("sender", sender), ("receiver", receiver)):
        assert plan[host].sysctls.items() >= {n: v for n, v in its.items() if v != "kernel"}.items()
        assert {*plan[host].kernels_sysctls} == {n for n, v in its.items() if v == "kernel"}
    assert hosts.deviations(plan, read_back(make_plan(condition, 7))) == []


@given(st.text(max_size=30), st.sampled_from(sorted(apps())))
@example(f"+{LOWAT}", "quic")
def test_any_other_text_is_refused_without_a_traceback(text, app):
    for value in (text, f"sender:{text}", f"both:net.ipv4.{text}=1", f"{LOWAT}{text}"):
        condition = dataclasses.replace(CONDITION, sysctl=value, app=app)
        assert all(isinstance(each, str) for each in condition.problems())


@pytest.mark.parametrize(
    "text",
    [
        f"sender:{SACK}+receiver:{SACK}", f"receiver:{SACK}+sender:{SACK}",
        " both : net.ipv4.tcp_sack = 0 ".replace(" = ", "="),
    ],
)  # fmt: skip
def test_texts_that_mean_the_same_are_one_condition(text):
    one = dataclasses.replace(CONDITION, sysctl=f"both:{SACK}")
    assert dataclasses.replace(CONDITION, sysctl=text) == one
    study = studyfiles.block_grid({"defaults": {}}, {"algorithm": "cubic", "sysctl": text})
    assert [point["sysctl"] for point in study] == [one.sysctl]
    assert studyfiles.matches({"sysctl": one.sysctl}, {"sysctl": [text]})
    assert seed_of(one, 1) == seed_of(CONDITION, 1)
    assert one.slug() != CONDITION.slug()


def test_kernels_own_defaults_are_recorded_and_may_be_set():
    own = dataclasses.replace(CONDITION, receive_buffer="kernel", ecn="kernel")
    plan = make_plan(own, 7).hosts["receiver"]
    assert {*plan.kernels_sysctls} == {"net.ipv4.tcp_ecn", "net.ipv4.tcp_rmem"}
    assert not {*plan.kernels_sysctls} & {*plan.sysctls}
    more = "receiver:net.ipv4.tcp_rmem=4096 131072 33554432+both:net.ipv4.tcp_ecn=1"
    mixed = dataclasses.replace(own, sysctl=more)
    assert mixed.problems() == []
    plans = make_plan(mixed, 7).hosts
    assert plans["receiver"].sysctls["net.ipv4.tcp_rmem"] == "4096 131072 33554432"
    assert plans["sender"].kernels_sysctls == ["net.ipv4.tcp_rmem"]


def test_buffers_and_windows_of_ones_own_may_limit_a_flow():
    large = dataclasses.replace(CONDITION, receive_buffer="large")
    for axes, expected in (
        ({}, (False, False)), ({"sysctl": WMEM}, (False, True)),
        ({"sysctl": LOWAT}, (False, True)), ({"window_bytes": 65536}, (True, False)),
        ({"sysctl": f"both:{SACK}"}, (False, False)),
        ({"sysctl": "receiver:net.ipv4.tcp_window_scaling=0"}, (True, False)),
    ):  # fmt: skip
        path = make_plan(dataclasses.replace(large, **axes), 7).path_spec
        assert (path.window_may_limit, path.buffer_may_limit) == expected


def test_attributes_of_routes_are_set_on_both_hosts_and_compared():
    axes = {"initcwnd_packets": 30, "initrwnd_packets": 40, "window_bytes": 65536}
    plan = make_plan(dataclasses.replace(CONDITION, **axes), 7)
    found = read_back(plan)
    assert hosts.deviations(plan.hosts, found) == []
    for host in ("sender", "receiver"):
        assert plan.hosts[host].ip_commands[-1].endswith(" initcwnd 30 initrwnd 40 window 65536")
        found[host]["routes"][0]["metrics"] = [{"initcwnd": 30}]
        [problem] = hosts.deviations(plan.hosts, found)
        assert "'window': 65536}, found {'initcwnd': 30}" in problem
        found = read_back(plan)
    assert plan.hosts["r1"].route_attributes == {}


def test_sysctl_is_repeated_on_the_command_line_and_multiplied_in_a_sweep():
    parser = argparse.ArgumentParser()
    dictionary.add_options(parser, algorithm="cubic")
    words = ["--sysctl", LOWAT, "--sysctl", WMEM, "--sysctl", "none"]
    condition = cellspec.condition(vars(parser.parse_args(words)))
    assert condition.sysctl == hostsettings.canonical(f"{LOWAT}+{WMEM}")
    again = shlex.split(cellspec.measure_command(condition, 1))[1:]
    options = cli.parser(again).parse_args(again)
    assert options.sysctl == condition.sysctl
    assert parser.parse_args([]).sysctl == "none"
    lists = [f"none,both:{SACK}", f"{LOWAT},{WMEM}"]
    assert sweeps.combined(lists) == f"{LOWAT},{WMEM},both:{SACK}+{LOWAT},both:{SACK}+{WMEM}"
