"""Jobs with containers of this machine's engine, as far as tests need no engine."""

import pytest

from losslab.emulation.containers import LABEL
from losslab.tools.realtime import hostjob


class Api:
    """The engine's client."""

    def __init__(self, listed):
        self.listed = listed

    def containers(self, all, filters):
        key, _, value = filters["label"].partition("=")
        return [c for c in self.listed if key in c["Labels"] and value in ("", c["Labels"][key])]

    def inspect_container(self, container):
        return {"State": {"Pid": 0}}

    def remove_container(self, container, force, v):
        self.listed.remove(container)


def test_only_own_containers_are_removed_also_after_an_error():
    mine, other, foreign = (
        {"Labels": {LABEL: "losslab-abc"}, "Names": ["/losslab-abc.r1"]},
        {"Labels": {LABEL: "losslab-def"}, "Names": ["/losslab-def.r1"]},
        {"Labels": {"com.containernet": ""}, "Names": ["/mn.h1"]},
    )
    api = Api([mine, other, foreign])
    assert hostjob.remove(api, "losslab-abc") == ["losslab-abc.r1"]
    assert api.listed == [other, foreign]
    assert hostjob.remove(api) == ["losslab-def.r1"]
    assert api.listed == [foreign]
    api = Api([{"Labels": {LABEL: "x"}, "Names": ["/x.r1"]}])
    with pytest.raises(ValueError, match="broken"), hostjob.owned(api, "x"):
        raise ValueError("broken")
    assert api.listed == []


def test_engine_error_is_a_host_error():
    broken = type("APIError", (Exception,), {"__module__": "docker.errors"})("no space left")
    assert "no space left" in str(hostjob.of_engine(broken))
    assert hostjob.of_engine(ValueError("ours")) is None
