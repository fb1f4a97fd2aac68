"""`losslab mcp`: schemas and command lines of its tools."""

import pytest

from losslab import cli
from losslab.reading import UsageError
from losslab.tools.mcp import server


@pytest.mark.parametrize("name", server.TOOLS)
def test_schemas_have_help_and_withhold_what_runs_programs_outside_the_guest(name):
    schema = server.schema(name)
    properties = schema["properties"]
    assert {"json", "word", "axes", "out"} & properties.keys()
    assert all(each["description"] for each in properties.values())
    assert set(schema["required"]) <= properties.keys()
    assert server.WITHHELD & properties.keys() == set()
    assert len(str(schema)) < 4000  # an assistant reads all of them before it begins


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (
            "measure", {"axes": {"algorithm": "cubic", "rate_mbit": 9}, "out": "run", "json": True},
            ["measure", "--out=run", "--json", "--algorithm=cubic", "--rate-mbit=9"],
        ),
        ("measure", {"algorithm": "cubic", "json": False}, ["measure", "--algorithm=cubic"]),
        (
            "whatif", {"replicate": "run", "at": "3", "drop": ["1", "2"]},
            ["whatif", "--at=3", "--drop=1", "--drop=2", "--", "run"],
        ),
        ("decide", {"choices": ["cubic", "--help"]}, ["decide", "--", "cubic", "--help"]),
        ("conform", {"suite": "rfc9743", "kernel": "7.2"},
         ["conform", "--kernel=7.2", "--", "rfc9743"]),
    ],
)  # fmt: skip
def test_arguments_become_the_words_of_the_command(tmp_path, name, arguments, words):
    assert server.command(name, arguments, tmp_path) == words


def test_operands_after_the_dashes_are_read_as_operands(tmp_path):
    words = server.command("decide", {"choices": ["cubic", "bbr"], "estimate": True}, tmp_path)
    assert cli.parser(words).parse_args(words).choices == ["cubic", "bbr"]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("shell", {}, "a tool must be one of axes"),
        ("measure", {"axes": {"algorithm": "cubic", "where": "host"}}, "its schema, found where"),
        ("why", {"trust": True}, "its schema, found trust"),
        ("measure", {"axes": {"rate_mbits": 1}}, "found rate_mbits; did you mean rate_mbit"),
        ("measure", {"axes": "cubic"}, "its schema, found axes"),
        ("measure", {"out": "/etc/run"}, "out must name a file in"),
        ("measure", {"out": "a/../../run"}, "out must name a file in"),
        ("measure", {"out": "link/run"}, "out must name a file in"),
        ("measure", {"out": "a\0b"}, "out must name a file in"),
        ("measure", {"axes": {"bring": "/etc=etc"}}, "bring must name a file in"),
        ("conform", {"suite": "x", "change": ["net/ipv4/tcp_bbr.c=/etc/passwd"]},
         "change must name a file in"),
        ("plot", {"folders": ["run", "/etc"]}, "folders must name a file in"),
    ],
)  # fmt: skip
def test_other_arguments_and_paths_outside_the_folder_are_refused(
    tmp_path, name, arguments, message
):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match=message):
        server.command(name, arguments, tmp_path / "lab")


def test_only_pictures_in_the_folder_are_shown(tmp_path):
    (tmp_path / "lab").mkdir()
    for name in ("lab/a.png", "b.png"):
        (tmp_path / name).write_bytes(b"PNG")
    text = f"a.png, again a.png, ../b.png {tmp_path}/b.png none.png"
    assert [*server.pictures(text, tmp_path / "lab")] == ["UE5H"]
