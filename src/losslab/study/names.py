"""The algorithms, kernels and images that a condition may name."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from losslab.emulation.app import apps
from losslab.emulation.schemes import SCHEMES
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import (
    FIELDS,
    UsageError,
    code,
    module_parameters,
    option_fields,
    read_rows,
    read_text,
    read_toml,
    repeats,
)
from losslab.repository import find
from losslab.study import background, hostsettings, parameters
from losslab.study.axes import NONE, OWN, Span
from losslab.study.condition import AXES, DEFAULT_IMAGE, DEFAULT_KERNEL, Condition
from losslab.study.schemas import check_schema

# Algorithms with TCP_CONG_NEEDS_ECN (net/ipv4/tcp_dctcp.c), which another one replaces without ECN.
NEED_ECN = frozenset({"dctcp"})
RESERVED = {OWN: "that programs choose their own", NONE: "no competitor",
            background.SAME: "the foreground flow's algorithm"}  # fmt: skip
# Axes without an effect on flows over UDP.
OF_TCP = ("ack_thinning", "initcwnd_packets", "initrwnd_packets", "window_bytes")
# Ranges of the integer types of modules' parameters (linux/moduleparam.h), with 64-bit longs.
INTEGERS = {
    "byte": (0, 2**8 - 1), "short": (-(2**15), 2**15 - 1), "ushort": (0, 2**16 - 1),
    "int": (-(2**31), 2**31 - 1), "uint": (0, 2**32 - 1), "hexint": (0, 2**32 - 1),
    "long": (-(2**63), 2**63 - 1), "ulong": (0, 2**64 - 1), "ullong": (0, 2**64 - 1),
}  # fmt: skip
SWITCHES = {"bool", "invbool", "bint"}
ON_OFF = ("0", "1", "n", "y", "N", "Y", "off", "on")
# The name of an interface in a sysctl's name.
OF_INTERFACE = re.compile(r"\.(conf|neigh)\.[^.]+\.")
# A leading zero would be octal.
WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a module, as its source declares it."""

    kind: str  # type, with `[]` for an array; "" if functions of the module read and write it
    default: str
    mode: str  # permissions of its file in /sys/module
    span: str = ""  # range that `algorithm.toml` declares, as of `axes.Span`
    # Values that make sense, as of `axes.Span`, and what others do.
    sensible: str = ""
    otherwise: str = ""

    def problem(self, value: str) -> str:
        """Return why a value is impossible; "" if it is possible."""
        if self.mode in ("0", "00", "000", "0000"):
            return "must have a file in /sys/module to be read back, such as one of mode 0644"
        kind = self.kind.removesuffix("[]")
        for element in value.split(",") if kind != self.kind else (value,):
            number = int(element) if len(element) < 40 and WHOLE.fullmatch(element) else None
            if kind in SWITCHES and element not in ON_OFF:
                return f"must be one of {', '.join(ON_OFF)}, found {element:.40}"
            if kind in INTEGERS:
                low, high = INTEGERS[kind]
                if number is None or not low <= number <= high:
                    return f"must be a whole number from {low} to {high}, found {element:.40}"
            if self.span and (number is None or number not in Span.of(self.span)):
                return f"must be in {self.span}, found {element:.40}"
        return ""


def parameters_of(algorithm: str) -> dict[str, Parameter]:
    """Return the parameters of an algorithm, of its sources or of `config/parameters.tsv`."""
    folder = find(f"algorithms/{algorithm}")
    if not folder.is_dir():
        return {
            row["parameter"]: Parameter(
                row["type"], row["default"], row["mode"], "", row["sensible"], row["otherwise"]
            )
            for row in read_rows(find("config/parameters.tsv"), "\t")
            if row["algorithm"] == algorithm
        }
    file = folder / "algorithm.toml"
    declaration = read_toml(file) if file.is_file() else {}
    sources = (path for path in sorted(folder.rglob("*")) if path.suffix in (".c", ".h"))
    source = "\n".join(map(read_text, sources))
    parameters = {name: Parameter(*fields) for name, *fields in module_parameters(code(source))}
    for option in declaration.get("socket_options", ()):
        for kind, name, number in option_fields(option["value"]):
            if name:
                parameters[name] = Parameter(FIELDS[kind][0], number, "0644")
    # The sources may declare some with macros of their own.
    for name, declared in declaration.get("parameters", {}).items():
        if not re.search(rf"\b{name}\b", source):
            raise UsageError(f"parameters of {file} must be of its sources, found {name}")
        kind, span = (
            (declared, "") if isinstance(declared, str) else (declared["type"], declared["range"])
        )
        parameter = parameters.get(name, Parameter("", "", "0644"))
        parameters[name] = replace(parameter, kind=parameter.kind or kind, span=span)
    return parameters


