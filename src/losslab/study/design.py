"""Loading and validation of the configuration, and the cells of each study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError, did_you_mean
from losslab.reading import input_errors, option_fields, read_rows, read_toml, repeats
from losslab.repository import find, images, listed, recipes
from losslab.study import studyfiles, units
from losslab.study.axes import DRAWN_TRACE, limited
from losslab.study.condition import DEFAULT_KERNEL, FIRST_FAMILY, NO_TRACE, Condition
from losslab.study.intervals import StoppingRule
from losslab.study.names import Names, Need, load_algorithms
from losslab.study.schemas import check_schema
from losslab.study.studyfiles import Point, as_list, block_grid, form_runs, load_study, matches

# Defaults of a campaign.
DEFAULT_BACKEND, DEFAULT_WHERE = "virtual", "guest"
# A backend of the configuration: the one that the key `hosts` names.
ANY = "any"
HOST = "host"
# The image of the container engine, which hosts cannot have.
ENGINE = "engine"
OWN_KERNEL = "kernel must be default with where: host, which uses this machine's kernel, found {}"


@dataclass(frozen=True)
class Cell:
    """One point of a study's design and its number of replicates."""

    study: str
    block: str
    condition: Condition
    stopping: StoppingRule
    backend: str = DEFAULT_BACKEND
    # `guest` or `host`, which is this machine's own kernel.
    where: str = DEFAULT_WHERE
    # Whether a campaign skips the cell if its kernel, image or public trace is not available.
    optional: bool = False
    # losslab.study.condition.seed_of
    seed_family: int = FIRST_FAMILY
    # Whether the study accepts any backend, because the results do not depend on it.
    any_backend: bool = False

    @property
    def name(self) -> str:
        """The name of the cell's folder; it differs between backends that a study chooses."""
        slug = self.condition.slug()
        name = slug if self.block == "main" else f"{self.block}_{slug}"
        if self.any_backend or (self.backend, self.where) == (DEFAULT_BACKEND, DEFAULT_WHERE):
            return limited(name)
        return limited(f"{name}_{self.backend}-{self.where}")

    @property
    def real_time(self) -> bool:
        """True if the cell runs in real time and must run alone."""
        return self.where == HOST


@dataclass(frozen=True)
class Study:
    """The part of a study that a campaign measures, with its figures and tables."""

    name: str
    cells: list[Cell]
    figures: list[str]
    tables: list[str]
    # Names of the cells whose time series go into the study's tables.
    series: list[str]
    # Number of cells that the campaign does not measure, for blocks that have any.
    left_out: dict[str, int]


@input_errors()
def load_names(root: Path) -> Names:
    """Read the names of all algorithms, kernels and images."""
    rows = load_algorithms(find("config/algorithms.tsv", root))
    data = load_kernels(root / "config" / "kernels.toml")
    kernels = data["kernels"]
    for row in rows:
        if row["kernel"] not in (DEFAULT_KERNEL, *kernels):
            raise LosslabError(
                f"the kernel of {row['name']} in config/algorithms.tsv must be one of "
                f"config/kernels.toml ({', '.join(kernels)}), found {row['kernel']}"
            )
        file = find(f"algorithms/{row['name']}/algorithm.toml", root)
        if file.is_file():
            declaration = read_toml(file)
            check_schema(declaration, "algorithm", str(file))
            for option in declaration.get("socket_options", ()):
                option_fields(option["value"])
    algorithms = {row["name"]: row["kernel"] for row in rows}
    needs = tuple(
        Need(
            need["axis"],
            need["value"],
            need["what"],
            frozenset(name for name, k in kernels.items() if k["series"] in need["series"]),
        )
        for need in data.get("needs", [])
    )
    rows = read_rows(root / "config" / "kernel-names.tsv", "\t", ("what", "name"))
    known = {
        what: frozenset(row["name"] for row in rows if row["what"] == what)
        for what in ("qdisc", "sysctl")
    }
    return Names(
        algorithms, frozenset(kernels), frozenset(images(root)) - {ENGINE}, data["default"], needs,
        known["qdisc"], known["sysctl"],
    )  # fmt: skip


