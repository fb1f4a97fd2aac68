"""Changes of a kernel's source; a small tree stands in for the kernel's."""

import subprocess
from types import SimpleNamespace

import pytest

from losslab.errors import LosslabError
from losslab.instrument import kernel, kernels, kernelsource, kerneltree

FILES = {
    "net/ipv4/tcp_cubic.c": "one\ntwo\nthree\nfour\nfive\n",
    "net/ipv4/route.c": "v4\n",
    "net/ipv6/route.c": "v6\n",
    "net/ipv4/Kconfig": "config X\n",
}


@pytest.fixture
def tree(monkeypatch, tmp_path):
    folder = tmp_path / "kept"
    for name, text in FILES.items():
        path = folder / "linux" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(kernel, "objects", lambda _: SimpleNamespace(build=lambda _: folder))
    return folder / "linux"


def of_files(tmp_path, *given):
    return kernelsource.make_change(list(map(str, given)), kernels.default(), tmp_path / "files")


def written(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def patch(tmp_path, name, texts):
    """Write a patch that gives files of the tree other texts."""
    old, new = tmp_path / f"{name}-a", tmp_path / f"{name}-b"
    for each, (before, after) in texts.items():
        for folder, text in ((old, before), (new, after)):
            if text is not None:
                written(folder, each, text)
        old.mkdir(exist_ok=True)
    command = ["git", "diff", "--no-index", "--no-prefix", old.name, new.name]
    text = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    text = text.replace(f"{old.name}/", "a/").replace(f"{new.name}/", "b/")
    return written(tmp_path, f"{name}.patch", text)


@pytest.mark.parametrize(
    ("file", "text", "place"),
    [
        ("my/tcp_cubic.c", "mine\n", "net/ipv4/tcp_cubic.c"),
        ("checkout/net/ipv6/route.c", "mine\n", "net/ipv6/route.c"),
        ("tcp_cubic.c", FILES["net/ipv4/tcp_cubic.c"], None),  # equal: no change
    ],
)
def test_file_replaces_the_one_of_its_place_or_name(tree, tmp_path, file, text, place):
    found = of_files(tmp_path, written(tmp_path, file, text))
    assert found.paths == ((place,) if place else ())
    assert all((found.folder / path).read_text() == text for path in found.paths)


def test_place_of_an_ambiguous_name_must_be_given(tree, tmp_path):
    its = written(tmp_path, "route.c", "mine\n")
    with pytest.raises(LosslabError, match=r"net/ipv4/route.c, net/ipv6/route.c"):
        of_files(tmp_path, its)
    (tmp_path / "files").rmdir()
    assert of_files(tmp_path, f"net/ipv6/route.c={its}").paths == ("net/ipv6/route.c",)


@pytest.mark.parametrize("name", ["nothing.c", "unknown.c"])
def test_unknown_file_is_refused(tree, tmp_path, name):
    written(tmp_path, "unknown.c", "")
    with pytest.raises(LosslabError, match="must"):
        of_files(tmp_path, tmp_path / name)


def test_patches_of_a_series_apply_in_order(tree, tmp_path):
    before = FILES["net/ipv4/tcp_cubic.c"]
    middle = before.replace("two", "TWO")
    first = patch(tmp_path, "0001", {"net/ipv4/tcp_cubic.c": (before, middle)})
    last = patch(
        tmp_path, "0002", {"net/ipv4/tcp_cubic.c": (middle, middle.replace("TWO", "2"))}
    )  # fmt: skip
    series = tmp_path / "series"
    series.mkdir()
    for each in (first, last):
        each.rename(series / each.name)
    found = of_files(tmp_path, series)
    assert found.paths == ("net/ipv4/tcp_cubic.c",)
    assert (found.folder / found.paths[0]).read_text() == before.replace("two", "2")


def test_patched_files_without_an_object_are_skipped_and_new_ones_added(tree, tmp_path):
    texts = {
        "net/ipv4/tcp_cubic.c": ("one\n", "1\n"),
        "drivers/gone.c": ("a\n", "b\n"),
        "net/ipv4/new.c": (None, "new\n"),
        "net/ipv4/Kconfig": ("config X\n", "config Y\n"),
    }
    its = patch(tmp_path, "its", texts)
    (tree / "net/ipv4/tcp_cubic.c").write_text("one\n")
    found = of_files(tmp_path, its)
    assert set(found.paths) == {"net/ipv4/tcp_cubic.c", "net/ipv4/new.c", "net/ipv4/Kconfig"}
    assert found.added == ("net/ipv4/new.c",)
    assert found.skipped == ("drivers/gone.c",)
    # No object of the kernel has the new file.
    (tmp_path / kerneltree.UNCOMPILED).write_text("net/ipv4/new.c\n")
    with pytest.raises(LosslabError, match=r"no object has net/ipv4/new\.c"):
        kernelsource.require_compiled(found, [tmp_path / "linux"])


def test_patch_of_other_paths_than_the_sources_is_refused(tree, tmp_path):
    found = of_files(tmp_path, patch(tmp_path, "its", {"src/tcp_cubic.c": ("a\n", "b\n")}))
    with pytest.raises(LosslabError, match=r"no object has src/tcp_cubic\.c"):
        kernelsource.require_compiled(found, [tmp_path / "linux"])


@pytest.mark.parametrize("text", [None, "no patch\n"])
def test_patch_that_does_not_apply_is_refused(tree, tmp_path, text):
    its = patch(tmp_path, "its", {"net/ipv4/tcp_cubic.c": ("other\n", "1\n")})
    its.write_text(text or its.read_text())
    with pytest.raises(kerneltree.SourceError, match="must apply"):
        of_files(tmp_path, its)
