"""Layers of the package, the payload of a job, and the places of tests."""

import ast
import functools
import graphlib
import re
import sys

from losslab.backends import payload
from losslab.campaign import codedigest
from losslab.emulation.topology import INTERFACES
from losslab.instrument import image

PACKAGE = payload.PACKAGE
# Imports that each package may have besides its own modules.
BASE = {"doors", "errors", "interrupts", "processes", "lock", "reading", "repository"}
PACKAGES = {
    # Loading a study checks names of schemes, and finds features by their packages and types.
    "study": BASE
    | {f"emulation.{name}" for name in ("schemes", "app", "mechanism", "background.feature")},
    "emulation": {
        "doors",
        "errors",
        "study.axes",
        "study.schedule",
        "study.condition",
        "study.background",
        "study.features",
        "study.seeds",
    },
    "instrument": BASE,
    "backends": BASE | {"study", "emulation", "instrument"},
    "campaign": BASE | {"__init__", "study", "emulation", "instrument", "backends"},
    # Verification builds cells from options, as commands do.
    "artifact": BASE
    | {"__init__", "cellspec", "study", "emulation", "instrument", "backends", "campaign"},
    # The name of a link's log in a replicate's folder.
    "ui": BASE | {"study", "instrument", "backends", "campaign", "emulation.link.forward"},
}
# Packages on emulated hosts besides the standard library; `docker` only for containers.
OTHER_PACKAGES = {"mininet"}
OF_CONTAINER_MODULES = {"emulation/containers.py": {"docker"}}
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


