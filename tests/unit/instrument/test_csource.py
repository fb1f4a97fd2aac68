"""Congestion controls of others: what is read of them, and how they are prepared for a kernel."""

import contextlib
import subprocess
from types import SimpleNamespace

import pytest

from losslab import new
from losslab.instrument import csource, kernel, kernels, kerneltree
from losslab.reading import UsageError
from losslab.repository import ROOT
from losslab.study import design
from losslab.study.condition import Condition
from losslab.study.names import load_algorithms, parameters_of

OPS = """\
#include <net/tcp.h>
static int gain = 1; /* of the window */
module_param(gain, int, 0644);
static void old_main(struct sock *sk, const struct rate_sample *rs) { }
static struct tcp_congestion_ops old __read_mostly = {
\t.name = NAME,
\t.cong_control = old_main,
};
MODULE_LICENSE("GPL");
"""
SOURCE = '#define PREFIX "ol"\n#define NAME PREFIX "d-CC"\n' + OPS


@pytest.fixture
def module(tmp_path):
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "old.c").write_text('#include "old.h"\n' + SOURCE)
    (folder / "old.h").write_text('#include <linux/types.h>\n#include "tcp_vegas.h"\n')
    (folder / "more.c").write_text("int more(void) { return 1; }\n")
    (folder / "Makefile").write_text(
        "obj-m += mod.o\nmod-objs := old.o \\\n  more.o\n"
        "ccflags-y := -DX=2 -I$(src) $(shell id) # -DDEBUG\n"
    )
    return folder


def made(campaign_folder, name, place):
    path, notes = new.imported(name, name, campaign_folder, str(place))
    return csource.read(campaign_folder / path), notes


def test_modules_folder_is_copied_with_what_its_makefile_and_source_say(campaign_folder, module):
    found, notes = made(campaign_folder, "old-CC", module)
    assert (found.registers, found.sources, found.flags) == (
        "old-CC",
        ["old.c", "more.c"],
        ["-DX=2"],
    )
    assert (found.parameters, found.licence) == ({"gain": "int"}, "GPL")
    assert notes == ["its Makefile's $(shell id) is left out"]
    copied = {path.name for path in found.folder.iterdir()}
    assert copied == {"algorithm.toml", "old.c", "old.h", "more.c"}
    assert load_algorithms(campaign_folder / new.ALGORITHMS)[-1]["name"] == "old-CC"


def test_copy_of_an_algorithm_keeps_what_its_toml_declares(campaign_folder, module, monkeypatch):
    first, _ = made(campaign_folder, "mine", module)
    file = first.folder / csource.FILE
    ranged = '{ type = "int", range = "[1, 9]" }'
    file.write_text(file.read_text().replace('gain = "int"', f"gain = {ranged}"))
    monkeypatch.chdir(campaign_folder)
    for place in ("algorithms/mine", "mine"):
        name = f"copy-{len(place)}"
        copy, _ = made(campaign_folder, name, place)
        assert copy.parameters == {"gain": {"type": "int", "range": "[1, 9]"}}
        assert (copy.sources, copy.flags) == (first.sources, first.flags)
        assert parameters_of(name)["gain"].span == "[1, 9]"


def test_each_file_of_an_algorithm_makes_another_kernel(campaign_folder, module):
    made(campaign_folder, "mine", module)
    spec = kernels.get(kernels.DEFAULT, ["mine"])
    assert spec.title == "6.12 with mine"
    assert {"mine/old.h", "mine/algorithm.toml", "compat.h"} <= spec.algorithm_digests().keys()
    before = kernel.content_hash(spec)
    (campaign_folder / "algorithms/mine/old.h").write_text("/* changed */\n")
    assert kernel.content_hash(spec) != before


def committed(folder):
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


def test_commit_of_a_repository_is_copied_and_recorded(campaign_folder, module):
    commit = committed(module)
    found, _ = made(campaign_folder, "mine", f"git:{module}@{commit}:old.c")
    assert found.commit == commit
    assert found.source == f"git:{module}@{commit}:old.c"
    with pytest.raises(UsageError, match="must be git:ADDRESS@COMMIT:PATH"):
        made(campaign_folder, "other", f"git:{module}@main:old.c")


