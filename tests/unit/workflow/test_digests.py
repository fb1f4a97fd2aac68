"""Changes of code after which rules run again."""

from losslab.workflow import digests


def test_new_axis_collects_every_study_again(monkeypatch):
    before = digests.collect_digest()
    monkeypatch.setattr(digests, "AXES", {**digests.AXES, "a_new_axis": None})
    assert digests.collect_digest() != before
