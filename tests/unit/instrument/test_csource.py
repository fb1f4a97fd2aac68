"""Congestion controls of others: what is read of them, and how they are prepared for a kernel."""

import contextlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from losslab import new
from losslab.instrument import csource, kernel, kernels, kerneltree, makefile
from losslab.reading import UsageError, module_parameters
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
    assert notes == ["commands that its Makefile runs while it is read (Makefile:4) are left out"]
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


def test_each_file_of_an_algorithm_makes_another_kernel(campaign_folder, module, monkeypatch):
    made(campaign_folder, "mine", module)
    spec = kernels.get(kernels.DEFAULT, ["mine"])
    assert spec.title == "6.12 with mine"
    assert {"mine/old.h", "mine/algorithm.toml", "compat.h"} <= spec.algorithm_digests().keys()
    before = kernel.content_hash(spec)
    with monkeypatch.context() as changed:  # what losslab makes of the files
        changed.setattr(csource, "prepared", lambda text: f"{text}\n")
        assert kernel.content_hash(spec) != before
    assert kernel.content_hash(spec) == before
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


def test_file_with_a_hook_of_bbrv3_gets_the_kernel_that_has_it(
    campaign_folder, tmp_path, monkeypatch
):
    """Its text decides where nothing was compiled yet."""
    monkeypatch.setattr(kernel, "objects", lambda spec: SimpleNamespace(existing=lambda: None))
    text = SOURCE.replace("\t.cong_control", "\t.tso_segs = segs,\n\t.cong_control")
    (tmp_path / "file.c").write_text(text)
    _, notes = made(campaign_folder, "mine", tmp_path / "file.c")
    assert "its kernel is 6.12-bbr3" in notes[-1]
    assert "was not compiled yet" in notes[-1]
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


def control(name):
    return OPS.replace("NAME", f'"{name}"').replace("old", name)


@pytest.fixture
def two(tmp_path):
    """A folder whose Makefile builds two modules."""
    folder = tmp_path / "two"
    folder.mkdir()
    for name in ("apledbat", "nice"):
        (folder / f"tcp_{name}.c").write_text(control(name))
    (folder / "Makefile").write_text("obj-m := tcp_apledbat.o\nobj-m += tcp_nice.o\n")
    return folder


def test_b1_name_that_was_asked_for_decides_which_module_is_taken(campaign_folder, two):
    found, _ = made(campaign_folder, "nice", two)
    assert (found.registers, found.sources) == ("nice", ["tcp_nice.c"])


def test_b1_name_outside_of_the_makefile_and_below_the_folder_is_found(campaign_folder, two):
    (two / "more").mkdir()
    (two / "more" / "tcp_third.c").write_text(control("third"))
    found, _ = made(campaign_folder, "third", two)
    assert found.sources == ["more/tcp_third.c"]


def test_b1_two_candidates_are_a_question(campaign_folder, two):
    with pytest.raises(UsageError, match=r"apledbat \(tcp_apledbat.c\), nice \(tcp_nice.c\)"):
        made(campaign_folder, "mine", two)
    (two / "tcp_other.c").write_text(control("third"))
    (two / "tcp_third.c").write_text(control("third"))
    with pytest.raises(UsageError, match="registers third, found 2"):
        made(campaign_folder, "third", two)


def test_b8_make_itself_reads_variables_functions_and_conditions(campaign_folder, module):
    (module / "sub").mkdir()
    (module / "sub" / "third.c").write_text("int third(void) { return 1; }\n")
    (module / "Kbuild").write_text(
        "SRC_DIR := $(PWD)\nEXTRA_CFLAGS += -DALL\nLINKED := $(wildcard $(src)/sub/*.c)\n"
        "obj-$(CONFIG_TCP_MOD) += mod.o\nobj-n := old.o\n"
        "mod-y := $(SRC_DIR)/old.o $(patsubst $(src)/%.c,%.o,$(LINKED))\n"
        "ifeq ($(KERNELRELEASE),)\nmod-y += more.o\nendif\n"
        "CFLAGS_old.o := -DONLY=1 -O2\nCFLAGS_sub/third.o += -DTHIRD\n"
    )
    found, _ = made(campaign_folder, "mine", module)
    assert (found.sources, found.flags) == (["old.c", "sub/third.c"], ["-DALL"])
    assert found.file_flags == {"old.c": ["-DONLY=1", "-O2"], "sub/third.c": ["-DTHIRD"]}
    staged = {name: text for name, _, text in csource.staged(found.folder / csource.FILE)}
    assert "CFLAGS_src/old.o := -DONLY=1 -O2\n" in staged["Makefile"]
    assert "-DONLY" not in staged["Makefile"].partition("CFLAGS_src")[0]
    design.load_names(ROOT)


def test_b8_folders_of_a_makefile_are_read(campaign_folder, module):
    (module / "sub").mkdir()
    (module / "sub" / "tcp_mine.c").write_text(control("mine"))
    (module / "sub" / "Makefile").write_text("obj-m := tcp_mine.o\nccflags-y := -DSUB\n")
    (module / "Makefile").write_text("obj-m := sub/ ../\n")
    found, _ = made(campaign_folder, "mine", module)
    assert found.sources == ["sub/tcp_mine.c"]
    assert found.file_flags == {"sub/tcp_mine.c": ["-DSUB"]}


