"""The kind of hosts of cells that accept any."""

import pytest

from losslab.campaign import hosts
from losslab.instrument import image
from losslab.study.condition import Condition
from losslab.study.design import Cell
from losslab.study.intervals import StoppingRule


@pytest.mark.parametrize(("built", "kind"), [(None, "virtual"), ("engine", "containernet")])
def test_hosts_are_containers_where_their_image_is_built(built, kind, monkeypatch):
    monkeypatch.delenv(hosts.VARIABLE, raising=False)
    monkeypatch.setattr(image, "existing", lambda name: built)
    assert hosts.chosen({"studies": {}})["hosts"] == kind
    assert hosts.chosen({"hosts": "virtual"})["hosts"] == "virtual"


@pytest.mark.parametrize("content", [None, ["a"], "a"])
def test_configuration_that_is_no_mapping_is_left_to_the_schema(content):
    assert hosts.chosen(content) is content


def test_measured_cell_has_the_hosts_of_its_replicates():
    rule, condition = StoppingRule(1, 1, None), Condition(algorithm="cubic")
    cell = Cell("loss", "main", condition, rule, any_backend=True)
    rows = [{"instrument": {"engine": {}}}]
    assert hosts.measured(cell, rows).backend == "containernet"
    assert hosts.measured(cell, [{"instrument": {}}]) == hosts.measured(cell, []) == cell
    chosen = Cell("loss", "main", condition, rule)
    assert hosts.measured(chosen, rows) == chosen


def test_jobs_on_other_machines_have_the_choice_of_the_first(monkeypatch):
    monkeypatch.setattr(image, "existing", lambda name: "engine")
    monkeypatch.setenv(hosts.VARIABLE, hosts.variable({"studies": {}})[hosts.VARIABLE])
    monkeypatch.setattr(image, "existing", lambda name: None)
    assert hosts.chosen({"studies": {}})["hosts"] == "containernet"
