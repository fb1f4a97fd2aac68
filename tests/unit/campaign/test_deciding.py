"""Which files decide which cells; tests/e2e/test_staleness.py tries some of it in Snakemake."""

import ast
import dataclasses

import pytest

from losslab.campaign import deciding
from tests.unit.study.test_condition import CONDITION

TRACE = next(deciding.TRACES.iterdir()).name
CELLS = {
    "bulk": (CONDITION, "virtual", "guest"),
    "containers": (CONDITION, "containernet", "guest"),
    "engine": (CONDITION, "containernet", "host"),
    "plain": (CONDITION, "virtual", "host"),
    "page": (dataclasses.replace(CONDITION, app="web"), "virtual", "guest"),
    "video": (dataclasses.replace(CONDITION, app="ffmpeg"), "virtual", "guest"),
    "drawn": (dataclasses.replace(CONDITION, trace="cellular"), "virtual", "guest"),
    "trace": (dataclasses.replace(CONDITION, trace=TRACE), "virtual", "guest"),
    "crowd": (dataclasses.replace(CONDITION, flows="same"), "virtual", "guest"),
    "scheme": (
        dataclasses.replace(CONDITION, app="datagram", scheme="ewma,alpha=0.9"),
        "virtual",
        "guest",
    ),
}
ALL = set(CELLS)
IN_GUESTS = ALL - {"engine", "plain"}
VIRTUAL = IN_GUESTS - {"containers"}
NONE: set[str] = set()
DEPENDENT = {
    "src/losslab/__init__.py": NONE,
    "src/losslab/errors.py": NONE,
    "src/losslab/report.py": NONE,
    "src/losslab/campaign/collect.py": NONE,
    "src/losslab/emulation/jobs/console.py": NONE,
    "src/losslab/emulation/measure.py": ALL,
    "src/losslab/emulation/checks.py": ALL,
    "src/losslab/study/condition.py": ALL,
    "src/losslab/study/axes.py": ALL,
    "src/losslab/study/listed.py": NONE,
    "src/losslab/emulation/probes/tcp.py": ALL,
    "src/losslab/emulation/shaping.py": ALL,
    "src/losslab/emulation/jobs/engineguest.py": {"containers"},
    "src/losslab/emulation/jobs/enginehost.py": {"engine"},
    "src/losslab/emulation/containers.py": {"containers", "engine"},
    "src/losslab/emulation/jobs/hostjob.py": {"engine", "plain"},
    "src/losslab/backends/onhost.py": {"containers", "engine", "plain"},
    "src/losslab/emulation/realtime.py": {"engine", "plain"},
    "src/losslab/emulation/apps/iperf3.py": ALL - {"video", "scheme"},
    "src/losslab/emulation/apps/web.py": {"page"},
    "src/losslab/emulation/apps/page_server.py": {"page"},
    "src/losslab/emulation/standby.py": ALL,
    "src/losslab/emulation/apps/ffmpeg.py": {"video"},
    "src/losslab/emulation/crowd/plan.py": {"crowd"},
    "src/losslab/emulation/crowd/program.py": {"crowd"},
    "src/losslab/emulation/crowd/outcome.py": {"crowd"},
    "src/losslab/study/crowd.py": ALL,
    "src/losslab/emulation/link/forward.py": {"drawn", "trace"},
    "src/losslab/emulation/link/tracelink.py": {"drawn", "trace"},
    "src/losslab/emulation/link/traces.py": {"drawn", "trace"},
    "src/losslab/emulation/apps/datagram_program.py": {"scheme"},
    "src/losslab/emulation/apps/datagram.py": {"scheme"},
    "src/losslab/emulation/schemes/__init__.py": {"scheme"},
    "src/losslab/emulation/schemes/ewma.py": {"scheme"},
    "src/losslab/emulation/schemes/delivery.py": {"scheme"},
    "src/losslab/emulation/schemes/aimd.py": NONE,
    f"config/traces/{TRACE}": {"trace"},
    "containers/kernel/patches/0001-um-selectable-HZ.patch": IN_GUESTS,
    "containers/kernel/source.toml": IN_GUESTS,
    "containers/kernel/fragment.config": IN_GUESTS,
    "containers/kernel/containers.config": {"containers"},
    "containers/host/init": ALL,
    "containers/host/packages.txt": ALL,
    "containers/engine/init": {"containers", "engine"},
    "containers/engine/source.toml": {"containers", "engine"},
    "containers/engine/packages.txt": {"containers", "engine"},
}


