"""Add the files that losslab reads at run time to its wheel; pyproject.toml has all the rest."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# Files and folders of a clone, at the same paths below losslab/share (src/losslab/repository.py).
FILES = (
    "CITATION.cff", "LICENSE", "Snakefile", "algorithms", "analysis", "config", "containers",
    "profiles/default", "recorded/full", "recorded/quick-fresh/claims.csv",
    "recorded/quick/claims.csv", "report", "requirements-build.lock", "requirements.lock",
    "scripts/packages.txt", "studies", "suites", "workflow",
)  # fmt: skip
IGNORED = {"__pycache__", "tests"}
# Traces of others, which git ignores too, may not be distributed.
TRACES, OWN_TRACES = Path("config", "traces"), ("README.md", "drawn-")


class BuildWithFiles(build_py):
    """Build step that copies FILES; editable installations read them in the clone."""

    def run(self) -> None:
        """Copy the modules, then the files."""
        super().run()
        if self.editable_mode:
            return
        share = Path(self.build_lib, "losslab", "share")
        shutil.rmtree(share, ignore_errors=True)  # files of an earlier build
        for name in self._files():
            target = share / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, target)

    def get_source_files(self) -> list[str]:
        """List the sources of the modules and the files, for source distributions."""
        return [*super().get_source_files(), *self._files()]

    def _files(self) -> list[str]:
        found = [path for name in FILES for path in (Path(name), *Path(name).rglob("*"))]
        return [str(path) for path in found if path.is_file() and _is_packed(path)]


def _is_packed(path: Path) -> bool:
    if path.is_relative_to(TRACES):
        return path.name.startswith(OWN_TRACES)
    return not IGNORED & {*path.parts}


setup(cmdclass={"build_py": BuildWithFiles})
