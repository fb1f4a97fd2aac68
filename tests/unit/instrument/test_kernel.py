"""The kernel: its source, and options that its configuration drops."""

import dataclasses
import hashlib
import json
import tarfile

import pytest

from losslab.errors import LosslabError
from losslab.instrument import kernel, kernels, kerneltree
from losslab.instrument.fetch import UnavailableError

from .servers import file_of


def test_dropped_symbols_are_named():
    fragment = "# comment\nCONFIG_A=y\nCONFIG_B=250\nCONFIG_C=n\nCONFIG_D=y\n"
    config = "CONFIG_A=y\nCONFIG_B=100\nCONFIG_C=y\n# CONFIG_D is not set\n"
    assert kernel.dropped_symbols(fragment, config) == ["CONFIG_B", "CONFIG_C", "CONFIG_D"]


SERIES = kernels.default().series


def in_archive(build):
    return "/debian-security/" + build.path


def test_debians_source_is_fetched_and_unpacked(source, server, tmp_path):
    pinned, contents = source
    server.files[in_archive(pinned.builds[0])] = contents[0]
    found = kernel.fetch_source(SERIES)
    assert found.provenance() == {"from": "debian", "version": "6.12.1"}
    found.unpack(tmp_path, tmp_path / "tree", tmp_path / "log")
    assert (tmp_path / "tree" / "Makefile").read_text() == "# Linux\n"


def test_files_of_other_architectures_are_not_unpacked(tmp_path):
    read = {
        "arch/um/a.c", "arch/x86/a.h", "arch/x86/um/a.S", "arch/arm/Kconfig", "drivers/base/a.c",
        "drivers/gpu/Kconfig", "drivers/net/veth.c", "drivers/net/ethernet/Makefile", "net/a.c",
        "tools/include/a.h", "Documentation/Kconfig",
    }  # fmt: skip
    unread = {
        "arch/arm/a.c", "arch/arm64/boot/a.dts", "arch/xtensa/a.S", "drivers/gpu/drm/amd/a.c",
        "drivers/net/ethernet/a.c", "sound/soc/a.h", "Documentation/networking/a.rst",
    }  # fmt: skip
    for name in read | unread:
        path = tmp_path / "linux-2" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    packed = tmp_path / "all.tar.xz"
    with tarfile.open(packed, "w:xz") as tar:
        tar.add(tmp_path / "linux-2", "linux-2")
    found = kernel.Source(SERIES, "my own", "", packed, pinned=True)
    tree = tmp_path / "tree"
    found.unpack(tmp_path, tree, tmp_path / "log")
    assert {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()} == read


def test_either_build_in_the_archive_precedes_the_snapshot(source, server):
    pinned, contents = source
    snapshot = f"/snapshot/file/{pinned.builds[0].sha1}"
    server.files = {in_archive(pinned.builds[1]): contents[1], snapshot: contents[0]}
    found = kernel.fetch_source(SERIES)
    # Both builds have the same tree, and therefore the same manifest.
    assert found.provenance() == {"from": "debian", "version": "6.12.1"}
    assert found.file.name == pinned.builds[1].sha256
    found.file.unlink()
    del server.files[in_archive(pinned.builds[1])]
    assert kernel.fetch_source(SERIES).file.name == pinned.builds[0].sha256


def compile_(which, source, work, log):
    """Write the smallest tree to which an algorithm can be added."""
    tree = work / kerneltree.NAME
    (tree / kerneltree.IPV4).mkdir(parents=True)
    (tree / kerneltree.IPV4 / "Makefile").touch()
    (tree / "Makefile").write_text("linux:\nkernelversion:\n\techo 6.12.1\n")
    (tree / ".config").touch()
    return tree


def build_kernel(monkeypatch, unpinned):
    def finish(facts, tree, folder):
        (folder / "provenance.json").write_text(json.dumps(facts))

    monkeypatch.setattr(kernel, "_compiled", compile_)
    monkeypatch.setattr(kernel, "_finish", finish)
    folder = kernel.part().build(unpinned)
    assert kernel.part().existing() == folder
    return folder.name, kernel.provenance(folder)


def test_another_kernel_source_is_refused_without_permission_and_reported_with_it(
    source, server, monkeypatch, capsys
):
    pinned, contents = source
    path = "pool/updates/main/l/linux/new_6.12.2-1_all.deb"
    server.files["/debian-security/" + path] = b"newer"
    newer = file_of("linux-source_6.12.2-1_all.deb", b"newer")
    monkeypatch.setattr(kernel, "apt_files", lambda *_: [(newer, path)])
    with pytest.raises(UnavailableError, match=SERIES.package):
        build_kernel(monkeypatch, unpinned=False)
    name, facts = build_kernel(monkeypatch, unpinned=True)
    assert name == kernel.part().target(pinned=False).name
    assert facts["pinned"] is False
    assert facts["source"]["version"] == "6.12.2-1"
    assert facts["source"]["sha256"] == hashlib.sha256(b"newer").hexdigest()
    assert "unpinned kernel" in capsys.readouterr().err
    server.files[in_archive(pinned.builds[0])] = contents[0]
    name, facts = build_kernel(monkeypatch, unpinned=False)
    assert facts["pinned"] is True
    assert name == kernel.part().target().name


def test_source_file_with_other_fields_is_refused(tmp_path):
    series = dataclasses.replace(SERIES, folder=tmp_path)
    text = SERIES.pins.read_text()
    for before, after in (("sha1 =", "sha3 ="), ("version =", "more = 1\nversion =")):
        series.pins.write_text(text.replace(before, after, 1))
        with pytest.raises(LosslabError, match="must name version"):
            kernel.pins(series)


def test_comment_in_the_configuration_does_not_rebuild_the_kernel(monkeypatch, tmp_path):
    fragment = tmp_path / "fragment.config"
    fragment.write_text("# why\nCONFIG_A=y\n")
    monkeypatch.setattr(kernel, "fragments", lambda which: [fragment])
    before = kernel.content_hash()
    fragment.write_text("# why, at length\nCONFIG_A=y\n")
    assert kernel.content_hash() == before
    fragment.write_text("# why\nCONFIG_A=n\n")
    assert kernel.content_hash() != before