@dataclass(frozen=True)
class Need:
    """Values of an axis that only some kernels can measure."""

    axis: str
    value: str
    what: str  # what the other kernels lack
    kernels: frozenset[str]

    def of(self, condition: Condition) -> bool:
        """Return whether a condition has such a value."""
        value = getattr(condition, self.axis)
        if self.axis == "sysctl":
            return f":{self.value}=" in value
        return bool(value == self.value)


@dataclass(frozen=True)
class Names:
    """The declared names."""

    algorithms: Mapping[str, str]  # of algorithms.tsv, each with the kernel it needs, or `default`
    kernels: frozenset[str] = frozenset()  # of kernels.toml
    images: frozenset[str] = frozenset()  # folders of `containers/` with images for hosts
    default_kernel: str = DEFAULT_KERNEL
    needs: tuple[Need, ...] = ()  # values of axes that only some kernels can measure
    # Of the default kernel, from kernel-names.tsv; empty: not known.
    qdiscs: frozenset[str] = frozenset()
    sysctls: frozenset[str] = frozenset()

    def problems(self, condition: Condition, own_kernel: bool = False) -> list[str]:
        """List the names of a condition that are unknown or exclude each other.

        With `own_kernel`, this machine's own kernel measures, which its backend checks.
        """
        try:
            used = sorted(algorithms_of(condition))
        except LosslabError as error:
            return [error.message]
        kernels, images = {*self.kernels, DEFAULT_KERNEL}, {*self.images, DEFAULT_IMAGE}
        problems = [
            f"{axis} must be one of {place} ({', '.join(sorted(declared))}), found {name!r}"
            + did_you_mean(name, declared)
            for axis, names, place, declared in (
                ("algorithm", used, "config/algorithms.tsv", {*self.algorithms}),
                ("kernel", [condition.kernel], "config/kernels.toml or kernels/", kernels),
                ("image", [condition.image], "containers/ or images/", images),
            )
            for name in names
            if name not in declared
        ]
        if (needy := sorted(NEED_ECN & {*used})) and condition.ecn == "off":
            problems.append(f"ecn must be on for {' and '.join(needy)}, found off")
        changed = [name for name in OF_TCP if getattr(condition, name) != AXES[name].default]
        # Only the flows of a possible condition can be listed.
        if changed and not condition.problems() and not _with_kernels_tcp(condition):
            problems += [
                f"{name} must be {AXES[name].default}, because none of the cell's flows is TCP, "
                f"found {getattr(condition, name)}"
                for name in changed
            ]
        required, chosen = self._required(condition), {condition.kernel} - {DEFAULT_KERNEL}
        if len(required) > 1:
            problems.append(
                f"algorithms must share one kernel, found {' and '.join(used)}, which need "
                f"{' and '.join(sorted(required))}"
            )
        elif len(required | chosen) > 1:
            problems.append(
                f"kernel must be {', '.join(required)} for {' and '.join(used)}, found "
                f"{condition.kernel}"
            )
        elif not own_kernel:
            problems += self._lacking(condition)
            problems += self._unknown(condition)
        if condition.parameters != NONE:
            problems += self._parameter_problems(condition, own_kernel)
        for name in used if own_kernel else ():
            declared = find(f"algorithms/{name}/algorithm.toml")
            if declared.is_file() and "socket_options" in read_toml(declared):
                problems.append(
                    f"where must be guest for {name}, found host: this machine's kernel does not "
                    "set its socket options"
                )
        if own_kernel and condition.shaper == "link":
            problems.append(
                f"shaper must be tbf or htb-netem with where: host, found {condition.shaper}: only "
                "losslab's own kernels have exact links; set it to tbf (`--shaper tbf`), or "
                "measure in a guest"
            )
        return problems

    def _parameter_problems(self, condition: Condition, own_kernel: bool) -> Iterator[str]:
        """Yield what is wrong with the parameters of a condition's algorithms."""
        if own_kernel:
            yield (
                "parameters must be none with where: host, because they are set at a kernel's "
                f"boot, found {condition.parameters:.60}"
            )
        if condition.problems():
            return
        # A changed kernel may have others. Its binary is read before it measures.
        changed = find(f"kernels/{condition.kernel}/kernel.toml").is_file()
        changed = changed or _files_replaced()
        used = _with_kernels_tcp(condition)
        for algorithm, values in parameters.parse(condition.parameters).items():
            if algorithm not in used and condition.algorithm != OWN:
                yield (
                    "parameters must be of algorithms that the cell's TCP flows use "
                    f"({', '.join(sorted(used)) or 'none'}), found {algorithm:.40}"
                )
                continue
            known = parameters_of(algorithm)
            others = changed and not find(f"algorithms/{algorithm}").is_dir()
            for name, value in values.items():
                if name in known and (problem := known[name].problem(value)):
                    yield f"the parameter {name} of {algorithm} {problem}"
                elif name not in known and not others:
                    has = ", ".join(f"{k} ({p.default:.40})" for k, p in known.items())
                    must = f"a parameter of {algorithm} must be one of {has}"
                    yield (
                        f"{must if has else f'{algorithm} has no parameters'}, "
                        f"found {name:.40}{did_you_mean(name, [*known, *background.KEYS])}"
                    )

    def _lacking(self, condition: Condition) -> list[str]:
        """List the values that a condition's kernel cannot measure."""
        kernel = self.kernel(condition)
        kernel = self.default_kernel if kernel == DEFAULT_KERNEL else kernel
        return [
            f"{need.axis} {getattr(condition, need.axis):.40} needs a kernel with {need.what}, one "
            f"of {', '.join(sorted(need.kernels))} (the axis kernel), found {kernel}"
            for need in self.needs
            if need.of(condition) and kernel in self.kernels - need.kernels
        ]

    def _unknown(self, condition: Condition) -> Iterator[str]:
        """Yield the qdiscs and sysctls that the default kernel does not have.

        Those of other kernels are not known before they are booted.
        """
        kernel = self.kernel(condition)
        other = kernel not in (DEFAULT_KERNEL, self.default_kernel) or _files_replaced()
        if other or condition.problems():
            return
        kind = condition.qdisc.partition(" ")[0]
        if self.qdiscs and kind not in (NONE, *self.qdiscs):
            yield (
                f"the kind of qdisc must be one of the kernel's ({', '.join(sorted(self.qdiscs))}),"
                f" found {kind:.40}{did_you_mean(kind, self.qdiscs)}"
            )
        settings = hostsettings.parse(condition.sysctl).values()
        needed = {each.value for each in self.needs if each.axis == "sysctl"}
        for name in sorted({name for its in settings for name in its} - needed):
            general = OF_INTERFACE.sub(r".\1.*.", name)
            if self.sysctls and general not in self.sysctls:
                yield (
                    f"a sysctl must be one that the kernel has for a network namespace, found "
                    f"{name:.80}{did_you_mean(name, self.sysctls)}"
                )

    def kernel(self, condition: Condition) -> str:
        """Return the kernel of a condition: its algorithms', or else its own."""
        return next(iter(self._required(condition)), condition.kernel)

    def _required(self, condition: Condition) -> set[str]:
        """Return the kernels that a condition's algorithms need, without the default.

        A user's own algorithm can be compiled into any kernel, so a chosen one overrules its row.
        """
        chosen = condition.kernel != DEFAULT_KERNEL
        found = {
            self.algorithms.get(each, DEFAULT_KERNEL)
            for each in algorithms_of(condition)
            if not (chosen and find(f"algorithms/{each}").is_dir())
        }
        return found - {DEFAULT_KERNEL}


