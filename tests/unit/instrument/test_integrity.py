"""Changes of a built kernel or image are detected, refused and named."""

import os
import shutil
import stat
import time

import pytest

from losslab.errors import HostError, LosslabError
from losslab.instrument import fetch, image, integrity

RECIPE = "0123456789abcdef"


@pytest.fixture(autouse=True)
def new_process(monkeypatch, tmp_path):
    """Forget earlier tests, and use only a test's own pins."""
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")
    restart()
    yield
    restart()


def restart():
    """Forget what this process verified."""
    integrity._checked.clear()


@pytest.fixture
def root(tmp_path):
    """Return a small image with the list of its files."""
    root = tmp_path / "cache" / "image" / RECIPE / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/iperf3").write_text("iperf3")
    (root / "usr/bin/iperf3").chmod(0o755)
    (root / "usr/bin/tc").write_text("tc")
    (root / "bin").symlink_to("usr/bin")
    (root / "empty").mkdir()
    (root / "init").write_text("#!/bin/sh")
    integrity.record_tree(root.parent, RECIPE)
    return root


def pin(root):
    sha256 = integrity.list_digest((root.parent / integrity.LIST).read_text())
    integrity.write_pins({RECIPE: ("host", sha256)})
    return sha256


def flipped_bit(root):
    path = root / "usr/bin/tc"
    its = path.stat()
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    os.utime(path, ns=(its.st_atime_ns, its.st_mtime_ns))


def replaced_program(root):
    (root / "usr/bin/iperf3").rename(root / "usr/bin/iperf3.real")
    (root / "usr/bin/iperf3").write_text("#!/bin/sh\nexec iperf3.real --set-mss 536 $*\n")
    (root / "usr/bin/iperf3").chmod(0o755)


def replaced_link(root):
    (root / "bin").unlink()
    (root / "bin").symlink_to("empty")


def fifo(root):
    os.mkfifo(root / "empty/pipe")


CHANGES = {
    "a flipped bit": (flipped_bit, "usr/bin/tc has another content"),
    "a replaced program": (replaced_program, "usr/bin/iperf3 has another size and content"),
    "a deleted file": (lambda root: (root / "init").unlink(), "init is missing"),
    "a deleted folder": (lambda root: (root / "empty").rmdir(), "empty is missing"),
    "an added file": (lambda root: (root / "empty/x").touch(), "empty/x was added"),
    "another mode": (lambda root: (root / "init").chmod(0o755), "init has another mode"),
    "a replaced link": (replaced_link, "bin has another content"),
    "a FIFO": (fifo, "found a device, a socket or a FIFO"),
    "no image": (shutil.rmtree, "No such file"),
}


@pytest.mark.parametrize("midway", [False, True], ids=["before a campaign", "between replicates"])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_an_image_is_refused_and_named(change, midway, root):
    spoil, words = CHANGES[change]
    integrity.require(None, [root])
    if not midway:
        restart()
    spoil(root)
    with pytest.raises(HostError, match=words) as error:
        integrity.require(None, [root], again=midway)
    assert str(root) in error.value.message
    assert "make setup" in error.value.hint


def test_files_are_hashed_once_and_then_compared_by_metadata(root, monkeypatch):
    def read(root):
        raise AssertionError("files must not be read again")

    time.sleep(0.02)  # the list must be newer than the files
    expected = integrity.require(None, [root], whole=True)
    assert expected == {root: pin(root)}
    restart()
    monkeypatch.setattr(integrity, "listing", read)
    assert integrity.require(None, [root]) == expected
    with pytest.raises(AssertionError):
        integrity.require(None, [root], whole=True)


def test_copied_cache_is_read_completely(root, tmp_path):
    expected = list(integrity.require(None, [root]).values())
    copy = tmp_path / "copy" / RECIPE
    shutil.copytree(root.parent, copy, symlinks=True)
    assert list(integrity.require(None, [copy / "root"]).values()) == expected
    restart()
    replaced_program(copy / "root")
    with pytest.raises(HostError, match=r"usr/bin/iperf3\.real was added"):
        integrity.require(None, [copy / "root"])


def test_change_is_found_although_the_list_was_hard_linked_after_it(root):
    pin(root)
    replaced_program(root)
    time.sleep(0.01)  # longer than a tick of the file system's clock
    (root.parent.parent / "copy of the list").hardlink_to(root.parent / integrity.LIST)
    with pytest.raises(HostError, match="usr/bin/iperf3 has another size and content"):
        integrity.require(None, [root])


