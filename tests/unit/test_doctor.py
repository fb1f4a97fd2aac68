from losslab import doctor
from losslab.instrument import image, kernel


def test_what_is_missing_comes_with_its_remedy(monkeypatch):
    monkeypatch.setattr(kernel, "existing", lambda *variant, **which: None)
    monkeypatch.setattr(image, "existing", lambda *variant, **which: None)
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
