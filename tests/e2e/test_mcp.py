"""`losslab mcp`: sessions of a real client over standard input and output."""

import asyncio
import os
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="scripts/group.sh mcp")

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

PROGRAM = str(Path(sys.executable).parent / "losslab")
CONDITION = {"algorithm": "cubic", "loss_percent": 5, "duration_s": 1, "warmup_s": 0.1}


@asynccontextmanager
async def session(folder, *words):
    """Connect a client to a server of the folder."""
    server = StdioServerParameters(command=PROGRAM, args=["mcp", str(folder), *words])
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        await client.initialize()
        yield client


async def ask(client, tool, **arguments):
    """Call a tool; return whether it failed, its text, and its other contents."""
    result = await client.call_tool(tool, arguments)
    text, *others = result.content
    return result.is_error, text.text, others


def processes_with(text):
    """Return the commands of running processes that have a text."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [line for line in lines if text in line]


def test_client_lists_measures_draws_and_is_refused(tmp_path):
    async def talk():
        async with session(tmp_path / "lab") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {"axes", "measure", "sweep", "why", "whatif", "decide"} <= tools.keys()
            assert "rate_mbit" in tools["measure"].input_schema["properties"]["axes"]["description"]
            assert tools["why"].input_schema["required"] == ["replicate", "out"]

            failed, text, _ = await ask(client, "axes", word="rate")
            assert not failed
            assert "| `rate_mbit` | Mbit/s |" in text

            failed, text, _ = await ask(client, "measure", axes=CONDITION, out="run")
            assert not failed, text
            assert text.startswith("valid: all checks passed")
            assert (tmp_path / "lab/run/manifest.json").is_file()

            failed, text, pictures = await ask(client, "plot", folders=["run"], out=["run.png"])
            assert not failed, text
            assert [(each.type, each.mime_type) for each in pictures] == [("image", "image/png")]

            failed, text, _ = await ask(client, "measure", axes={"algorithm": "cubicc"}, out="b")
            assert failed
            assert "losslab: error: algorithm must be one of config/algorithms.tsv" in text

            failed, text, _ = await ask(client, "measure", axes=CONDITION, out="../outside")
            assert failed
            assert "out must name a file in" in text
            assert not (tmp_path / "outside").exists()

    asyncio.run(talk())


def test_call_ends_at_the_limits_and_with_its_client(tmp_path):
    lab, long = tmp_path / "lab", CONDITION | {"duration_s": 3000}
    left = f"left-{os.getpid()}"  # no other process has it

    async def talk():
        async with session(lab, "--timeout-s", "3", "--disk-mb", "1") as client:
            failed, text, _ = await ask(client, "measure", axes=long, out="run")
            assert failed
            assert "measure must end within 3 s, found it running" in text
            assert [*lab.iterdir()] == []  # the unfinished run was removed
            (lab / "large").write_bytes(bytes(3 * 10**6))
            failed, text, _ = await ask(client, "axes")
            assert failed
            assert "the folder must have at most 1 MB, found 3 MB" in text
        (lab / "large").unlink()
        async with session(lab) as client:
            call = asyncio.create_task(ask(client, "measure", axes=long, out=left))
            while not processes_with(f"--out={left}"):
                await asyncio.sleep(0.1)
            call.cancel()

    asyncio.run(talk())
    limit = time.monotonic() + 30
    while processes_with(f"--out={left}"):
        assert time.monotonic() < limit
        time.sleep(0.2)
    assert not (lab / left).exists()