@functools.cache
def imports(path):
    """Return the modules that a file imports; those of losslab without the prefix."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} must use absolute imports"
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                found.add(within if is_module(within) else node.module)
    return {name.removeprefix("losslab.") if name != "losslab" else "__init__" for name in found}


@functools.cache
def needed(path):
    """Return the modules that a file imports, without those for type checking."""
    return codedigest.of_python(path.read_text()).imports


@functools.cache
def is_module(dotted):
    first, *rest = dotted.split(".")
    place = PACKAGE.joinpath(*rest)
    return first == "losslab" and (place.with_suffix(".py").is_file() or place.is_dir())


def own(names):
    """Return the modules of losslab among the names."""
    return {name for name in names if name == "__init__" or is_module(f"losslab.{name}")}


def under(name, allowed):
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def part(module):
    return module.split("/")[0].removesuffix(".py")


def test_no_package_imports_a_higher_layer():
    """Commands are the top layer and may import everything."""
    found = {
        f"{module} imports {name}"
        for module in MODULES
        if (layer := part(module)) in BASE or layer in PACKAGES
        for name in own(imports(PACKAGE / module))
        if not under(name, PACKAGES.get(layer, {"errors", "interrupts"}) | {layer})
    }
    assert found == set()


def test_every_package_has_a_layer():
    commands = {"__init__", "cellspec", "cli", "demo", "doctor", "examples", "htmlpage", "new"}
    commands |= {"commands", "report", "score", "shell", "steps", "sweeps", "workflow"}
    commands |= {"api", "arguments", "darkfigures", "frames", "init", "provide", "whatif", "why"}
    commands |= {"bisection", "changecells", "check", "pyarguments"}
    assert {part(module) for module in MODULES} == BASE | set(PACKAGES) | commands


def test_emulation_imports_only_the_standard_library_and_mininet():
    found = set()
    for module in (each for each in MODULES if each.startswith(f"{payload.EMULATION}/")):
        names = imports(PACKAGE / module)
        roots = {name.split(".")[0] for name in names - own(names)}
        allowed = {*sys.stdlib_module_names, *OTHER_PACKAGES, *OF_CONTAINER_MODULES.get(module, ())}
        found |= {f"{module} imports {root}" for root in roots - allowed}
    assert found == set()


def test_payload_has_exactly_the_imported_modules(tmp_path):
    payload.pack(tmp_path)
    there = tmp_path / "losslab"
    found = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    emulation = {module for module in MODULES if module.startswith("emulation/")}
    assert found == emulation | {
        "__init__.py",
        "doors.py",
        "errors.py",
        "study/axes.py",
        "study/schedule.py",
        "study/condition.py",
        "study/conflicts.py",
        "study/background.py",
        "study/features.py",
        "study/seeds.py",
    }
    # The Python interface, which the package imports at its first use, is not for guests.
    for path in {*there.rglob("*.py")} - {there / "__init__.py"}:
        for name in own(imports(path)):
            place = there.joinpath(*name.split("."))
            assert place.with_suffix(".py").is_file() or place.is_dir(), f"{path} imports {name}"


def test_only_backends_depend_on_their_names(root):
    """Differences of backends are in `backends.base.Needs` or in their methods.

    Only studies compare them: names of cells omit the default, and real time has its own checks.
    """
    comparison = re.compile(
        r"\b(backend|where)\)?\s*(==|!=)|(==|!=)\s*(VIRTUAL|CONTAINERNET|GUEST|HOST)"
    )
    files = [*PACKAGE.rglob("*.py"), *(root / "workflow").rglob("*.smk")]
    exempt = ("backends", "study", "instrument")  # instrument: images are called HOST, too
    named = [p for p in files if not {PACKAGE / w for w in exempt} & set(p.parents)]
    lines = {f"{p}: {line}" for p in named for line in p.read_text().splitlines()
             if comparison.search(line)}  # fmt: skip
    assert lines == set()


def test_no_modules_import_each_other_in_a_circle():
    """Imports inside functions count, and those for type checking do not."""
    graph = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ("losslab", *path.relative_to(PACKAGE).with_suffix("").parts)
        name = ".".join(parts).removesuffix(".__init__")
        # `from losslab.a import b` of a module b does not need the code of the package a.
        graph[name] = {each for each in needed(path) if is_module(each)} - {name, "losslab"}
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle


def test_core_imports_no_feature():
    """`study/features.py` finds apps, path mechanisms and background flows by their files."""
    features = tuple(f"emulation.{name}" for name in ("apps", "path", "background"))
    for module in MODULES:
        if not module.startswith(tuple(f"{name.replace('.', '/')}/" for name in features)):
            found = {
                n
                for n in needed(PACKAGE / module)
                if n.startswith("losslab.") and under(n[8:], features)
            }
            assert found == set(), f"{module} must not name features"


def test_programs_are_started_by_one_module():
    """Inside emulated hosts Mininet starts programs, too."""
    users = [m for m in MODULES if "subprocess" in imports(PACKAGE / m)]
    assert [m for m in users if not m.startswith("emulation/")] == ["processes.py"]


def test_image_and_topology_agree_on_host_names():
    names = [f"{end.address} {end.host}" for end in INTERFACES]
    assert image.FIXED_FILES["etc/hosts"].splitlines() == ["127.0.0.1 localhost", *names]


# Tests of behaviour that several modules share.
ACROSS_MODULES = {
    "backends/test_memory.py": "snapshot releases the zeros of a guest's memory",
    "campaign/test_diff_files.py": "diff compares files that cellfiles reads and integrity checks",
    "campaign/test_trust.py": "rerun, export and verification ask for the same permission",
    "instrument/test_hostile_archives.py": "packed, archive and unpacking refuse harmful archives",
    "study/test_cell_names.py": "axes and condition make the names that design and sweeps use",
    "study/test_design_claims.py": "design has the cells that claims and causes need",
    "test_command_line.py": "help, pipes, JSON and completion of all commands",
    "test_refusals.py": "commands refuse axes, traces, metrics and outputs before they work",
    "test_report_sentences.py": "the report prints what its R functions say of a campaign",
}
# Folders whose tests mirror other sources, or read files of the whole repository.
OTHER_SOURCES = {"bench": "bench", "repository": None}


def test_every_unit_test_mirrors_a_module(root):
    """tests/unit/a/test_b.py tests the module or package src/losslab/a/b."""
    unit = root / "tests" / "unit"
    for path in unit.rglob("test_*.py"):
        name = path.relative_to(unit)
        first = name.parts[0]
        if first in OTHER_SOURCES:
            source, name = OTHER_SOURCES[first], name.relative_to(first)
            tested = source and root / source / name.with_name(name.stem.removeprefix("test_"))
        else:
            tested = PACKAGE / name.with_name(name.stem.removeprefix("test_"))
        known = str(name) in ACROSS_MODULES or not tested
        assert known or tested.is_dir() or tested.with_suffix(".py").is_file(), (
            f"{path} must be named after a module: move it, or list it in ACROSS_MODULES"
        )
    assert [name for name in ACROSS_MODULES if not (unit / name).is_file()] == []


def test_no_file_is_longer_than_600_lines(root):
    folders = [PACKAGE, root / "workflow", root / "tests" / "unit"]
    files = [p for each in folders for p in each.rglob("*") if p.suffix in (".py", ".smk")]
    long = {str(p): n for p in files if (n := len(p.read_text().splitlines())) > 600}
    assert long == {}