@input_errors()
def load_kernels(path: Path) -> dict[str, Any]:
    """Read and validate kernels.toml."""
    data: dict[str, Any] = read_toml(path)
    check_schema(data, "kernels", str(path))
    for name, folder in recipes("kernels", "kernel.toml", data["kernels"]).items():
        kernel = {"label": name} | read_toml(folder / "kernel.toml")
        check_schema({**data, "kernels": {name: kernel}}, "kernels", str(folder / "kernel.toml"))
        data["kernels"][name] = kernel
    kernels, needs = data["kernels"], data.get("needs", [])
    series = {kernel["series"] for kernel in kernels.values()}
    series |= {name for need in needs for name in need["series"]}
    if unknown := ({data["default"]} - set(kernels)) | (series - set(data["series"])):
        raise LosslabError(
            f"{path} must declare every kernel and series that it uses, found no "
            f"{', '.join(sorted(unknown))}"
        )
    return data


def study_cells(study: dict[str, Any], runs: dict[str, Any], names: Names) -> list[Cell]:
    """Return a validated study's cells: for each block the cross product of its axes.

    `runs` has the configuration of each block to measure: `replicates`, `duration_s` and
    `warmup_s`, or a list of such runs, each with a selector of its cells (`only`).
    """
    name, blocks = study["study"], study["blocks"]
    if unknown := sorted(set(runs) - set(blocks)):
        raise LosslabError(
            f"blocks of study {name} must be among {', '.join(blocks)}, found {', '.join(unknown)}"
            + did_you_mean(unknown[0], blocks)
        )
    cells = []
    for block, run in ((block, run) for block, given in runs.items() for run in as_list(given)):
        only = run.get("only", {})
        points = list(block_grid(study, blocks[block]))
        chosen = [point for point in points if matches(point, only)]
        if problems := studyfiles.unmatched(only, points):
            raise LosslabError(
                f"`only` must select cells of block {block} of study {name}: {problems[0]}",
                hint=f"compare with the block in studies/{name}/study.yaml",
            )
        of_block = [_cell(name, block, point, run, names) for point in chosen]
        cells += [cell for cell in of_block if not (cell.optional and _lacks_trace(cell.condition))]
    if repeated := repeats(f"{cell.block} {cell.condition.slug()}" for cell in cells):
        raise LosslabError(
            f"study {name} must have each cell once, found twice: {repeated}",
            hint="give another backend, place or length of runs a block of its own",
        )
    return cells


def _lacks_trace(condition: Condition) -> bool:
    """Return whether a trace of a condition is a file that config/traces does not have."""
    named = {condition.trace, condition.trace_back} - {NO_TRACE, DRAWN_TRACE}
    return not all("@" in name or find(f"config/traces/{name}").is_file() for name in named)


def _cell(study: str, block: str, point: Point, run: dict[str, Any], names: Names) -> Cell:
    backend, where = run.get("backend", DEFAULT_BACKEND), run.get("where", DEFAULT_WHERE)
    any_backend = backend == ANY
    if any_backend:
        backend = run.get("hosts", DEFAULT_BACKEND)
    lengths = {name: float(units.value(name, run[name])) for name in ("duration_s", "warmup_s")}
    condition = Condition.from_json(point | lengths)
    problems = condition.problems() + names.problems(condition, own_kernel=where == HOST)
    if where == HOST and condition.kernel != DEFAULT_KERNEL:
        problems.append(OWN_KERNEL.format(condition.kernel))
    minimum = run["replicates"]
    maximum = run.get("max_replicates", minimum)
    if maximum < minimum:
        problems.append(f"max_replicates must be at least replicates ({minimum}), found {maximum}")
    if problems:
        raise LosslabError(
            f"block {block} of study {study}, cell {condition.slug()}: " + "; ".join(problems),
            hint=f"edit studies/{study}/study.yaml or the configuration",
        )
    rule = StoppingRule(minimum, maximum, run.get("half_width_percent"))
    family = run.get("seed_family", FIRST_FAMILY)
    optional = run.get("optional", False)
    return Cell(study, block, condition, rule, backend, where, optional, family, any_backend)