def _files_replaced() -> bool:
    """Return whether files of the kernel's source are replaced (`kernels.REPLACED_FILES`)."""
    return bool(os.environ.get("LOSSLAB_KERNEL_FILES"))


def algorithms_of(condition: Condition) -> set[str]:
    """Return the kernel's congestion controls that a condition uses."""
    own, competitor = {condition.algorithm} - {OWN}, {condition.competitor} - {NONE}
    return own | competitor | background.algorithms(condition.flows)


def _with_kernels_tcp(condition: Condition) -> set[str]:
    """Return the algorithms of a condition's flows, without those of programs over UDP."""
    own = apps()[condition.app].flows(condition)
    groups = [group.algorithm for group in background.parse(condition.flows)]
    others = {condition.algorithm if name == background.SAME else name for name in groups}
    return others | {flow.algorithm for flow in own if flow.protocol != "udp"}


def unusual_parameters(condition: Condition) -> Iterator[str]:
    """Yield which parameters have values that Linux accepts but that make no sense."""
    for algorithm, its in parameters.parse(condition.parameters).items():
        known = parameters_of(algorithm)
        for name, value in its.items():
            sensible = known[name].sensible if name in known else ""
            if sensible and WHOLE.fullmatch(value) and int(value) not in Span.of(sensible):
                yield (
                    f"{name} of {algorithm} should be in {sensible}, found {value}: "
                    f"{known[name].otherwise}"
                )


