"""Kernel trees with added algorithms; a small tree with its own Makefile stands in."""

import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from losslab.errors import LosslabError
from losslab.instrument import csource, fetch, kernel, kernels, kerneltree, packed

MAKEFILE = """\
linux: $(wildcard net/ipv4/*.c) net/ipv4/Makefile
\techo made >> made
\tcat net/ipv4/Makefile > linux
\t@! grep -l BROKEN net/ipv4/tcp_*.c || { \\
\t  echo "net/ipv4/tcp_mine.c:7:2: error: BROKEN"; echo "    7 |  BROKEN"; \\
\t  echo "  AR      net/built-in.a"; \\
\t  echo "make[4]: *** [x] Error 1"; exit 2; }
"""
SOURCE = 'static struct tcp_congestion_ops mine = { .name = "mine" };\n'


@pytest.fixture
def kept(tmp_path):
    tree = tmp_path / "kept" / "linux"
    (tree / "net" / "ipv4").mkdir(parents=True)
    (tree / "Makefile").write_text(MAKEFILE)
    (tree / "net" / "ipv4" / "Makefile").write_text("obj-y := tcp.o tcp_cubic.o\n")
    (tree / "net" / "ipv4" / "tcp.c").write_text("")
    (tmp_path / "kept" / "Makefile.before").write_text("obj-y := tcp.o tcp_cubic.o\n")
    return tmp_path / "kept"


@pytest.fixture
def mine(campaign_folder):
    path = campaign_folder / "algorithms/mine/tcp_mine.c"
    path.parent.mkdir(parents=True)
    path.write_text(SOURCE)
    return path


def with_lines(name):
    return [f"obj-y += tcp_{name}.o", f"CFLAGS_tcp_{name}.o += {csource.DEBUG_INFO}"]


def compiled(kept, *algorithms):
    with kerneltree.with_additions(kept, algorithms, (), kept.parent / "log") as tree:
        return (tree / "linux").read_text()


def replaced(path, file):
    return kernels.ReplacedFile(path, file, fetch.digest(file))


def test_replaced_files_are_compiled_and_restored_also_after_a_killed_build(kept, tmp_path):
    tree, its = kept / "linux" / "net" / "ipv4", tmp_path / "its.c"
    its.write_text("/* ours */\n")
    both = [replaced("net/ipv4/tcp.c", its), replaced("net/ipv4/tcp_new.h", its)]
    with kerneltree.with_additions(kept, (), both, tmp_path / "log"):
        assert (tree / "tcp.c").read_text() == (tree / "tcp_new.h").read_text() == "/* ours */\n"
    for each in both:  # of a killed build, which the next restores
        kerneltree._replace(kept, each)
    changed_ns = (tree / "tcp.c").stat().st_mtime_ns
    with kerneltree.own_files(kept):
        assert (tree / "tcp.c").read_text() == ""
    assert not (tree / "tcp_new.h").exists()
    assert not (kept / kerneltree.ORIGINALS).exists()
    assert (tree / "tcp.c").stat().st_mtime_ns > changed_ns, "make must compile it again"


def test_replaced_makefile_keeps_added_algorithms(kept, mine, tmp_path):
    its = tmp_path / "Makefile"
    its.write_text("obj-y := tcp_cubic.o tcp.o\n")
    both = [replaced("net/ipv4/Makefile", its)]
    with kerneltree.with_additions(kept, [mine], both, tmp_path / "log") as tree:
        made = (tree / "linux").read_text().splitlines()
        assert made == ["obj-y := tcp_cubic.o tcp.o", *with_lines("mine")]
    assert (tree / "net/ipv4/Makefile").read_text() == (kept / kerneltree.MAKEFILE).read_text()


@pytest.mark.parametrize("added", [True, False], ids=["an algorithm", "a replaced file"])
def test_compiler_messages_name_the_authors_file(kept, mine, tmp_path, added):
    mine.write_text(SOURCE + "BROKEN\n")
    files = ((mine,), ()) if added else ((), [replaced("net/ipv4/tcp_mine.c", mine)])
    with (
        pytest.raises(LosslabError) as error,
        kerneltree.with_additions(kept, *files, tmp_path / "log"),
    ):
        pass
    assert "algorithms/mine/tcp_mine.c:7:2: error: BROKEN" in error.value.message
    assert "7 |  BROKEN" in error.value.message
    assert "make[4]" not in error.value.message
    assert "built-in" not in error.value.message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("cubic", '"cubic"', "must differ from those in the kernel"),
        ("mine", '"another"', "found no such name"),
    ],
)
def test_existing_or_wrong_algorithm_name_is_refused(kept, tmp_path, name, text, words):
    path = tmp_path / name / f"tcp_{name}.c"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(LosslabError, match=words):
        compiled(kept, path)