def test_algorithm_of_a_kernel_is_copied_from_the_file_that_registers_it(
    campaign_folder, tmp_path, monkeypatch
):
    """BBRv3's file is tcp_bbr.c of the kernel that has it."""
    tree = tmp_path / kerneltree.NAME / kerneltree.IPV4
    tree.mkdir(parents=True)
    (tree / "tcp_bbr.c").write_text(OPS.replace("NAME", '"bbr3"'))
    (tree / "tcp_bbr1.c").write_text(OPS.replace("NAME", '"bbr"'))
    objects = lambda spec: SimpleNamespace(  # noqa: E731
        existing=lambda: tmp_path if spec.name == new.BBR3 else None
    )
    monkeypatch.setattr(kernel, "objects", objects)
    monkeypatch.setattr(kerneltree, "own_files", contextlib.nullcontext)
    found, _ = made(campaign_folder, "mine", "bbr3")
    assert (found.registers, list(found.sources)) == ("bbr3", ["tcp_bbr.c"])
    with pytest.raises(UsageError, match="found no bbr") as caught:
        made(campaign_folder, "other", "bbr")
    assert "--name 6.12 " in caught.value.hint


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("file.c", '#include "lost.h"\n' + SOURCE, "found no lost.h"),
        ("file.c", SOURCE + SOURCE.replace("struct tcp_congestion_ops old", "struct tcp_congestion_"
         "ops b").replace("= NAME", '= "other"'), "must register one name"),
        ("file.c", 'SEC("struct_ops/x") void x(void) {}\n', "BPF program"),
        ("file.c", "#include <net/mptcp.h>\n" + SOURCE, "MPTCP"),
        ("file.c", "int main(void) { return 0; }\n", "found none in file.c"),
        ("bbr.patch", "+" + SOURCE, "a C file or a module's folder, found bbr.patch"),
        ("a b.c", SOURCE, "'a b.c' does not match"),
        ("file.c", SOURCE.replace('"ol"', '"a_name_with_18_by"'), "at most 15 characters"),
    ],
)  # fmt: skip
def test_file_that_cannot_become_a_part_of_a_kernel_is_refused(
    campaign_folder, tmp_path, name, text, problem
):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=problem):
        made(campaign_folder, "mine", tmp_path / name)
    assert not (campaign_folder / "algorithms/mine").exists()
    assert not (campaign_folder / new.ALGORITHMS).exists()


def test_file_with_a_hook_of_bbrv3_gets_the_kernel_that_has_it(campaign_folder, tmp_path):
    text = SOURCE.replace("\t.cong_control", "\t.tso_segs = segs,\n\t.cong_control")
    (tmp_path / "file.c").write_text(text)
    _, notes = made(campaign_folder, "mine", tmp_path / "file.c")
    assert "it needs the kernel 6.12-bbr3" in notes[-1]
    assert load_algorithms(campaign_folder / new.ALGORITHMS)[-1]["kernel"] == new.BBR3


def test_own_choice_by_version_is_left_alone():
    text = SOURCE.replace(
        "\t.cong_control = old_main,\n",
        "#if X\n\t.cong_control = old_main,\n#else\n\t.cong_control = new_main,\n#endif\n",
    )
    assert csource.prepared(text) == text


@pytest.mark.parametrize(
    "change", ['registers = ""', "more = 1", 'sources = ["../x.c"]', 'flags = ["$(shell id)"]']
)
def test_algorithm_toml_with_other_content_is_refused(campaign_folder, module, change):
    made(campaign_folder, "mine", module)
    path = campaign_folder / "algorithms/mine/algorithm.toml"
    lines = [
        line for line in path.read_text().splitlines() if line.split()[:1] != change.split()[:1]
    ]
    path.write_text("\n".join([change, *lines]))
    with pytest.raises(UsageError, match=r"algorithm\.schema\.yaml"):
        design.load_names(ROOT)