@pytest.mark.parametrize("path", DEPENDENT)
def test_exactly_the_cells_that_use_a_file_depend_on_it(root, path):
    assert (root / path).is_file()
    found = {name for name, cell in CELLS.items() if root / path in deciding.files(*cell)}
    assert found == DEPENDENT[path]


def test_code_of_another_app_leaves_a_cells_hash(monkeypatch, tmp_path):
    hashes = {name: deciding.source_hash(*cell) for name, cell in CELLS.items()}
    assert hashes["bulk"] != hashes["page"] != hashes["video"]
    assert hashes["drawn"] == hashes["trace"]


def test_programs_that_a_guest_starts_by_name_are_known(root):
    """`python3 -m losslab.x` is no import: its module must be an entry of its own."""
    started = set()
    for path in (root / "src/losslab/emulation").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and str(node.value).startswith("losslab.emulation."):
                started.add(node.value)
    # The last is imported, too.
    assert started == {
        "losslab.emulation.apps.datagram_program",
        "losslab.emulation.apps.page_server",
        "losslab.emulation.crowd.program",
        "losslab.emulation.link.forward",
        "losslab.emulation.realtime",
    }


def test_imports_are_found_wherever_a_module_has_them(tmp_path, monkeypatch):
    names = ("top", "called", "caught", "matched", "held", "nested", "asked", "types")
    for name in names:
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "all.py").write_text(
        """\
from typing import TYPE_CHECKING
import losslab.top
if TYPE_CHECKING:
    import losslab.types
else:
    pass
class A:
    async def f(self):
        from losslab import called
        return [lambda: called]
try:
    pass
except ImportError:
    import losslab.caught
match 1:
    case 1:
        import losslab.matched
with open("x") as file:
    from losslab.held import x
for _ in ():
    while True:
        import losslab.nested
if 1:
    pass
elif 2:
    import losslab.asked
"""
    )
    monkeypatch.setattr(deciding, "PACKAGE", tmp_path)
    deciding._imports.cache_clear()
    found = deciding._imports("all.py")
    deciding._imports.cache_clear()
    assert sorted(found) == sorted(f"{name}.py" for name in names if name != "types")


@pytest.mark.parametrize(
    "text",
    [
        "import losslab.a",  # and no end of the line
        "import losslab.a\nx = 1\n",
        "x = 1; import losslab.a; y = 2\nz = 3\n",
        "from losslab import (\n    a,\n    b,\n)\nx = 1\n",
        "import losslab.a \\\n    , losslab.b\nx = 1\n",
        "from losslab import a, \\\n    b\n",
        "import losslab.a; x = 1 + \\\n    2\n",
        'import losslab.a; x = """\nimport losslab.b\n"""\n',
        '"""What must\nimport nothing,\nor little"""\nx = 1\n',
        "try:\n    import losslab.a\nexcept ImportError:\n    pass\n",
        "def f():\n    # import nothing\n    return 1\n",
        "if TYPE_CHECKING:\n    import losslab.a\nelse:\n    x = 1\n",
        "x = 'important'\nif x:\n    y = 1\n",
        "x = 1\n",
        "",
    ],
)
def test_what_is_left_unparsed_imports_nothing(text):
    assert imported(deciding._parsed(text)) == imported(ast.parse(text))


def test_what_is_left_unparsed_of_this_package_imports_nothing():
    for path in deciding.PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert imported(deciding._parsed(text)) == imported(ast.parse(text)), path


def imported(module):
    kinds = (ast.Import, ast.ImportFrom)
    return [ast.dump(node) for node in ast.walk(module) if isinstance(node, kinds)]