def test_unneeded_files_of_the_kernel_tree_are_removed(tmp_path):
    tree = tmp_path / "linux"
    files = {
        "net/ipv4/Makefile": "", "net/ipv4/tcp_x.c": "",
        "net/core/sock.c": "", "net/core/gone.c": "",
        "drivers/gone/gone.h": "", "drivers/gone/Kconfig": "", "include/linux/tcp.h": "",
        "net/core/.sock.o.cmd": "source := net/core/sock.c\ndeps := \\\n  mm/../kernel/a.h \\\n",
        "kernel/a.h": "", "kernel/b.h": "", "Documentation/x.rst": "", "Documentation/Kconfig": "",
    }  # fmt: skip
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    kerneltree.prune(tree)
    left = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    gone = {"net/core/gone.c", "drivers/gone/gone.h", "kernel/b.h", "Documentation/x.rst"}
    assert left == set(files) - gone
    assert (tmp_path / "Makefile.before").is_file()


@pytest.fixture
def compilations(kept, monkeypatch, tmp_path):
    """Return the list of compiled kernels; the small tree stands in for every kernel's."""
    done = []

    def compile_(which, source, work, log):
        done.append(which.key)
        log.touch()
        tree = shutil.copytree(kept / "linux", work / "linux")
        subprocess.run(["make", "-s", "-C", tree, "linux"], check=True)
        return tree

    def finish(facts, tree, folder):
        shutil.copy2(tree / "linux", folder / "linux")

    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(packed.PLACE, raising=False)
    origin = {"from": kernel.DEBIAN}
    source = SimpleNamespace(pinned=True)
    facts = {"pinned": True, "source": origin, "version": "6.12.1", "patches": []}
    monkeypatch.setattr(kernel, "_facts", lambda *_: facts | {"config_sha256": "0"})
    monkeypatch.setattr(kernel, "_source", lambda which, unpinned: source)
    monkeypatch.setattr(kernel, "_compiled", compile_)
    monkeypatch.setattr(kernel, "_finish", finish)
    return done


def linux(spec):
    return (kernel.part(spec).build() / "linux").read_text().splitlines()


def test_algorithm_is_added_to_a_kernels_objects(compilations, mine, capsys):
    plain, with_mine = (kernels.get("7.2", names) for names in ([], ["mine"]))
    assert linux(plain) == ["obj-y := tcp.o tcp_cubic.o"]
    assert linux(with_mine) == ["obj-y := tcp.o tcp_cubic.o", *with_lines("mine")]
    assert compilations == ["7.2"]
    said = capsys.readouterr().err
    assert "kernel 7.2: takes ten minutes of CPU time" in said
    assert "kernel 7.2 with mine: takes half a minute" in said
    shutil.rmtree(kernel.part(plain).existing())
    assert linux(plain) == ["obj-y := tcp.o tcp_cubic.o"]
    assert compilations == ["7.2"]
    shutil.rmtree(kernel.objects(plain).existing())
    shutil.rmtree(kernel.part(with_mine).existing())
    kernel.part(with_mine).build()
    assert compilations == ["7.2", "7.2"]


@pytest.fixture
def fetched(compilations, mine, monkeypatch, tmp_path):
    """Pack the default kernel's objects, and return a new cache that can fetch them."""
    linux(kernels.get("default", ["mine"]))
    packed.pack(kernel.objects(kernels.default()).existing(), packed.OBJECTS, tmp_path)
    compilations.clear()
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "another"))
    monkeypatch.setenv(packed.PLACE, str(tmp_path))


def test_fetched_objects_replace_compiling_a_kernel_for_an_algorithm(fetched, compilations):
    added = linux(kernels.get("default", ["mine"]))
    assert added == ["obj-y := tcp.o tcp_cubic.o", *with_lines("mine")]
    assert compilations == []
    # They have no algorithm of the one who packed.
    folder = kernel.objects(kernels.default()).existing()
    assert not list(folder.rglob("*mine*"))
    assert (folder / "linux/net/ipv4/Makefile").read_text() == "obj-y := tcp.o tcp_cubic.o\n"


def test_objects_of_another_compiler_are_not_fetched(fetched, compilations, monkeypatch, capsys):
    monkeypatch.setattr(kerneltree, "compiler", lambda: "01234567")
    linux(kernels.get("default", ["mine"]))
    assert compilations == ["6.12"]
    assert "was not fetched" in capsys.readouterr().err


def test_algorithm_without_a_compiler_is_refused_with_the_command_that_installs_it(
    compilations, mine, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LosslabError, match="found no gcc") as error:
        kernel.part(kernels.get("default", ["mine"])).build()
    assert error.value.hint == "run `make setup`"


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


def test_files_without_an_object_of_their_present_text_are_found(tree):
    """A11: "no cell changed" was said of files that were never compiled."""
    paths = ["net/tcp.c", "net/a.h", "net/b.h", "net/new.c", "net/gone.c", "net/README"]
    os.utime(tree / "net/tcp.o")
    assert kerneltree.not_compiled(tree, paths) == ["net/b.h", "net/gone.c", "net/new.c"]
    os.utime(tree / "net/tcp.o", ns=(0, 0))
    assert kerneltree.not_compiled(tree, ["net/tcp.c", "net/a.h"]) == ["net/a.h", "net/tcp.c"]
