"""Locks of Python packages: one environment has them all."""

import re
from collections import defaultdict

from losslab.repository import ROOT

# Versions may depend on Python's, so a lock may have several of a package.
ROW = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def test_locks_agree_on_the_versions_of_shared_packages():
    locks = {}
    for path in (ROOT / "requirements.lock", *(ROOT / "requirements").glob("*.lock")):
        locks[path.name] = defaultdict(set)
        for name, version in ROW.findall(path.read_text()):
            locks[path.name][name].add(version)
    first = locks.pop("requirements.lock")
    assert len(first) > 50
    different = {
        f"{name} of {lock}": (versions, first[name])
        for lock, rows in locks.items()
        for name, versions in rows.items()
        if name in first and versions != first[name]
    }
    assert different == {}
