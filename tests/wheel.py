"""A wheel of losslab in a new environment, with the packages that it requires and no others."""

import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import sources

OTHERS_TRACE = "config/traces/others"


def build(folder: Path) -> Path:
    """Build the wheel in a copy of the clone's files, as pip leaves files in its source folder.

    The copy also has a trace of others, as a clone may.
    """
    source = sources.copy(folder / "source")
    (source / OTHERS_TRACE).write_text("1\n")
    _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (wheel,) = folder.glob("losslab-*.whl")
    return wheel


def required(wheel: Path, extras: tuple[str, ...] = ("",)) -> set[str]:
    """Return the names of all packages that the wheel requires, directly or not."""
    (own,) = metadata.distributions(path=[str(wheel)])
    found: set[str] = set()
    pending = [(own, extras)]
    while pending:
        package, chosen = pending.pop()
        for line in package.requires or ():
            requirement = Requirement(line)
            marker = requirement.marker
            name = canonicalize_name(requirement.name)
            wanted = marker is None or any(marker.evaluate({"extra": e}) for e in chosen)
            if wanted and name not in found:
                found.add(name)
                extra = ("", *requirement.extras)
                pending.append((metadata.distribution(name), extra))
    return found


def install(wheel: Path, folder: Path, extras: tuple[str, ...] = ("",)) -> Path:
    """Install the wheel into a new environment, linked to the required packages of this one.

    Returns the environment's `bin`.
    """
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    for name in required(wheel, extras):
        files = metadata.distribution(name).files or ()
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            place = Path(str(metadata.distribution(name).locate_file(top)))
            if place.exists() and not (packages / top).exists():
                (packages / top).symlink_to(place)
    _pip("--python", str(folder / "bin" / "python"), "install", "--no-deps", "--no-index",
         str(wheel))  # fmt: skip
    return folder / "bin"


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
