"""Drawn traces, kept in the cache: a guest draws each once; runs with the same seed share it."""

from __future__ import annotations

from pathlib import Path

from losslab.emulation.link import tracelink
from losslab.emulation.link.exact import LinkPlan, links
from losslab.errors import LosslabError
from losslab.instrument.cache import cache_folder
from losslab.study.axes import name_digest
from losslab.study.condition import Condition


def give(condition: Condition, seed: int, image_root: Path, job_folder: Path) -> None:
    """Copy the drawn traces of a replicate that the cache has to its job's folder."""
    for link in _drawn(condition, seed):
        for kept in _folder().glob(f"{_key(link, image_root)}@*"):
            text = kept.read_text(errors="replace")
            if kept.name.endswith(f"@{name_digest(text)}"):
                (job_folder / link.file).write_text(text)
            else:  # damaged: the guest draws it again
                kept.unlink(missing_ok=True)


def keep(condition: Condition, seed: int, image_root: Path, job_folder: Path) -> None:
    """Copy the traces that a replicate's guest drew to the cache."""
    for link in _drawn(condition, seed):
        drawn, key = job_folder / link.file, _key(link, image_root)
        # Programs of the guest can write to the job's folder, too.
        if any(_folder().glob(f"{key}@*")) or drawn.is_symlink() or not drawn.is_file():
            continue
        text = drawn.read_text(errors="replace")
        try:
            times = tracelink.parse(text, str(drawn))
        except LosslabError:
            continue
        if times[-1] == tracelink.DURATION_MS and len(times) == tracelink.count(link.drawn_mbit):
            _folder().mkdir(parents=True, exist_ok=True)
            partial = _folder() / f"{job_folder.name}.partial"
            partial.write_text(text)
            partial.replace(_folder() / f"{key}@{name_digest(text)}")


def _folder() -> Path:
    return cache_folder() / "drawn"


def _drawn(condition: Condition, seed: int) -> list[LinkPlan]:
    return [link for link in links(condition, seed) if link.drawn_seed is not None]


def _key(link: LinkPlan, image_root: Path) -> str:
    """Return the name of what a trace follows from: the image's Python, the model and its seed."""
    model = Path(tracelink.__file__).read_text()
    return name_digest(f"{image_root.name} {link.drawn_seed} {link.drawn_mbit} {model}")
