"""Packed instruments from a folder and from a server: complete, damaged, wrong or missing."""

import json
import os
import socket

import pytest

from losslab.errors import LosslabError
from losslab.instrument import archive, image, integrity, kernel, packed

NAME = "0123456789abcdef"
ARCHIVE = f"kernel-{NAME}.tar.zst"
SUM = f"{ARCHIVE}.sha256"


@pytest.fixture(autouse=True)
def no_pins(monkeypatch, tmp_path):
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")


def built(folder, name=NAME, pinned=True):
    """Write the files of a finished build."""
    folder = folder / name
    (folder / "root").mkdir(parents=True)
    (folder / "linux").write_bytes(os.urandom(50_000))
    (folder / "linux").chmod(0o755)
    (folder / "root" / "sh").symlink_to("/bin/dash")
    (folder / "root" / "one").write_text("1")
    os.link(folder / "root" / "one", folder / "root" / "other")
    os.utime(folder / "linux", ns=(10**18 + 7, 10**18 + 7))
    (folder / "linux.sha256").write_text(archive.digest(folder / "linux") + "\n")
    (folder / "build.log").write_text("long")
    write_provenance(folder, hash=name, pinned=pinned)
    return folder


def write_provenance(folder, **facts):
    """Write the provenance of a kernel's build, with a test's changes."""
    known = {"version": "6.12.1", "source": {"from": "debian"}, "patches": ["1.patch"],
             "config_sha256": "0" * 64}  # fmt: skip
    (folder / "provenance.json").write_text(json.dumps(known | facts))


@pytest.fixture
def archives(tmp_path):
    folder = built(tmp_path / "built")
    packed.pack(folder, packed.KERNEL, tmp_path / "instruments")
    return tmp_path / "instruments"


@pytest.fixture
def place(request, archives, server, monkeypatch):
    """Return the archives' folder, or a server with the folder's current files."""
    if request.param == "folder":
        monkeypatch.setenv(packed.PLACE, str(archives))
        return lambda: None
    monkeypatch.setenv(packed.PLACE, f"{server.url}/instruments/")

    def publish():
        files = {f"/instruments/{path.name}": path.read_bytes() for path in archives.iterdir()}
        server.files |= files

    return publish


def test_symlink_at_an_archives_path_is_not_followed(tmp_path):
    """Other users may be able to write to the archives' folder."""
    victim, out = tmp_path / "victim", tmp_path / "instruments"
    victim.write_text("as it was")
    out.mkdir()
    name = f"{packed.KERNEL}-{NAME}.tar.zst"
    for planted in (f".{name}.partial", name):
        (out / planted).symlink_to(victim)
    packed.pack(built(tmp_path / "built"), packed.KERNEL, out)
    assert victim.read_text() == "as it was"
    assert not (out / name).is_symlink()


def both(test):
    return pytest.mark.parametrize("place", ["folder", "server"], indirect=True)(test)


@both
def test_packed_instrument_is_fetched_again(place, tmp_path):
    place()
    target = tmp_path / "cache" / "kernel" / NAME
    assert packed.install(packed.KERNEL, target)
    original = tmp_path / "built" / NAME
    assert (target / "linux").read_bytes() == (original / "linux").read_bytes()
    now, before = (target / "linux").stat(), (original / "linux").stat()
    assert (int(now.st_mtime), now.st_mode) == (int(before.st_mtime), before.st_mode)
    assert (target / "root" / "one").stat().st_ino == (target / "root" / "other").stat().st_ino
    assert not (target / "build.log").exists()
    assert set(json.loads((target / packed.ORIGIN).read_text())) == {"from", "sha256"}
    assert not [p.name for p in target.parent.iterdir() if "partial" in p.name]