def test_pinned_image_is_refused_even_with_a_replaced_list(root):
    pinned = pin(root)
    replaced_program(root)
    (root.parent / integrity.LIST).unlink()
    integrity.record_tree(root.parent, "")
    with pytest.raises(HostError, match=f"SHA-256 {pinned[:12]}.*another tree"):
        integrity.require(None, [root])


def test_pinned_image_gets_a_new_list(root):
    expected = pin(root)
    for spoil in (lambda path: path.unlink(), lambda path: path.write_text("")):
        path = root.parent / integrity.LIST
        spoil(path)
        restart()
        assert integrity.require(None, [root]) == {root: expected}
        assert integrity.list_digest(path.read_text()) == expected


def test_build_of_another_tree_than_pinned_is_refused_and_leaves_its_list(
    root, tmp_path, monkeypatch
):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "kept"))
    pin(root)
    (root.parent / integrity.LIST).unlink()
    flipped_bit(root)
    with pytest.raises(LosslabError, match="must have the SHA-256") as error:
        integrity.record_tree(root.parent, RECIPE)
    kept = tmp_path / "kept" / "image" / f"{RECIPE}.{integrity.LIST}"
    assert str(kept) in error.value.hint
    assert kept.read_text() == integrity.listing(root)


@pytest.fixture
def linux(tmp_path):
    folder = tmp_path / "cache" / "kernel" / RECIPE
    folder.mkdir(parents=True)
    write_kernel(folder / "linux", "a kernel")
    return folder / "linux"


def write_kernel(linux, text):
    """Write a kernel and its digest file."""
    linux.write_text(text)
    (linux.parent / integrity.LINUX_DIGEST).write_text(fetch.digest(linux) + "\n")


def test_campaign_keeps_its_first_instrument(linux, root, tmp_path):
    records = tmp_path / "results" / "instrument"
    digests = integrity.require(linux, [root])
    for _ in range(2):
        integrity.same_in_campaign(digests, records)
    assert sorted(path.name for path in records.iterdir()) == [
        f"image-{RECIPE}.sha256", f"kernel-{RECIPE}.sha256",
    ]  # fmt: skip
    restart()
    write_kernel(linux, "another kernel")
    with pytest.raises(HostError, match="must be the one that this campaign began with") as error:
        integrity.same_in_campaign(integrity.require(linux, [root]), records)
    record = records / f"kernel-{RECIPE}.sha256"
    assert str(record) in error.value.hint
    record.unlink()
    integrity.same_in_campaign(integrity.require(linux, [root]), records)


def test_unwritable_record_is_an_error_without_traceback(linux, tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(LosslabError, match="must be writable"):
        integrity.same_in_campaign(integrity.require(linux, []), tmp_path / "results" / "x")


def test_malformed_pins_are_refused(root):
    integrity.PINS.write_text("nonsense\n")
    with pytest.raises(LosslabError, match="must have the columns"):
        integrity.require(None, [root])


def test_file_names_of_any_bytes_are_listed_in_ascii(tmp_path):
    names = [b"plain", b"two words", b"tab\tnew\nline", b"back\\slash", b"\xff\xfe", "Fő".encode()]
    for name in names:
        (tmp_path / os.fsdecode(name)).touch()
    text = integrity.listing(tmp_path)
    assert text.isascii()
    assert len(text.splitlines()) == len(names) + 2
    assert integrity.unchanged(tmp_path, text, time.time_ns())
    assert not integrity.unchanged(tmp_path, text, 0)


def test_tree_digest_covers_what_programs_read(tmp_path):
    """Times, which a copy changes, and the order in which files were made do not count."""
    for folder, order in (("a", (1, 2)), ("b", (2, 1))):
        (tmp_path / folder).mkdir()
        for number in order:
            (tmp_path / folder / str(number)).write_text(f"{number}")
            os.utime(tmp_path / folder / str(number), (number, number))
    assert integrity.listing(tmp_path / "a") == integrity.listing(tmp_path / "b")
    (tmp_path / "b/1").chmod(stat.S_ISUID | 0o644)
    assert integrity.differences(
        integrity.listing(tmp_path / "a"), integrity.listing(tmp_path / "b")
    ) == ["1 has another mode"]


def test_every_image_of_the_current_recipe_has_a_pinned_tree(monkeypatch):
    monkeypatch.setattr(integrity, "PINS", integrity.ROOT / "containers" / "trees.tsv")
    wanted = {image.content_hash(name): name for name in image.names()}
    assert {recipe: name for recipe, (name, _) in integrity.pins().items()} == wanted, (
        "`losslab image --variant NAME --pin-tree` pins the tree of an image"
    )
