"""Layers of the package, circles of imports, and the payload of a job."""

import ast
import functools
import graphlib
import re
import sys

from losslab.backends import payload
from losslab.emulation.topology import INTERFACES
from losslab.instrument import image
from losslab.study import packetsizes
from tests.sources import tracked

PACKAGE = payload.PACKAGE
# Imports that each package may have besides its own modules. All others are commands, which may
# import everything.
BASE = {"extensions", "errors", "interrupts", "processes", "lock", "moved", "reading",
        "repository"}  # fmt: skip
# Imports that these modules may have.
OF_BASE = {"errors", "extensions", "interrupts", "moved"}
PACKAGES = {
    # Loading a study checks names of schemes and what apps need.
    "study": BASE | {"emulation.schemes", "emulation.app", "emulation.flows"},
    "emulation": {"extensions", "errors"}
    | {f"study.{name}" for name in ("axes", "schedule", "condition", "background", "features",
                                    "hostsettings", "packetsizes", "parameters")},
    "instrument": BASE,
    "backends": BASE | {"study", "emulation", "instrument"},
    # A campaign's plan has the version of its renderer.
    "campaign": BASE | {"study", "emulation", "instrument", "backends", "analysis"},
    # The name of a link's log in a replicate's folder.
    "ui": BASE | {"study", "instrument", "backends", "campaign", "emulation.link.forward"},
}  # fmt: skip
# Packages on emulated hosts besides the standard library; `docker` only for containers.
HOSTS_PACKAGES = {"emulation/containers.py": {"docker"}}
MODULES = sorted(str(path.relative_to(PACKAGE)) for path in tracked("src/losslab/*.py"))
FEATURES = ("emulation.apps", "emulation.path")
# Commands in the package of their subject.
COMMANDS = {"instrument/commands.py"}


@functools.cache
def is_module(dotted):
    first, *rest = dotted.split(".")
    place = PACKAGE.joinpath(*rest)
    return first == "losslab" and (place.with_suffix(".py").is_file() or place.is_dir())


@functools.cache
def imports(path, types=True):
    """Return the modules that a file imports; those of losslab without the prefix."""
    found, nodes = set(), [ast.parse(path.read_text())]
    while nodes:
        node = nodes.pop()
        if types or not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} must use absolute imports"
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                found.add(within if is_module(within) else node.module)
    return {name.removeprefix("losslab.") if name != "losslab" else "__init__" for name in found}


def own(names):
    """Return the modules of losslab among the names."""
    return {name for name in names if name == "__init__" or is_module(f"losslab.{name}")}


def under(name, allowed):
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def test_no_package_imports_a_higher_layer():
    found = {
        f"{module} imports {name}"
        for module in set(MODULES) - COMMANDS
        if (layer := module.split("/")[0].removesuffix(".py")) in BASE | set(PACKAGES)
        for name in own(imports(PACKAGE / module))
        if not under(name, PACKAGES.get(layer, OF_BASE) | {layer})
    }
    assert found == set()


def test_emulation_imports_only_the_standard_library_and_mininet():
    found = set()
    for module in (each for each in MODULES if each.startswith(f"{payload.EMULATION}/")):
        names = imports(PACKAGE / module)
        roots = {name.split(".")[0] for name in names - own(names)}
        allowed = {*sys.stdlib_module_names, "mininet", *HOSTS_PACKAGES.get(module, ())}
        found |= {f"{module} imports {root}" for root in roots - allowed}
    assert found == set()


def test_payload_has_exactly_the_imported_modules(tmp_path):
    payload.pack(tmp_path)
    there = tmp_path / "losslab"
    found = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    wanted = {each for each in MODULES if each.startswith("emulation/")} | {"__init__.py"}
    waiting = list(wanted - {"__init__.py"})
    while waiting:
        names = own(imports(PACKAGE / waiting.pop(), types=False)) - {"__init__"}
        files = {f"{name.replace('.', '/')}.py" for name in names}
        new = {name for name in files if (PACKAGE / name).is_file()} - wanted
        wanted |= new
        waiting += new
    assert found == wanted


def test_modules_import_each_other_in_no_circle():
    """Imports inside functions and for types count."""
    graph = {
        module.removesuffix(".py").replace("/", ".").removesuffix(".__init__"):
            own(imports(PACKAGE / module))
        for module in MODULES
    }  # fmt: skip
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle


def test_core_imports_no_tool_and_no_tool_another():
    found = set()
    for module in MODULES:
        place = module.split("/")
        mine = ".".join(place[:2]) if place[0] == "tools" else "none"
        found |= {
            f"{mine} imports {name}"
            for name in own(imports(PACKAGE / module))
            if name.startswith("tools.") and not under(name, {mine})
        }
    # The symptoms of `losslab why` may be cases of a suite.
    assert {each.partition(" ")[0] for each in found} <= {"tools.timetravel"}
    assert all("tools.conform." in each for each in found)


def test_core_imports_no_feature():
    """`study/features.py` finds apps and path mechanisms by their files."""
    found = {
        f"{module} imports {name}"
        for module in MODULES
        if not module.startswith(("tools/", *(f"{f.replace('.', '/')}/" for f in FEATURES)))
        for name in own(imports(PACKAGE / module, types=False))
        if under(name, FEATURES)
    }
    assert found == set()


def test_programs_are_started_by_one_module():
    """Inside guests, Mininet and the recorders of paths start programs, too."""
    users = [m for m in MODULES if "subprocess" in imports(PACKAGE / m)]
    guests = ("emulation/", "tools/realtime/", "tools/paths/inguest.py", "runs/inguest.py")
    assert [m for m in users if not m.startswith(guests)] == ["processes.py"]


def test_image_and_r_have_the_constants_of_the_emulation(root):
    names = [f"{end.address} {end.host}" for end in INTERFACES]
    assert image.FIXED_FILES["etc/hosts"].splitlines() == ["127.0.0.1 localhost", *names]
    text = (root / "analysis/R/models.R").read_text()
    assert re.findall(r"^frame_bytes <- (\d+)$", text, re.MULTILINE) == [
        str(packetsizes.DEFAULT.frame_bytes)
    ]