def corrupted(archives):
    content = bytearray((archives / ARCHIVE).read_bytes())
    content[len(content) // 2] ^= 1
    (archives / ARCHIVE).write_bytes(content)


def truncated(archives):
    content = (archives / ARCHIVE).read_bytes()
    (archives / ARCHIVE).write_bytes(content[: len(content) // 2])


def larger(archives):
    with (archives / ARCHIVE).open("ab") as file:
        file.write(b"more")


def missing(archives):
    (archives / ARCHIVE).unlink()


def no_sum(archives):
    (archives / SUM).write_text("<html>not found</html>")


def made_of_another(archives):
    """Rename the archive of another instrument."""
    other = built(archives.parent / "more", "fedcba9876543210")
    packed.pack(other, packed.KERNEL, archives)
    (archives / "kernel-fedcba9876543210.tar.zst").rename(archives / ARCHIVE)
    (archives / SUM).write_text(f"{archive.digest(archives / ARCHIVE)}  {ARCHIVE}\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (corrupted, "its .sha256 says"),
        (truncated, "its .sha256 says"),
        (larger, "its .sha256 says"),
        (missing, f"{ARCHIVE}: not there"),
        (no_sum, "its .sha256 says '<html>"),
        (made_of_another, "every member must be in the folder 0123456789abcdef"),
    ],
)
@both
def test_wrong_packed_instrument_is_refused(place, archives, spoil, words, tmp_path, capsys):
    spoil(archives)
    place()
    target = tmp_path / "cache" / "kernel" / NAME
    assert not packed.install(packed.KERNEL, target)
    said = capsys.readouterr()
    assert words in said.err
    assert f"losslab: note: kernel {NAME} was not fetched from " in said.err
    assert said.out == ""
    assert [p.name for p in target.parent.iterdir()] == [f".{NAME}.lock"]


def test_unreachable_server_is_reported(tmp_path, monkeypatch, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv(packed.PLACE, f"http://127.0.0.1:{port}")
    assert not packed.install(packed.KERNEL, tmp_path / "cache" / "kernel" / NAME)
    assert "cannot be reached" in capsys.readouterr().err


def test_aborted_download_is_reported(tmp_path, archives, server, monkeypatch, capsys):
    monkeypatch.setenv(packed.PLACE, f"{server.url}/instruments")
    server.files |= {f"/instruments/{p.name}": p.read_bytes() for p in archives.iterdir()}
    server.busy = 100
    assert not packed.install(packed.KERNEL, tmp_path / "cache" / "kernel" / NAME)
    assert "HTTP 429" in capsys.readouterr().err


def test_without_an_address_no_server_is_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(packed.PLACE, raising=False)
    assert not packed.install(packed.KERNEL, tmp_path / "cache" / "kernel" / NAME)
    assert capsys.readouterr().err == ""


def test_unpinned_instrument_is_not_packed(tmp_path):
    with pytest.raises(LosslabError, match="must be pinned"):
        packed.pack(built(tmp_path, pinned=False), packed.KERNEL, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def made_of(tmp_path):
    """Return a function that writes a finished build of a kind, and packs it."""

    def make(kind, name):
        folder = built(tmp_path / "built", name)
        if kind == packed.IMAGE:
            provenance = {"suite": "trixie", "hash": name, "pinned": True,
                          "packages_sha256": "0" * 64, "packages": {"bash": "5"}}  # fmt: skip
            (folder / "provenance.json").write_text(json.dumps(provenance))
            integrity.record_tree(folder, "")
            integrity.write_pins({name: ("host", archive.digest(folder / integrity.LIST))})
        packed.pack(folder, kind, tmp_path / "instruments")
        return folder

    return make


@pytest.mark.parametrize(("module", "builder"), [(kernel, kernel), (image, image)])
def test_set_up_fetches_without_building(module, builder, made_of, tmp_path, monkeypatch):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    wanted = module.target()
    made_of(module.__name__.rpartition(".")[2], wanted.name)
    monkeypatch.setenv(packed.PLACE, str(tmp_path / "instruments"))
    # A build would fail: its requirements are absent.
    monkeypatch.setenv("LOSSLAB_ARCHIVE", "http://127.0.0.1:1/debian")
    assert builder.build() == wanted
    assert module.existing() == wanted
    if module is image:
        assert os.readlink(wanted / "root" / "sh") == "/bin/dash"


def test_image_of_another_tree_than_pinned_is_refused(made_of, tmp_path, monkeypatch, capsys):
    made_of(packed.IMAGE, NAME)
    monkeypatch.setenv(packed.PLACE, str(tmp_path / "instruments"))
    integrity.write_pins({NAME: ("host", "f" * 64)})
    assert not packed.install(packed.IMAGE, tmp_path / "cache" / "image" / NAME)
    assert "pins, ffffffffffff, found" in capsys.readouterr().err


def test_image_whose_files_nobody_pins_is_not_packed(made_of, tmp_path):
    folder = made_of(packed.IMAGE, NAME)
    integrity.write_pins({})
    with pytest.raises(LosslabError, match="must be listed in"):
        packed.pack(folder, packed.IMAGE, tmp_path / "out")


def test_changed_build_is_not_packed(tmp_path):
    folder = built(tmp_path)
    (folder / "linux").write_bytes(b"another")
    with pytest.raises(LosslabError, match="found another"):
        packed.pack(folder, packed.KERNEL, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.zst"))
