"""Parts of the measuring code, their versions, and the cells that depend on them."""

import ast

from losslab.campaign import codelock
from losslab.instrument import kernel, kernels
from tests.unit.campaign.test_fingerprint import ALL, CELLS

CONTAINERS = {"containers", "engine"}
# For each part, a file of it, and the cells that depend on it.
DEPENDENT = {
    "emulation": ("emulation/measure.py", ALL),
    "backends/containers": ("emulation/jobs/engineguest.py", CONTAINERS),
    "background": ("emulation/flows/program.py", {"background"}),
    "apps/command": ("emulation/apps/command.py", set()),
    "apps/datagram": ("emulation/schemes/__init__.py", {"scheme"}),
    "apps/ffmpeg": ("emulation/apps/ffmpeg.py", {"video"}),
    "apps/iperf3": ("emulation/apps/iperf3.py", ALL - {"video", "scheme"}),
    "apps/quic": ("emulation/apps/quic.py", set()),
    "apps/web": ("emulation/apps/page_server.py", {"page"}),
    "path/jitter": ("emulation/path/jitter.py", {"jitter"}),
    "path/marking": ("emulation/path/marking.py", ALL),
    "path/schedule": ("emulation/schedule_runner.py", {"schedule"}),
    "path/thinning": ("emulation/path/thinning.py", {"thinned"}),
    "path/trace": ("emulation/link/exact.py", {"drawn", "trace"}),
    "schemes/ewma": ("emulation/schemes/ewma.py", {"scheme"}),
}
OF_ALL = (
    "emulation/probes.py", "emulation/jobs/guest.py", "study/condition.py", "study/axes.py",
    "backends/runner.py",
)  # fmt: skip


def test_lock_has_the_sources_of_every_part():
    """`python -m bench.golden` compares bytes and writes the lock."""
    locked = {part: its["sha256"] for part, its in codelock.lock().items()}
    recipe = locked[codelock.kernel_part(kernels.default().name)]
    assert recipe == kernel.content_hash(kernels.default())
    known = {codelock.kernel_part(name) for name in kernels.declared()}
    assert {part for part in locked if part.startswith("kernel ")} == known
    assert {part: sha for part, sha in locked.items() if part not in known} == codelock.digests()


def test_exactly_the_cells_that_use_a_part_depend_on_it():
    used = {name: set(codelock.used(*cell)) for name, cell in CELLS.items()}
    for part, (file, cells) in DEPENDENT.items():
        assert (codelock.PACKAGE / file).is_file()
        assert codelock.part_of(file) == part
        assert {name for name, parts in used.items() if part in parts} == cells, part
    assert {codelock.part_of(file) for file in OF_ALL} == {codelock.COMMON}
    assert set.union(*used.values()) <= codelock.digests().keys()


def test_parts_need_the_parts_that_their_modules_import():
    package = codelock.PACKAGE
    for path in (package / "emulation").rglob("*.py"):
        part = codelock.part_of(str(path.relative_to(package)))
        # Every scheme is imported by its app, which uses one.
        if part == codelock.COMMON or part.startswith("apps/datagram"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("losslab.emulation."):
                base = node.module.removeprefix("losslab.").replace(".", "/")
                for file in (base, *(f"{base}/{alias.name}" for alias in node.names)):
                    needed = codelock.part_of(f"{file}.py")
                    known = {part, codelock.COMMON, *codelock.NEEDS.get(part, ())}
                    if (package / f"{file}.py").is_file() and not part.startswith("schemes/"):
                        assert needed in known, f"{path} imports {file}"
