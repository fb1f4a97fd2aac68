"""Files that no object depends on, and the symbols of a changed Kconfig."""

import os

import pytest

from losslab.instrument import kerneltree

KCONFIG = """
config TCP_CONG_BBR
\ttristate "BBR TCP"
\tdefault n

choice
\tprompt "Default"
\tconfig DEFAULT_BBR
\t\tbool "BBR" if TCP_CONG_BBR=y
endchoice

config DEFAULT_TCP_CONG
\tstring
\tdefault "bbr" if DEFAULT_BBR
"""
ADDED = """
config TCP_CONG_BBR2
\ttristate "BBR2 TCP"
\thelp
\t  tristate of three states: see config X

menuconfig TCP_MORE
\tbool
\tprompt "More"

choice
\tconfig DEFAULT_BBR2
\t\tbool "BBR2"
endchoice

config TCP_NAME
\tstring "Name"
"""


def test_new_switches_outside_of_choices_are_set():
    """A11: a patch's Kconfig was dropped."""
    assert kerneltree.new_symbols(KCONFIG, KCONFIG + ADDED) == ["TCP_CONG_BBR2", "TCP_MORE"]
    assert kerneltree.new_symbols(KCONFIG, KCONFIG) == []
    assert kerneltree.new_symbols("", KCONFIG) == ["TCP_CONG_BBR"]


@pytest.fixture
def tree(tmp_path):
    files = {
        "net/tcp.c": "", "net/tcp.o": "", "net/.tcp.o.cmd": "source_net/tcp.o := net/tcp.c\n",
        "net/a.h": "", "net/b.h": "", "net/new.c": "", "net/gone.c": "",
        "net/.gone.o.cmd": "source_net/gone.o := net/gone.c\n", "net/README": "",
    }  # fmt: skip
    files["net/.tcp.o.cmd"] += "deps_net/tcp.o := \\\n  ./net/../net/a.h \\\n"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_without_an_object_are_found(tree):
    """A11: "no cell changed" was said of files that were never kerneltree."""
    paths = ["net/tcp.c", "net/a.h", "net/b.h", "net/new.c", "net/gone.c", "net/README"]
    os.utime(tree / "net/tcp.o")
    assert kerneltree.not_compiled(tree, paths) == ["net/b.h", "net/gone.c", "net/new.c"]


def test_object_of_an_earlier_file_does_not_count(tree):
    os.utime(tree / "net/tcp.o", ns=(0, 0))
    assert kerneltree.not_compiled(tree, ["net/tcp.c", "net/a.h"]) == ["net/a.h", "net/tcp.c"]


@pytest.mark.parametrize(
    ("path", "makefile", "words"),
    [
        ("net/ipv4/tcp_x.c", "", "add `obj-y += tcp_x.o` to net/ipv4/Makefile"),
        ("net/ipv4/tcp_x.c", "", "--algorithm x"),
        ("net/ipv4/tcp_x.c", "obj-$(CONFIG_TCP_X) += tcp_y.o tcp_x.o\n", "CONFIG_TCP_X, which is"),
        ("net/ipv4/tcp_x.h", "", "include it"),
    ],
)
def test_fix_names_makefile_or_symbol(path, makefile, words):
    assert words in kerneltree.fix_of(path, makefile)
