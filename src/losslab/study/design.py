"""Studies as data: load and validate the configuration, and make the cells of a study."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from losslab.errors import LosslabError
from losslab.reading import input_errors, read_toml, read_yaml
from losslab.reading.files import repeats
from losslab.study.condition import DEFAULT_KERNEL, Condition
from losslab.study.names import Names, images_of, load_algorithms
from losslab.study.points import as_list, block_points, has
from losslab.study.schemas import check_schema
from losslab.study.stopping import StoppingRule
from losslab.study.suite import Point, form_runs, load_study

ROOT = Path(__file__).resolve().parents[3]

# Where studies are loaded, campaigns are, too.
load_yaml = read_yaml

# Where a campaign says nothing else.
DEFAULT_BACKEND, DEFAULT_WHERE = "virtual", "guest"
HOST = "host"
OWN_KERNEL = "kernel must be default where the hosts are on this machine's own, found {}"


@dataclass(frozen=True)
class Cell:
    """One point of a study's design and how often it is measured."""

    study: str
    block: str
    condition: Condition
    stopping: StoppingRule
    backend: str = DEFAULT_BACKEND
    # In a guest, or on the machine's own kernel.
    where: str = DEFAULT_WHERE
    # To be left out where what it is measured with cannot be had.
    optional: bool = False

    @property
    def name(self) -> str:
        """The cell's folder and file name; another backend's results lie elsewhere."""
        slug = self.condition.slug()
        name = slug if self.block == "main" else f"{self.block}_{slug}"
        if (self.backend, self.where) == (DEFAULT_BACKEND, DEFAULT_WHERE):
            return name
        return f"{name}_{self.backend}-{self.where}"

    @property
    def real_time(self) -> bool:
        """Tell whether it must have the machine to itself."""
        return self.where == HOST


@dataclass(frozen=True)
class Study:
    """A study as a campaign measures it, and what its R files make of it."""

    name: str
    cells: list[Cell]
    figures: list[str]
    tables: list[str]
    # Cells whose time series go into the study's tables.
    series: list[str]
    # How many cells of a block the campaign does not measure, where there are any.
    left_out: dict[str, int]


@input_errors()
def load_names(root: Path) -> Names:
    """Read what algorithms, kernels and images there are."""
    rows = load_algorithms(root / "config" / "algorithms.tsv")
    kernels = load_kernels(root / "config" / "kernels.toml")
    for row in rows:
        if row["kernel"] not in (DEFAULT_KERNEL, *kernels):
            raise LosslabError(
                f"the kernel of {row['name']} in config/algorithms.tsv must be one of "
                f"config/kernels.toml ({', '.join(kernels)}), found {row['kernel']}"
            )
    algorithms = {row["name"]: row["kernel"] for row in rows}
    return Names(algorithms, frozenset(kernels), images_of(root))


@input_errors()
def load_kernels(path: Path) -> dict[str, Any]:
    """Read the kernels that kernels.toml declares, by name; validates all of the file."""
    data = read_toml(path)
    check_schema(data, "kernels", str(path))
    kernels: dict[str, Any] = data["kernels"]
    series = {kernel["series"] for kernel in kernels.values()}
    if unknown := ({data["default"]} - set(kernels)) | (series - set(data["series"])):
        raise LosslabError(
            f"{path} must declare every kernel and series that it names, found no "
            f"{', '.join(sorted(unknown))}"
        )
    return kernels


