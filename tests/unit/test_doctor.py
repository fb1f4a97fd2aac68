import subprocess
import sys

import pytest

from losslab import doctor
from losslab.instrument import kernel, kernels
from losslab.instrument.part import Part
from tests.faults.kit import forbid

# System call numbers on x86-64, from the kernel's syscall_64.tbl.
PERSONALITY, PTRACE = 135, 101


def test_missing_requirement_comes_with_its_fix(monkeypatch):
    monkeypatch.setattr(Part, "existing", lambda part: None)
    virtual = doctor.Section("virtual", list(doctor._virtual()))
    assert not virtual.usable
    text = virtual.text()
    assert "MISSING  pinned kernel: none in" in text
    assert "-> make setup" in text
    assert "a guest boots" not in text
    assert "kernel 7.2" not in text


def test_optional_findings_keep_a_section_ready():
    wish = doctor.Finding("room", False, "1 GiB", "free some", required=False)
    section = doctor.Section("s", [doctor.Finding("python", True, "3.12"), wish])
    assert section.usable
    assert "missing  room: 1 GiB" in section.text()


def test_other_ways_to_measure_take_one_line_each():
    broken = [doctor.Finding("Docker's engine", False, "none", "install it")]
    sections = [
        doctor.Section("default", [doctor.Finding("python", True, "3.12")], ("virtual", "guest")),
        doctor.Section("report", [doctor.Finding("R", True, "4.2")]),
        doctor.Section("containers", broken, ("containernet", "host")),
    ]
    lines = doctor.text(sections, ("virtual", "guest")).splitlines()
    assert lines[0] == "default: ready"
    assert not any("MISSING" in line for line in lines)
    assert "1 of 1 requirements" in lines[-1]
    assert "losslab doctor --backend containernet --where host" in lines[-1]
    lines = doctor.text(sections, ("containernet", "host")).splitlines()
    assert lines[:2] == ["containers: not ready", "  MISSING  Docker's engine: none"]


def test_other_kernels_are_listed(monkeypatch):
    recipe = kernel.content_hash(kernels.get("7.2"))
    monkeypatch.setattr(Part, "existing", lambda part: part.recipe == recipe or None)
    assert [finding.line() for finding in doctor._other_kernels()] == [
        "  ok       built: 7.2",
        "  ok       not built: 6.12-bbr3 (`losslab kernel --name NAME`)",
    ]


@pytest.mark.parametrize(
    ("call", "what", "fix"),
    [
        (PERSONALITY, "programs without address randomisation", "seccomp=unconfined"),
        (PTRACE, "programs that trace others", "SYS_PTRACE"),
    ],
)
def test_container_restrictions_are_named_before_building(call, what, fix):
    code = "from losslab import doctor\nfor f in doctor._allowed(): print(f.line())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        preexec_fn=lambda: forbid(call),
    )  # fmt: skip
    assert f"MISSING  {what}: " in done.stdout
    assert "Operation not permitted" in done.stdout
    assert fix in done.stdout
    assert done.stdout.count(": allowed") == 1