@input_errors()
def load_studies(config: dict[str, Any], root: Path) -> list[Study]:
    """Load the studies of a configuration, in the configuration's order."""
    check_schema(config, "config", "the configuration")
    names = load_names(root)
    # The campaign's backend and place apply to runs that do not set a backend.
    common = {key: config[key] for key in ("backend", "where") if key in config}
    family = {"seed_family": config.get("seed_family", FIRST_FAMILY)}
    hosts = {"hosts": config.get("hosts", DEFAULT_BACKEND)}
    studies, scored = [], False
    chosen = [config, *config.get("conform", {}).values()]
    for algorithm in (each for its in chosen for each in its.get("algorithms", ())):
        if algorithm not in names.algorithms:
            raise LosslabError(
                f"a campaign's algorithms must be in config/algorithms.tsv, found {algorithm}"
                + did_you_mean(algorithm, names.algorithms)
            )
    for name, runs in blocks_to_run(config, root).items():
        study = load_study(name, root, config.get("algorithms", ()))
        scored = scored or "suite" in study
        complete_runs = {
            block: [
                _complete(run, common, config.get("stop_early")) | family | hosts
                for run in as_list(block_runs)
            ]
            for block, block_runs in runs.items()
        }
        cells = study_cells(study, complete_runs, names)
        selectors = study.get("time_series", [])
        series = [
            cell.name
            for cell in cells
            if any(matches({"block": cell.block, **cell.condition.to_json()}, s) for s in selectors)
        ]
        counts = Counter(cell.block for cell in cells)
        left_out = {
            block: count
            for block, points in study["blocks"].items()
            if (count := sum(1 for _ in block_grid(study, points)) - counts[block])
        }
        figures = [path.stem for path in listed(f"studies/{name}/figures/*.R", root)]
        studies.append(Study(name, cells, figures, study["tables"], series, left_out))
    if "algorithms" in config and not scored:
        raise LosslabError(
            "algorithms must be of a study with a suite, found only "
            + ", ".join(each.name for each in studies),
            hint="select the algorithms of other studies with `only`, in the runs of their blocks",
        )
    return studies


def _complete(
    run: dict[str, Any], common: dict[str, Any], early: dict[str, Any] | None
) -> dict[str, Any]:
    """Add a campaign's settings to a block's runs that do not have their own."""
    complete = common | {key: run[key] for key in run if run[key] != ANY or key not in common}
    if early is None or "max_replicates" in run or run["replicates"] <= early["replicates"]:
        return complete
    return complete | early | {"max_replicates": run["replicates"]}


def blocks_to_run(config: dict[str, Any], root: Path) -> dict[str, dict[str, Any]]:
    """Return the runs of each study's blocks, in the configuration's order.

    A study's value in the configuration is a mapping of blocks, or the name of a suite's form. With
    `others: true`, all other studies follow that have `runs` in their own files.
    """
    studies = {
        name: form_runs(name, root, blocks) if isinstance(blocks, str) else blocks
        for name, blocks in config["studies"].items()
    }
    if not config.get("others"):
        return studies
    for name in studyfiles.study_names(root):
        if name in studies:
            continue
        if (runs := load_study(name, root).get("runs")) is not None:
            check_schema({"studies": {name: runs}}, "config", f"`runs` of study {name}")
            studies[name] = runs
    return studies


def load_cells(config: dict[str, Any], root: Path) -> list[Cell]:
    """Return all cells of a configuration."""
    return [cell for study in load_studies(config, root) for cell in study.cells]


@input_errors()
def check_files(studies: Iterable[Study], root: Path) -> None:
    """Check that studies have the files that each must have."""
    for study in studies:
        needed = (studyfiles.CHAPTER, studyfiles.TABLES)
        paths = [studyfiles.file(root, study.name, name) for name in needed]
        if missing := [str(path.relative_to(root)) for path in paths if not path.is_file()]:
            raise LosslabError(f"files of study {study.name} are missing: {', '.join(missing)}")
