"""Which stage a reader sees for each rule."""

import re

from losslab.screen import stages


def test_every_rule_of_the_workflow_has_its_stage(root):
    files = (root / "workflow/rules").glob("*.smk")
    named = {name for file in files for name in re.findall(r"^rule (\w+):", file.read_text(), re.M)}
    assert named - set(stages.RULES) == set()
    assert set(stages.RULES) - named == set()