def test_error_in_a_header_is_shown_with_the_macro_that_the_file_uses(tmp_path):
    output = """\
  CC      net/ipv4/mine.losslab/src/x.o
In file included from ./include/linux/kernel.h:28,
                 from net/ipv4/mine.losslab/src/x.c:4:
net/ipv4/mine.losslab/src/x.c: In function 'f':
./include/linux/minmax.h:93:9: error: call to 'assert_1': min(a, b) signedness error
   93 |         BUILD_BUG_ON_MSG(!types_ok(ux, uy),
net/ipv4/mine.losslab/src/x.c:8:100: note: in expansion of macro 'min'
net/ipv4/tcp.c:1:1: warning: of another file
make[4]: *** [scripts/Makefile.build:229: net/ipv4/mine.losslab/src/x.o] Error 1
"""
    found = kerneltree._messages({"net/ipv4/mine.losslab/src/x.c": tmp_path / "x.c"}, output)
    assert "minmax.h:93:9: error: call to" in found
    assert f"{tmp_path}/x.c:8:100: note: in expansion of macro 'min'" in found
    assert not any(word in found for word in ("make[4]", "  CC", "another file"))
    assert csource.explained(found) == [
        "min() and max() compare numbers of one type: use min_t(u32, a, b)"
    ]


def test_included_file_outside_of_the_folder_is_missing(tmp_path):
    """Its copy would be outside of the algorithm's folder, too."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "shared.h").write_text("")
    (tmp_path / "mine" / "near.h").write_text("")
    source = tmp_path / "mine" / "tcp_mine.c"
    source.write_text('#include "../shared.h"\n#include "../mine/near.h"\n#include "near.h"\n')
    found = csource.included(tmp_path / "mine", ["tcp_mine.c"])
    assert found == (["tcp_mine.c", "near.h"], ["../shared.h", "../mine/near.h"])
    # Its own header is used in place of the kernel's.
    (tmp_path / "mine" / "tcp_vegas.h").write_text("")
    source.write_text('#include "tcp_vegas.h"\n#include "tcp_dctcp.h"\n')
    found = csource.included(tmp_path / "mine", ["tcp_mine.c"])
    assert found == (["tcp_mine.c", "tcp_vegas.h"], [])


OPTIONS = """
[[socket_options]]
level = 6
name = 23301
value = "u64 rate=2000000, u32 15"
[[socket_options]]
level = 1
name = 9
value = "hex 00ff, s32 -1"
"""


def test_options_of_sockets_become_a_source_and_parameters(campaign_folder, module):
    found, _ = made(campaign_folder, "mine", module)
    file = found.folder / csource.FILE
    file.write_text(file.read_text() + OPTIONS)
    staged = {name: text for name, _, text in csource.staged(file)}
    assert "__packed v1 = { { 0, 255 }, -1 };" in staged["losslab_options.c"]
    assert parameters_of("mine")["rate"].problem("-1")
    assert "socket options" in "; ".join(
        design.load_names(ROOT).problems(Condition(algorithm="mine"), own_kernel=True)
    )
    copy, _ = made(campaign_folder, "other", found.folder)
    assert copy.socket_options == csource.read(file).socket_options
    file.write_text(file.read_text().replace("rate=", "gain="))
    with pytest.raises(UsageError, match="found twice: gain"):
        [*csource.staged(file)]


SCHEMA = r"algorithm\.schema\.yaml"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [("u32 15", "u32", SCHEMA), ("u32 15", "u24 1", SCHEMA), ("u32 15", "u32 15,u8 1", SCHEMA),
     ("00ff", "0f0", SCHEMA), ("23301", "13", SCHEMA), ("level = 1\n", "", SCHEMA),
     ("u32 15", "u32 4294967296", "found u32 4294967296")],
)  # fmt: skip
def test_options_of_sockets_of_another_form_are_refused(
    campaign_folder, module, before, after, words
):
    found, _ = made(campaign_folder, "mine", module)
    file = found.folder / csource.FILE
    file.write_text(file.read_text() + OPTIONS.replace(before, after))
    with pytest.raises(UsageError, match=words):
        design.load_names(ROOT)
