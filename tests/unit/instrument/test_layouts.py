"""Layouts of structs from debugging information, compared with ctypes and with the compiler."""

import ctypes
import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab.campaign import state
from losslab.instrument import csource
from losslab.instrument.csource import Field

U8, U16, U32, U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
I32 = ctypes.c_int32
SOURCE = """
typedef unsigned int u32;
enum phase { SLOW = -1, FAST = 2 };
struct sample { u32 t; unsigned long v; };
struct mine {
	u32 mode:3, gain:10, seen:1;
	int change:7;
	unsigned short pairs[2][3];
	struct sample s[2];
	union { unsigned char low; u32 whole; };
	struct { struct { u32 deep; }; } in;
	enum phase phase;
	_Bool on;
	void *list;
	const char *const volatile name;
	unsigned long wide:60;
};
struct smaller { int unused; };
static void *inet_csk_ca(void *sk) { return sk; }
int first(void *sk) { struct smaller *one = inet_csk_ca(sk); return one->unused; }
int second(void *sk) { struct mine *const ca = inet_csk_ca(sk); return ca->mode; }
"""


class Sample(ctypes.Structure):
    _fields_ = (("t", U32), ("v", U64))


class Low(ctypes.Union):
    _fields_ = (("low", U8), ("whole", U32))


class Deep(ctypes.Structure):
    _fields_ = (("deep", U32),)


class Mine(ctypes.Structure):
    _anonymous_ = ("low_or_whole",)
    _fields_ = (
        ("mode", U32, 3), ("gain", U32, 10), ("seen", U32, 1), ("change", I32, 7),
        ("pairs", U16 * 3 * 2), ("s", Sample * 2), ("low_or_whole", Low), ("in_", Deep),
        ("phase", I32),
        ("on", ctypes.c_bool), ("list", ctypes.c_void_p), ("name", ctypes.c_void_p),
        ("wide", U64, 60),
    )  # fmt: skip


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    if not (shutil.which("gcc") and shutil.which("readelf")):
        pytest.skip("no compiler")
    tree = tmp_path_factory.mktemp("tree")
    (tree / "mine.c").write_text(SOURCE)
    command = "savedcmd_mine.o := gcc -Wp,-MMD,.mine.o.d -O2 -D'A=\"b\"' -c -o mine.o mine.c\n"
    (tree / ".mine.o.cmd").write_text(command + "\ndeps_mine.o := \\\n")
    found = csource.layout(tree, [tree / "mine.c"])
    assert sorted(path.name for path in tree.iterdir()) == [".mine.o.cmd", "mine.c"]
    return found


def numbers(own):
    """Return all integers of a struct by their names in a layout."""
    found = {
        name: getattr(own, name) for name in ("mode", "gain", "seen", "change", "low", "whole")
    }
    found |= {f"pairs[{i}][{j}]": own.pairs[i][j] for i in range(2) for j in range(3)}
    found |= {f"s[{i}].{name}": getattr(own.s[i], name) for i in range(2) for name in ("t", "v")}
    return found | {"on": int(own.on), "wide": own.wide, "in.deep": own.in_.deep}


@settings(max_examples=50)
@given(st.binary(min_size=ctypes.sizeof(Mine), max_size=ctypes.sizeof(Mine)))
def test_fields_of_a_compiled_struct_have_the_values_that_its_code_would_read(layout, content):
    content = bytearray(content)
    content[Mine.on.offset] &= 1
    found = state.decoded(np.frombuffer(bytes(content), "u1")[None], layout)
    decoded = {name: column[0] for name, column in found.items() if name != "phase"}
    assert decoded == numbers(Mine.from_buffer(content))


def test_enumeration_has_its_names_and_pointers_are_left_out(layout):
    by_name = {each.name: each for each in layout}
    assert by_name["phase"].type == "i32"
    assert dict(by_name["phase"].names) == {"-1": "SLOW", "2": "FAST"}
    assert not {"list", "name"} & by_name.keys()


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("struct bbr *bbr = inet_csk_ca(sk);", {"bbr"}),
        ("const struct a *x, *y;\nx = inet_csk_ca(sk);", {"a"}),
        ("struct a *ca;\n\tca = (struct a *)inet_csk_ca(sk);", {"a"}),
        ("#define CA(sk) ((const struct own *) inet_csk_ca(sk))", {"own"}),
        ("static struct own *of(struct sock *sk)\n{\n\treturn inet_csk_ca(sk);\n}", {"own"}),
        ("mine_t *const own = inet_csk_ca(sk);", {"mine_t"}),
        ("return tcp_sk(sk)->snd_cwnd;", set()),
    ],
)
def test_type_of_the_state_is_that_of_its_pointers(source, wanted):
    assert csource.pointed(source) == wanted


def test_layouts_are_read_as_they_are_written():
    own = {"mine": [Field("a", 0, "u3"), Field("b", 8, "i32", {"-1": "X"})], "none": []}
    assert csource.typed_layouts(json.loads(csource.layouts_text(own))) == own
