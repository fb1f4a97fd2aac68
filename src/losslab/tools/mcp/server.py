"""`losslab mcp`: a server of the Model Context Protocol over standard input and output.

A tool is a command: its schema is the command's options with their help, and its result is what the
command prints. A call runs the command as a child process in the user's folder.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import importlib.util
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from losslab import cli, commands, processes
from losslab.errors import LosslabError, did_you_mean
from losslab.reading import UsageError, out_folder, shown, whole_option
from losslab.study.condition import AXES

TOOLS = (
    "axes", "metrics", "measure", "sweep", "plot", "why", "whatif", "compare", "conform", "decide",
)  # fmt: skip
# Where programs run, and whose, is the user's to say.
WITHHELD = {"help", "backend", "where", "trust"}
TEXT_BYTES, PICTURE_BYTES = 40_000, 2 * 10**6
POLL_S, MAX_POLL_S, MB = 0.05, 1.0, 10**6
PICTURE = re.compile(r"\S+\.png\b")
INSTRUCTIONS = """\
losslab measures how network paths affect Linux's TCP congestion control. `axes` lists the parts of
a condition, `metrics` what is measured. Name all files relative to the user's folder."""


def add_commands(parsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mcp`."""
    parser = parsers.add_parser("mcp")
    parser.add_argument("folder", type=out_folder, help="folder of all files of the tools")
    for name, default, what in (
        ("timeout-s", 600, "wall time after which a call is ended (default 600)"),
        ("disk-mb", 2000, "size of the folder at which calls are refused or ended (default 2000)"),
    ):
        parser.add_argument(f"--{name}", type=whole_option(name, 1), default=default, help=what)
    parser.set_defaults(run=_serve)


def _serve(options: argparse.Namespace) -> int:
    if not importlib.util.find_spec("mcp"):
        raise LosslabError(
            "the Python package mcp must be installed for `losslab mcp`, found none",
            hint="install it: pip install 'losslab[mcp]', or in a clone scripts/group.sh mcp",
        )
    options.folder.mkdir(parents=True, exist_ok=True)
    options.folder = options.folder.resolve()
    asyncio.run(_session(options))
    return 0


async def _session(options: argparse.Namespace) -> None:
    """Serve one client until it closes standard input."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    turn = asyncio.Lock()  # a command uses all cores

    async def tools(context: Any, request: Any) -> Any:
        described = ((name, _parser(name).description, schema(name)) for name in TOOLS)
        tools = [types.Tool(name=n, description=d, input_schema=s) for n, d, s in described]
        return types.ListToolsResult(tools=tools)

    async def call(context: Any, request: Any) -> Any:
        report = context.session.report_progress
        try:
            words = command(request.name, request.arguments or {}, options.folder)
            async with turn:
                status, text = await _run(words, options, report)
        except LosslabError as error:
            status, text = 2, f"losslab: error: {error}"
        content: list[Any] = [types.TextContent(type="text", text=text)]
        for data in pictures(text, options.folder):
            content.append(types.ImageContent(type="image", data=data, mime_type="image/png"))
        return types.CallToolResult(content=content, is_error=status != 0)

    server = Server("losslab", instructions=INSTRUCTIONS, on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _parser(name: str) -> argparse.ArgumentParser:
    """Return a command's parser."""
    return next(each for leaf, _, each in commands.leaves(cli.parser([name])) if leaf == name)


def _actions(name: str) -> dict[str, argparse.Action]:
    """Return the options and operands that a tool takes."""
    actions = {
        (action.option_strings or [action.dest])[-1].lstrip("-").replace("-", "_"): action
        for action in _parser(name)._actions
    }
    return {key: action for key, action in actions.items() if key not in WITHHELD}


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    actions, properties, formatter = _actions(name), dict[str, Any](), argparse.HelpFormatter("")
    axes = [key for key in actions if key in AXES]
    for key, action in actions.items():
        kind: dict[str, Any] = {"type": "boolean" if action.nargs == 0 else "string"}
        if action.nargs == "+" or isinstance(action, argparse._AppendAction):
            kind = {"type": "array", "items": kind}
        help_text = formatter._expand_help(action) if action.help else ""
        properties[key] = kind | {"description": help_text}
    if "rate_mbit" in axes:  # a condition: the tool `axes` has the help of all axes
        properties = {key: value for key, value in properties.items() if key not in axes}
        properties["axes"] = {"type": "object", "description": f"values of {', '.join(axes)}"}
    required = [key for key in properties if key in actions and actions[key].required]
    return {"type": "object", "properties": properties, "required": required}


def command(name: str, arguments: dict[str, Any], folder: Path) -> list[str]:
    """Return the words of a tool's command; UsageError for paths outside the folder.

    A value is part of its option's word, so that it cannot be another option.
    """
    if name not in TOOLS:
        raise UsageError(f"a tool must be one of {', '.join(TOOLS)}, found {shown(name)}")
    actions, options, operands = _actions(name), [name], list[str]()
    axes = arguments.get("axes")
    given = {**arguments, **axes, "axes": []} if isinstance(axes, dict) else arguments
    for key, value in given.items():
        values = value if isinstance(value, list) else [value]
        if key not in actions and values:
            more = did_you_mean(key, actions)
            raise UsageError(f"{name} must have arguments of its schema, found {shown(key)}{more}")
        for text in map(str, values):
            option = actions[key].option_strings[-1:]
            if not all(_is_inside(part, folder) for part in re.split("[=,]", text)):
                place = f"{key} must name a file in {folder}, relative to it"
                raise UsageError(f"{place}, found {shown(text)}")
            if actions[key].nargs == 0:
                options += option if value else []
            else:
                (options if option else operands).append("=".join([*option, text]))
    return [*options, "--", *operands] if operands else options


def _is_inside(text: str, folder: Path) -> bool:
    """Return whether a text, read as a path, is in the folder; False if it cannot be one."""
    return "\0" not in text and Path(os.path.realpath(folder / text)).is_relative_to(folder)


async def _run(words: list[str], options: argparse.Namespace, report: Any) -> tuple[int, str]:
    """Run a command to its end or a limit; return its status and what it printed."""
    begin, pause_s, limit = time.monotonic(), POLL_S, over_disk(options)
    # -P: Python imports nothing from the folder.
    python = [sys.executable, "-P", "-m", "losslab.cli", *words]
    with tempfile.TemporaryFile() as console:
        process = processes.spawn(
            python, ending=signal.SIGTERM, console=console, cwd=options.folder
        )
        try:
            while process.poll() is None and not limit:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_POLL_S)
                await report(time.monotonic() - begin, options.timeout_s)
                limit = over_disk(options)
                if time.monotonic() - begin > options.timeout_s:
                    limit = f"{words[0]} must end within {options.timeout_s} s, found it running"
        finally:  # also if the client cancels the call or goes away
            processes.end_session(process, processes.PATIENCE_S)
        text = os.pread(console.fileno(), TEXT_BYTES, 0).decode(errors="replace")
        cut = os.fstat(console.fileno()).st_size > TEXT_BYTES
    if limit:
        raise UsageError(f"{limit}\n{text}".strip(), hint="ask for less: the user set the limit")
    return process.returncode, text + "\n... (cut: ask for less)" * cut


def over_disk(options: argparse.Namespace) -> str:
    """Return a message if the folder is larger than the user permits, or else an empty text."""
    files = (Path(place, name) for place, _, names in os.walk(options.folder) for name in names)
    used, most = sum(f.lstat().st_size for f in files if os.path.lexists(f)) // MB, options.disk_mb
    return f"the folder must have at most {most} MB, found {used} MB" if used > most else ""


def pictures(text: str, folder: Path) -> Iterator[str]:
    """Yield in base64 the pictures in the folder that a command names."""
    for file in dict.fromkeys(folder / name for name in PICTURE.findall(text)):
        if (
            _is_inside(str(file), folder)
            and file.is_file()
            and file.stat().st_size <= PICTURE_BYTES
        ):
            yield base64.b64encode(file.read_bytes()).decode()
