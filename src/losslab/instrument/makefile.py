"""Makefiles of modules, read by make itself as Kbuild has it read them.

make only reads: the file's rules are never run, and `sealed` keeps it from commands, which a
Makefile can run while it is read.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from losslab import processes
from losslab.reading import UsageError
from losslab.repository import install_command

# Kbuild prefers the first.
NAMES = ("Kbuild", "Makefile")
FLAG = re.compile(r"-[DUOWfs][^\s$`\"'();#]*")
# What Kbuild sets. The module's folder is the working folder, so that its path may have spaces.
GIVEN = ["KERNELRELEASE=6.12.0", "ARCH=um", *(f"{each}=." for each in (
    "obj", "src", "M", "PWD", "CURDIR", "KBUILD_EXTMOD"))]  # fmt: skip
READ = "losslab has read it"
SCRIPT = f"""
include {{name}}
losslab_modules := $(obj-m) $(obj-y) $(obj-)
losslab_parts = $($(1:.o=)-objs) $($(1:.o=)-y) $($(1:.o=)-m)
losslab_flags = $(CFLAGS_$(1)) $(if $(filter $(1),$(notdir $(1))),,$(CFLAGS_$(notdir $(1))))
$(info folders $(filter %/,$(losslab_modules)))
$(foreach m,$(filter %.o,$(losslab_modules)),$(info module $(m) $(call losslab_parts,$(m)))\
$(foreach o,$(m) $(call losslab_parts,$(m)),$(info object $(o) $(call losslab_flags,$(o)))))
$(info flags $(ccflags-y) $(ccflags-m) $(EXTRA_CFLAGS) $(subdir-ccflags-y))
$(error {READ})
"""
MAX_DEPTH = 4  # folders that name folders


@dataclass
class Build:
    """Objects and flags that a Makefile declares, with paths relative to its folder."""

    modules: list[list[str]] = field(default_factory=list)  # sources of each
    flags: list[str] = field(default_factory=list)
    file_flags: dict[str, list[str]] = field(default_factory=dict)  # by source
    notes: list[str] = field(default_factory=list)

    def kept(self, words: Sequence[str]) -> list[str]:
        """Return options for the compiler that a kernel's file may have; note the others."""
        kept = [word for word in words if FLAG.fullmatch(word)]
        # Folders of included files are always those of the algorithm.
        others = [word for word in words if word not in kept and not word.startswith("-I")]
        if others:
            self.notes.append(f"its Makefile's {' '.join(others)} is left out")
        return kept


def read(folder: Path, inside: str = "", depth: int = 0) -> Build:
    """Return what the Makefile or Kbuild of a module's folder builds; nothing without one.

    Raises UsageError if make is missing, or this machine cannot seal it.
    """
    build = Build()
    name = next((each for each in NAMES if (folder / inside / each).is_file()), None)
    if name is None:
        return build
    if (make := shutil.which("make")) is None:
        raise UsageError(
            f"a module's {name} must be read by make, found no make",
            hint=f"run `{install_command('build')}`, or name one C file: --from FILE.c",
        )
    command = [sys.executable, "-m", "losslab.instrument.sealed", make]
    done = processes.attempt(
        [*command, "-rR", f"--eval={SCRIPT.format(name=name)}", *GIVEN],
        cwd=folder / inside,
        more={"LC_ALL": "C", "MAKEFLAGS": "", "MAKEFILES": ""},
    )
    if done.status == 125:
        raise UsageError(
            f"make must be kept from commands while it reads {folder / inside / name}, found: "
            f"{done.err.strip()}",
            hint="name one C file: --from FILE.c",
        )
    if READ not in done.err:
        reason = (done.err.strip().splitlines() or ["no end"])[-1]
        build.notes.append(
            f"its {name} cannot be read, so its files are chosen without it: {reason}"
        )
    elif refused := re.findall(r"^(\S+:\d+): pipe: ", done.err, re.MULTILINE):
        build.notes.append(
            f"commands that its {name} runs while it is read ({', '.join(dict.fromkeys(refused))}) "
            "are left out"
        )

    def source(word: str) -> str:
        return os.path.normpath(Path(inside) / word).removesuffix(".o") + ".c"

    for line in done.out.splitlines():
        kind, *words = line.split() or [""]
        if kind == "module":
            parts = [each for each in words[1:] if each.endswith(".o")] or words[:1]
            build.modules.append([source(each) for each in dict.fromkeys(parts)])
        elif kind == "object" and len(words) > 1:
            build.file_flags[source(words[0])] = build.kept(words[1:])
        elif kind == "flags":
            build.flags = build.kept(words)
        elif kind == "folders" and depth < MAX_DEPTH:
            for each in words:
                below = os.path.normpath(Path(inside) / each)
                if not below.startswith("..") and not Path(below).is_absolute():
                    more = read(folder, below, depth + 1)
                    build.modules += more.modules
                    build.file_flags |= {
                        its: [*more.flags, *more.file_flags.get(its, [])]
                        for its in (each for module in more.modules for each in module)
                    }
                    build.notes += more.notes
    build.file_flags = {each: flags for each, flags in build.file_flags.items() if flags}
    return build
