"""Features: their package lists them, and each can be imported first."""

import dataclasses
import inspect
import subprocess
import sys

import pytest

from losslab.emulation.app import apps
from losslab.study import condition, features
from losslab.study.condition import AXES
from tests.unit.study.test_condition import CONDITION

PLACES = [type(each).__module__ for each in features.all_features()]


@pytest.mark.parametrize("module", PLACES)
def test_feature_is_declared_without_importing_conditions(module):
    """`study/condition.py` imports all features, in any order."""
    code = f"import {module}; from losslab.study.condition import AXES; print(len(AXES))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == f"{len(AXES)}\n", done.stderr


def test_programs_of_apps_are_not_features():
    assert "datagram_program" not in apps()
    assert list(apps()) == list(AXES["app"].choices)


def test_plain_path_uses_the_app_and_the_mechanisms_of_every_path():
    used = {type(each).__module__.rpartition(".")[2] for each in features.used_by(CONDITION)}
    assert used == {"iperf3", "marking"}
    shaken = dataclasses.replace(CONDITION, app="web", jitter_ms=1.0, trace="cellular")
    used = {type(each).__module__.rpartition(".")[2] for each in features.used_by(shaken)}
    assert used == {"web", "jitter", "marking", "trace"}


def test_axes_of_features_are_in_the_list_of_conditions():
    listed = inspect.getsource(condition.Condition)
    for feature in features.all_features():
        assert all(f"\n    {name}: " in listed for name in feature.axes)
