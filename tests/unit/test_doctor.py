from losslab import doctor
from losslab.backends import preflight
from losslab.emulation.shaping import shapers
from losslab.instrument import image, kernel
from losslab.processes import Done
from tests.unit.study.test_condition import CONDITION


def test_what_is_missing_comes_with_its_remedy(monkeypatch):
    monkeypatch.setattr(kernel, "existing", lambda *variant: None)
    monkeypatch.setattr(image, "existing", lambda *variant: None)
    virtual = doctor.Section("virtual", list(doctor._virtual()))
    assert not virtual.usable
    text = virtual.text()
    assert "MISSING  pinned kernel: none in" in text
    assert "-> make setup" in text
    assert "a guest boots" not in text


def test_only_what_is_required_decides():
    wish = doctor.Finding("room", False, "1 GiB", "free some", required=False)
    section = doctor.Section("s", [doctor.Finding("python", True, "3.12"), wish])
    assert section.usable
    assert "missing  room: 1 GiB" in section.text()


def test_a_kernel_without_a_qdisc_is_told_from_one_with_it(monkeypatch):
    said = [Done(2, "", "Error: Specified qdisc kind is unknown.")]
    monkeypatch.setattr(preflight.shutil, "which", lambda name: name)
    monkeypatch.setattr(preflight.processes, "attempt", lambda *words, **options: said[0])
    netem = next(s for s in shapers(CONDITION, 1) if s.kind == "netem")
    found = preflight.kernel_qdisc(netem, root=True)
    assert not found.good
    assert "unknown" in found.found
    assert "--rtt-ms 0" in found.remedy
    said[0] = Done(0, "", "")
    assert preflight.kernel_qdisc(netem, root=True).good
    assert not preflight.kernel_qdisc(netem, root=False).good