HOSTILE = (
    "X := $(shell touch {0})", "X != touch {0}", "$(file >{0},x)", "$(call shell,touch {0})",
    "X := shell\n$(eval Y := $$($(X) touch {0}))$(Y)", "override SHELL := /bin/sh\nX != touch {0}",
    "include gen.mk\ngen.mk:\n\t+touch {0}", "obj-m: ; touch {0}", "load {0}.so", "$(guile {0})",
    "MAKEFLAGS += --eval=$(shell touch {0})",
)  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE)
def test_b8_strangers_makefile_runs_and_writes_nothing(tmp_path, module, line):
    mark = tmp_path / "mark"
    text = "obj-m := old.o\n" + line.replace("{0}", str(mark)) + "\nobj-m += more.o\n"
    (module / "Makefile").write_text(text)
    build = makefile.read(module)
    assert not mark.exists()
    assert {path.name for path in module.iterdir()} == {"old.c", "old.h", "more.c", "Makefile"}
    assert build.modules == [["old.c"], ["more.c"]] or build.notes


def test_b8_sealed_program_reads_but_starts_writes_and_connects_nothing(tmp_path):
    (tmp_path / "file").write_text("text")
    code = (
        "import os, socket\nfrom losslab.instrument import sealed\nsealed.seal()\n"
        "print(os.read(os.open('file', os.O_RDONLY), 9).decode())\n"
        "def refused(f, *given):\n    try:\n        f(*given)\n    except PermissionError:\n"
        "        print('refused')\n"
        "refused(os.fork)\nrefused(open, 'file', 'w')\nrefused(os.unlink, 'file')\n"
        "refused(open, 'file', 'a')\nrefused(open, 'new', 'x')\nrefused(os.rename, 'file', 'b')\n"
        "refused(os.mkdir, 'd')\nrefused(os.kill, os.getppid(), 15)\nrefused(socket.socket)\n"
        "refused(os.symlink, 'a', 'b')\nrefused(os.chmod, 'file', 0)\n"
        "refused(os.truncate, 'file', 0)"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["text", *["refused"] * 12]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_b8_function_of_another_file_and_generated_header_are_named(campaign_folder, module):
    (module / "Makefile").write_text("obj-m := old.o\nconfig.h:\n\tdate > config.h\n")
    text = (module / "old.c").read_text()
    (module / "old.c").write_text(text + "static int f(void) { return more(); }\n")
    _, notes = made(campaign_folder, "mine", module)
    assert [note for note in notes if "it calls more of more.c" in note]
    (module / "old.c").write_text('#include "config.h"\n' + text)
    with pytest.raises(UsageError, match=r"found no config\.h") as error:
        made(campaign_folder, "other", module)
    assert "run make there first" in error.value.hint


def test_b4_module_that_opens_a_file_has_a_note(campaign_folder, module):
    (module / "old.c").write_text(SOURCE + "static void f(void) { filp_open(0, 0, 0); }\n")
    (module / "old.h").unlink()
    assert "it opens a file (filp_open)" in "; ".join(made(campaign_folder, "mine", module)[1])


def test_b4_messages_of_a_module_are_known_by_its_init_function_and_by_its_formats(tmp_path):
    path = tmp_path / "a" / "tcp_a.c"
    path.parent.mkdir()
    path.write_text(
        '#define pr_fmt(fmt) "mine: " fmt\nstatic void f(void) {\n'
        'pr_info("no table " /* of "gains" */ "in %s, %5.2llu%%\\n", p, n); // "other"\n'
        'printk(KERN_WARNING "%pI4 is far\\n", p); pr_info("%d %u", 1, 2); } "mine"\n'
    )
    log = ["[    0.1] other", "[    0.2] losslab: init of a begins", "[    0.2] 7",
           "losslab: registration of a returned 0", "[    0.2] losslab: init of a returned 0",
           "[    0.3] losslab: init of b begins", "of b", "losslab: init of b returned 0",
           "[   21.0] mine: no table in /x y, 12%", "[   21.0] 10.0.1.1 is far", "mine",
           "[   21.0] 1 2", "[   21.0] WARNING: CPU: 0 PID: 31 at mine",
           "[   21.0] TCP: 10.0.1.1 is far away"]  # fmt: skip
    assert csource.printed(log, [path]) == [log[2], *log[8:11]]
    assert csource.printed(log, []) == []
    assert csource.untimed(log[9]) == "10.0.1.1 is far"


LP = """\
static u32 owd(struct sock *sk)
{
\tif (tcp_time_stamp - tp->rx_opt.rcv_tsecr > HZ)
\t\treturn 0;
\treturn tp->rx_opt.rcv_tsval * (1000 / hz) - tp->rx_opt.rcv_tsecr * (1000 / HZ);
}
static void ack(struct sock *sk)
{
\tlast = tcp_time_stamp + HZ;
}
"""


def test_structs_that_share_a_function_have_one_definition_of_its_hook():
    text = "".join(
        f"static struct tcp_congestion_ops {name} = {{\n\t.pkts_acked = acked,\n}};\n"
        for name in ("mine", "mine_rtt")
    )
    found = csource.prepared(text)
    assert found.count("LOSSLAB_DEFINE_pkts_acked(acked)") == 1
    assert found.count("LOSSLAB_USE_pkts_acked(acked)") == 2


def test_versions_of_modules_that_become_one_part_are_left_out():
    text = 'MODULE_VERSION("1.0");\nMODULE_LICENSE("GPL");\n'
    assert csource.prepared(text) == '\nMODULE_LICENSE("GPL");\n'


@pytest.mark.parametrize("export", ["EXPORT_SYMBOL(more);\n", ""])
def test_module_of_the_folder_that_exports_what_another_calls_is_a_part_of_it(
    campaign_folder, module, export
):
    (module / "Makefile").write_text("obj-m := old.o more.o\n")
    text = (module / "old.c").read_text()
    (module / "old.c").write_text(text + "static int f(void) { return more(); }\n")
    (module / "more.c").write_text(f"__used int\nmore(void)\n{{\n\treturn 1;\n}}\n{export}")
    its, notes = made(campaign_folder, "mine", module)
    assert (its.sources == ["old.c", "more.c"]) == bool(export)
    expected = "more.c exports what it calls" if export else "it calls more of more.c"
    assert [note for note in notes if expected in note]


def test_b7_timestamps_of_old_modules_have_their_own_unit():
    """One unit of a timestamp is 1 ms, and of the clock 4 ms; they were equal before 4.13."""
    found = csource.prepared(LP)
    assert "if (((u32)tcp_clock_ms()) - tp->rx_opt.rcv_tsecr > TCP_TS_HZ)" in found
    assert "rcv_tsecr * (1000 / TCP_TS_HZ)" in found
    assert "last = tcp_jiffies32 + HZ;" in found
    newer = LP.replace("tcp_time_stamp", "tcp_jiffies32")
    assert csource.prepared(newer) == newer


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("error: implicit declaration of function 'get_seconds'", "5.11"),
        ("error: 'CA_EVENT_DELAYED_ACK' undeclared", "4.19"),
        ("fatal error: stdbool.h: No such file or directory", "linux/types.h"),
        ("error: 'struct sk_buff' has no member named 'skb_mstamp'", "4.20"),
        ("error: too few arguments to function 'ops->cong_control'", "6.10"),
        ("ld: undefined reference to `more'", "another file of the module"),
        ("error: 'struct tcp_sock' has no member named 'srtt'", "srtt_us"),
        ("error: 'CA_EVENT_SLOW_ACK' undeclared", "3.18"),
        ("error: too few arguments to function 'tcp_slow_start'", "3.18"),
        ("error: too few arguments to function '__tcp_send_ack'", "flags"),
        ("error: 'struct tcp_congestion_ops' has no member named 'new_chirp'", "patched kernel"),
    ],
)
def test_b9_change_of_linux_is_named_with_its_version(message, word):
    assert word in "".join(csource.explained(message))


