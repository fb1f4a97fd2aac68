"""Let Linux and Python read a file in a guest: what it runs there, and what tc takes of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from losslab.backends import runner, virtual
from losslab.backends.base import COMMON, Job
from losslab.campaign.instrument import at_first_use, instrument
from losslab.errors import HostError
from losslab.lock import own_folder
from losslab.reading import CONTROL, UsageError
from losslab.tools.paths import inguest, tclines
from losslab.tools.paths.sources import Command, Link, Source

TIMEOUT_S = 180.0
# Beginnings of the kernel's answers. Words that tc does not know are left out one by one.
OF_KERNEL = ("RTNETLINK answers", "Error: ")
# Kernels lack these in some configurations, so their refusal says nothing about a file.
CANNOT = ("kind is unknown", "not supported", "No such file or directory", "Unknown")


def run(data: bytes, arguments: Sequence[str]) -> Source:
    """Run a user's shell script or Python program in a guest; return what it sets."""
    at_first_use(COMMON)
    files = {"program": data, "arguments.json": json.dumps([*arguments]).encode()}
    answer = _in_guest("run", files, inguest.RECORD.name)
    source = Source()
    switches = set[str]()
    for line in answer.split("\n")[:-1]:
        name, *words = line.split(inguest.SEPARATOR)
        if name == "tc":
            source.commands += _command([CONTROL.sub(" ", word) for word in words])
            continue
        event: dict[str, Any] = json.loads(line)
        if "link" in event:
            _add_link(source, event)
        elif "config" in event:
            tclines.add_link(source, (event["config"],), event["parameters"])
        elif "node" in event:
            (source.hosts if event["is_host"] else switches).add(event["node"])
        elif "note" in event:
            source.notes.append(event["note"])
        else:
            source.left.append(("the program", event["error"]))
    source.hosts -= switches
    return source


def _command(words: Sequence[str]) -> list[Command]:
    """Return the command of a line of the record: its host, and the words after `tc`."""
    host, *rest = words
    while rest and rest[0].startswith("-"):
        if rest[0] in ("-n", "-netns"):
            host, rest = "".join(rest[1:2]), rest[1:]
        rest = rest[1:]
    return [Command(rest, host)] if rest else []


def _add_link(source: Source, event: Mapping[str, Any]) -> None:
    nodes, names = event["link"], event["interfaces"]
    for name, parameters in zip(names, event["parameters"], strict=True):
        if parameters:
            tclines.add_link(source, (name,), parameters)
    source.links.append(Link((nodes[0], nodes[1]), (names[0], names[1])))


def judge(source: Source) -> None:
    """Note in each command why Linux refuses it, as far as its words are known.

    Without an instrument, a note says that Linux did not judge.
    """
    commands, unclear = list[Command](), set[tuple[str, str]]()
    for command in source.commands:
        words = command.words
        device = words[words.index("dev") + 1] if "dev" in words[:-1] else ""
        if any(_is_unclear(word) for word in words) or not device:
            unclear.add((command.host, device))
        elif words[0] in ("qdisc", "class"):
            commands.append(command)
    if not commands:
        return
    listed = [[command.host, _short(command.words)] for command in commands]
    try:
        answers = json.loads(
            _in_guest("apply", {"commands.json": json.dumps(listed).encode()}, "answers.json")
        )
    except HostError as error:
        source.notes.append(f"Linux has not judged these lines: {error.message}")
        return
    for command, answer in zip(commands, answers, strict=True):
        device = command.words[command.words.index("dev") + 1]
        is_sure = (command.host, device) not in unclear and not any(c in answer for c in CANNOT)
        if is_sure and answer.startswith(OF_KERNEL):
            command.refused = f"Linux refuses it: {answer[:200]}"


def _is_unclear(word: str) -> bool:
    """Return whether a word has parts that only a shell or Python knows."""
    return bool(tclines.UNCLEAR.search(word)) and not word.replace("_", "").isalnum()


def _short(words: Sequence[str]) -> list[str]:
    """Return the words with a name of the interface that Linux takes: at most 15 characters."""
    at = words.index("dev") + 1
    return [*words[:at], _device(words[at]), *words[at + 1 :]]


def _device(name: str) -> str:
    kind = "ifb" if name.startswith("ifb") else "d"
    fits = len(name) < 16 and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return name if fits else f"{kind}{sum(ord(c) * 31**n for n, c in enumerate(name)) % 10**9}"


def _in_guest(what: str, files: Mapping[str, bytes], answer: str) -> str:
    """Run `inguest.py` in a guest, and return a file that it writes."""
    tools = instrument(condition=COMMON)
    with own_folder(Path(tempfile.gettempdir()), "losslab-path-") as folder:
        (folder / "inguest.py").write_bytes(Path(inguest.__file__).read_bytes())
        for name, data in files.items():
            (folder / name).write_bytes(data)
        task = {"kind": "command", "command": ["python3", "inguest.py", what]}
        runner.run(virtual.Guest(), tools, Job(task, folder, 1, TIMEOUT_S, alone=True))
        path = folder / answer
        text = path.read_text(errors="replace") if path.is_file() else ""
        if what == "run" and not text:
            console = folder / "console"
            said = console.read_text(errors="replace")[-300:] if console.is_file() else ""
            raise UsageError(
                "the program must set a qdisc or a link, found that it ran no tc and no Mininet"
                + (f": {' '.join(said.split())}" if said else ""),
                hint="give its arguments with --run='ARGUMENTS'",
            )
        return text
