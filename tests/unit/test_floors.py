"""What may import what: the wings and their floors, and what a job gets of the package."""

import ast
import functools
import re
import sys

import pytest

from losslab.backends import parcel
from losslab.emulation.topology import INTERFACES
from losslab.instrument import image

PACKAGE = parcel.PACKAGE
# What each part imports of this package besides itself; nothing imports from above.
GROUND = {"errors", "interrupts", "processes", "lock", "reading"}
WINGS = {
    # The schemes' names are checked where a study is loaded.
    # And features are found by their packages; of these it names two types.
    "study": GROUND | {"emulation.schemes", "emulation.app", "emulation.mechanism"},
    "emulation": {
        "errors",
        "study.axes",
        "study.changes",
        "study.condition",
        "study.crowd",
        "study.features",
        "study.seeds",
    },
    "instrument": GROUND,
    "backends": GROUND | {"study", "emulation", "instrument"},
    "campaign": GROUND | {"__init__", "study", "emulation", "instrument", "backends"},
    # What it asks for is made as commands make it.
    "artifact": GROUND
    | {"__init__", "asked", "study", "emulation", "instrument", "backends", "campaign"},
    # How a link's log is called in a replicate's folder.
    "screen": GROUND | {"study", "instrument", "backends", "campaign", "emulation.link.forward"},
}
# Where the hosts are there is no more than this. `docker` only where hosts are containers.
BESIDES = {"mininet"}
OF_CONTAINERS = {"emulation/containers.py": {"docker"}}
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


@functools.cache
def imports(path):
    """The modules that a file imports, wherever in it; of this package without its name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} must name what it imports from its root"
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                found.add(within if is_module(within) else node.module)
    return {name.removeprefix("losslab.") if name != "losslab" else "__init__" for name in found}


def is_module(dotted):
    first, *rest = dotted.split(".")
    place = PACKAGE.joinpath(*rest)
    return first == "losslab" and (place.with_suffix(".py").is_file() or place.is_dir())


def own(names):
    """Those that are of this package."""
    return {name for name in names if name == "__init__" or is_module(f"losslab.{name}")}


def under(name, allowed):
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def part(module):
    return module.split("/")[0].removesuffix(".py")


@pytest.mark.parametrize("module", MODULES)
def test_nothing_imports_from_above(module):
    wing = part(module)
    if wing in GROUND:
        allowed = {"errors", "interrupts", wing}
    elif wing in WINGS:
        allowed = WINGS[wing] | {wing}
    else:
        return  # a command, or what is left to commands: above everything
    found = {name for name in own(imports(PACKAGE / module)) if not under(name, allowed)}
    assert found == set(), f"{module} must import of losslab only {sorted(allowed)}"


def test_every_part_is_on_a_floor():
    commands = {"__init__", "asked", "cli", "demo", "doctor", "examples", "htmlpage", "new"}
    commands |= {"commands", "report", "score", "shell", "steps", "sweep", "workflow"}
    assert {part(module) for module in MODULES} == GROUND | set(WINGS) | commands


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith(f"{parcel.WING}/")])
def test_where_the_hosts_are_there_is_the_standard_library_and_mininet(module):
    names = imports(PACKAGE / module)
    roots = {name.split(".")[0] for name in names - own(names)}
    allowed = {*sys.stdlib_module_names, *BESIDES, *OF_CONTAINERS.get(module, ())}
    assert roots - allowed == set()


def test_a_job_gets_what_it_imports_and_no_more(tmp_path):
    parcel.pack(tmp_path)
    there = tmp_path / "losslab"
    found = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    wing = {module for module in MODULES if module.startswith("emulation/")}
    assert found == wing | {
        "__init__.py",
        "errors.py",
        "study/axes.py",
        "study/changes.py",
        "study/condition.py",
        "study/conflicts.py",
        "study/crowd.py",
        "study/features.py",
        "study/seeds.py",
    }
    for path in there.rglob("*.py"):
        for name in own(imports(path)):
            place = there.joinpath(*name.split("."))
            assert place.with_suffix(".py").is_file() or place.is_dir(), f"{path} imports {name}"


def test_nobody_but_a_backend_asks_which_one_it_is(root):
    """What differs between backends is in `backends.base.Needs`, or a verb of theirs.

    A study has a default, which its cells' names leave out, and knows what is in real time.
    """
    asking = re.compile(
        r"\b(backend|where)\)?\s*(==|!=)|(==|!=)\s*(VIRTUAL|CONTAINERNET|GUEST|HOST)"
    )
    files = [*PACKAGE.rglob("*.py"), *(root / "workflow").rglob("*.smk")]
    own_words = ("backends", "study", "instrument")  # instrument: images are called HOST, too
    named = [p for p in files if not {PACKAGE / w for w in own_words} & set(p.parents)]
    lines = {f"{p}: {line}" for p in named for line in p.read_text().splitlines()
             if asking.search(line)}  # fmt: skip
    assert lines == set()


def test_programs_are_started_by_one_module():
    """Where the hosts are, Mininet starts programs, too."""
    users = [m for m in MODULES if "subprocess" in imports(PACKAGE / m)]
    assert [m for m in users if not m.startswith("emulation/")] == ["processes.py"]


def test_names_of_the_image_are_those_of_the_topology():
    names = [f"{end.address} {end.host}" for end in INTERFACES]
    assert image.FIXED_FILES["etc/hosts"].splitlines() == ["127.0.0.1 localhost", *names]


def test_no_file_is_long(root):
    folders = [PACKAGE, root / "workflow", root / "tests" / "unit"]
    files = [p for each in folders for p in each.rglob("*") if p.suffix in (".py", ".smk")]
    long = {str(p): n for p in files if (n := len(p.read_text().splitlines())) > 300}
    assert long == {}