def test_macro_around_an_error_is_no_cause():
    """Every error in an argument of max() has notes of its macros."""
    message = "error: no member named 'x'\nminmax.h:93:27: note: in expansion of macro '__types_ok'"
    assert not csource.explained(message)


def test_b9_parameters_of_a_macro_are_no_names():
    text = "#define P(x) \\\n static int x; \\\n module_param(x, int, 0644);\nint g = 2;\n"
    text += "module_param(g, int, 0644);\n"
    assert [each[0] for each in module_parameters(text)] == ["g"]


@pytest.mark.parametrize(("compiles", "kernel_name"), [(True, "default"), (False, "6.12-bbr3")])
def test_b3_kernel_is_chosen_by_compiling_and_the_user_overrules(
    campaign_folder, module, monkeypatch, compiles, kernel_name
):
    text = (
        (module / "old.c").read_text().replace(".cong", "#ifdef X\n.tso_segs = f,\n#endif\n.cong")
    )
    (module / "old.c").write_text(text)

    def build(**_):
        if not compiles:
            raise kerneltree.SourceError("found:\nold.c:1: error: no member named 'tso_segs'")

    part = SimpleNamespace(build=build, existing=lambda: module)
    monkeypatch.setattr(kernel, "objects", lambda spec: part)
    monkeypatch.setattr(kernel, "part", lambda spec, check: part)
    _, notes = made(campaign_folder, "mine", module)
    assert load_algorithms(campaign_folder / new.ALGORITHMS)[-1]["kernel"] == kernel_name
    assert "--kernel" in notes[-1]
    names = design.load_names(ROOT)
    for chosen in ("6.12", "6.12-bbr3"):
        condition = Condition(algorithm="mine", kernel=chosen)
        assert not [each for each in names.problems(condition) if "kernel must be" in each]
        assert names.kernel(condition) == chosen
