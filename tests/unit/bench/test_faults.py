"""The page of faults lists every fault."""

import re

from bench import faults


def test_fault_page_lists_every_fault_once(root):
    text = (root / "docs/explanation/faults.md").read_text()
    table = "\n".join(line for line in text.splitlines() if line.startswith("| "))
    listed = [name for name in re.findall(r"`([a-z0-9_]+)`", table)]
    assert sorted(listed) == sorted(faults.FAULTS)