def load_algorithms(path: Path) -> list[dict[str, str]]:
    """Read and validate algorithms.tsv."""
    rows = read_rows(path, "\t")
    check_schema(rows, "algorithms", str(path))
    if repeated := repeats(row["name"] for row in rows):
        raise UsageError(f"names must be unique in {path}, found {repeated} more than once")
    for row in rows:
        require_free(row["name"], str(path))
    if repeated := repeats(row["colour"] for row in rows):
        free = next_colour([row["colour"] for row in rows])
        raise UsageError(
            f"colours must be unique in {path}, found {repeated} more than once",
            hint=f"a free one is {free}",
        )
    return rows


def require_free(name: str, where: str) -> None:
    """Refuse a name of an algorithm that a role has for something else."""
    if name in RESERVED:
        raise UsageError(
            f"an algorithm's name in {where} must not be {name}, which means {RESERVED[name]}"
        )


def drawn_controls(path: Path) -> list[dict[str, str]]:
    """Read algorithms.tsv and add rows for schemes over UDP and for programs' own controls."""
    rows = load_algorithms(path)
    for name in (*sorted(SCHEMES.keys() - {row["name"] for row in rows}), OWN):
        colour = next_colour([row["colour"] for row in rows])
        row = {"name": name, "label": name, "colour": colour, "shape": "16", "kernel": "default"}
        rows.append(row)
    return rows


# In the order of use. Each had, in Oklab, the largest distance of all colours with enough contrast
# from the repository's colours and those before it; tests/unit/study/test_names.py checks contrast.
COLOURS = (
    "#4466EE", "#6688AA", "#AA8866", "#008800", "#666600", "#AA4466", "#8800AA", "#6644AA",
    "#EE6666", "#CC0088", "#8866AA", "#EE0000", "#AA66EE", "#662288", "#0088EE", "#884444",
    "#008888", "#884488", "#AA00CC", "#AA4400", "#CC0044",
)  # fmt: skip


def next_colour(used: Collection[str]) -> str:
    """Return the first of `COLOURS`, or else of a grid of darker ones, that is not in use."""
    grid = (f"#{''.join(each)}" for each in itertools.product(("10", "55", "7A", "B5"), repeat=3))
    return next(each for each in itertools.chain(COLOURS, grid) if each not in used)