def study_cells(study: dict[str, Any], runs: dict[str, Any], names: Names) -> list[Cell]:
    """Make a study's cells: per block the cross product of its axes.

    Args:
        study: A validated study (config/studies/*.yaml).
        runs: Per block `replicates`, `duration_s` and `warmup_s`, from the configuration, or a
            list of such runs, each with the cells that it is for (`only`); a block that is not
            named there is not measured.
        names: What `load_names` read.
    """
    name, blocks = study["study"], study["blocks"]
    if unknown := sorted(set(runs) - set(blocks)):
        raise LosslabError(
            f"blocks of study {name} must be among {', '.join(blocks)}, found {', '.join(unknown)}"
        )
    cells = []
    for block, run in ((block, run) for block, told in runs.items() for run in as_list(told)):
        only = run.get("only", {})
        chosen = [point for point in block_points(study, blocks[block]) if has(point, only)]
        if not chosen:
            raise LosslabError(
                f"`only` must mean a cell of block {block} of study {name}, found none with "
                + ", ".join(f"{axis} {value}" for axis, value in only.items()),
                hint=f"compare with the block in config/studies/{name}.yaml",
            )
        cells += [_cell(name, block, point, run, names) for point in chosen]
    if repeated := repeats(cell.name for cell in cells):
        raise LosslabError(f"cells of study {name} must differ, found twice: {repeated}")
    return cells


def _cell(study: str, block: str, point: Point, run: dict[str, Any], names: Names) -> Cell:
    """Make one cell, and check its condition."""
    backend, where = run.get("backend", DEFAULT_BACKEND), run.get("where", DEFAULT_WHERE)
    lengths = {name: float(run[name]) for name in ("duration_s", "warmup_s")}
    condition = Condition.from_json(point | lengths)
    problems = condition.problems() + names.problems(condition)
    if where == HOST and condition.kernel != DEFAULT_KERNEL:
        problems.append(OWN_KERNEL.format(condition.kernel))
    least = run["replicates"]
    most = run.get("max_replicates", least)
    if most < least:
        problems.append(f"max_replicates must be at least replicates, {least} here, found {most}")
    if problems:
        raise LosslabError(
            f"block {block} of study {study}, cell {condition.slug()}: " + "; ".join(problems),
            hint=f"edit config/studies/{study}.yaml or the configuration",
        )
    rule = StoppingRule(least, most, run.get("half_width_percent"))
    return Cell(study, block, condition, rule, backend, where, run.get("optional", False))


@input_errors()
def load_studies(config: dict[str, Any], root: Path) -> list[Study]:
    """Load the studies of a configuration, in its order."""
    check_schema(config, "config", "the configuration")
    names = load_names(root)
    # What is said of the whole campaign holds for blocks that say nothing themselves; a place is
    # its backend's.
    common = {key: config[key] for key in ("backend", "where") if key in config}
    studies = []
    for name, runs in blocks_to_run(config, root).items():
        study = load_study(name, root, config.get("algorithms", ()))
        told = {
            block: [run if "backend" in run else common | run for run in as_list(block_runs)]
            for block, block_runs in runs.items()
        }
        cells = study_cells(study, told, names)
        wanted = study.get("time_series", [])
        series = [
            cell.name
            for cell in cells
            if any(has({"block": cell.block, **cell.condition.to_json()}, w) for w in wanted)
        ]
        counts = Counter(cell.block for cell in cells)
        left_out = {
            block: count
            for block, points in study["blocks"].items()
            if (count := sum(1 for _ in block_points(study, points)) - counts[block])
        }
        studies.append(Study(name, cells, study["figures"], study["tables"], series, left_out))
    return studies


def blocks_to_run(config: dict[str, Any], root: Path) -> dict[str, dict[str, Any]]:
    """Give per study its blocks and how each is run: as the configuration says, in its order.

    In place of blocks it may name a form of a suite. Where it has `others`, those studies follow
    that say in `runs` themselves how they are run.
    """
    found = {
        name: form_runs(name, root, blocks) if isinstance(blocks, str) else blocks
        for name, blocks in config["studies"].items()
    }
    if not config.get("others"):
        return found
    for path in sorted((root / "config" / "studies").glob("*.yaml")):
        if path.stem not in found and (runs := load_study(path.stem, root).get("runs")) is not None:
            check_schema({"studies": {path.stem: runs}}, "config", f"`runs` of {path}")
            found[path.stem] = runs
    return found


def load_cells(config: dict[str, Any], root: Path) -> list[Cell]:
    """Make all cells of a configuration; arguments as for `load_studies`."""
    return [cell for study in load_studies(config, root) for cell in study.cells]
