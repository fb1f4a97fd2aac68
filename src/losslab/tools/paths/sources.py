"""Commands of tc and links of Mininet that a file of a path contains."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Link:
    """A link of a Mininet program: the names of its two ends' interfaces, by node."""

    nodes: tuple[str, str]
    egresses: tuple[str, str]


@dataclass
class Command:
    """A command of tc: the words after `tc`, and the namespace or container that runs it."""

    words: list[str]
    host: str = ""
    refused: str = ""  # why Linux does not take it


@dataclass
class Source:
    """Commands of tc and links of Mininet in a file, in their order."""

    commands: list[Command] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)  # nodes of the links that are hosts
    left: list[tuple[str, str]] = field(default_factory=list)  # words and reason
    notes: list[str] = field(default_factory=list)
