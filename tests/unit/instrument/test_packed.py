"""Packed instruments from a folder and a server: complete, damaged, wrong, missing or hostile."""

import argparse
import http.server
import io
import json
import os
import random
import re
import socket
import tarfile
import threading
import urllib.error
import urllib.request

import pytest
import zstandard

from losslab.errors import LosslabError
from losslab.instrument import archive, image, integrity, kernel, kernels, packed, records

NAME = "0123456789abcdef"
ARCHIVE = f"kernel-{NAME}.tar.zst"
SUM = f"{ARCHIVE}.sha256"


@pytest.fixture(autouse=True)
def no_pins(monkeypatch, tmp_path):
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")
    monkeypatch.setattr(archive, "BACKOFF_S", 0.0)


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


def test_served_archives_and_wheels_are_fetched_and_no_other_file(made_of, tmp_path, monkeypatch):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    wanted, folder = kernel.target(), tmp_path / "instruments"
    made_of("kernel", wanted.name)
    (folder / "notes.txt").write_text("private")
    wheel = folder / "losslab-1.0.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    with records.server(folder, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv(packed.PLACE, place)
        assert kernel.build() == wanted
        with urllib.request.urlopen(f"{place}/") as page:
            assert page.read().decode() == f'<a href="{wheel.name}">{wheel.name}</a>\n'
        with urllib.request.urlopen(f"{place}/{wheel.name}") as file:
            assert file.read() == b"wheel"
        for path in ("/notes.txt", "/../built/linux", "/%2e%2e/a.tar.zst", "/%2e%2e/a.whl"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(place + path)
        server.shutdown()


@pytest.mark.parametrize("wheels", [[], ["losslab", "losslab_exercise", "scipy"]])
def test_server_prints_the_lines_to_paste(wheels, made_of, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(records, "DEFAULT_PARTS", ())
    monkeypatch.setattr(http.server.ThreadingHTTPServer, "serve_forever", lambda self: None)
    for name in wheels:
        (tmp_path / f"{name}-1.0-py3-none-any.whl").touch()
    options = argparse.Namespace(out=tmp_path, address="127.0.0.1", port=0, parts=[])
    assert records._serve(options) == 0
    _, *install, last = capsys.readouterr().out.splitlines()
    program = "~/losslab/bin/losslab" if wheels else "losslab"
    assert re.fullmatch(rf"  LOSSLAB_INSTRUMENTS=http://127\.0\.0\.1:\d+ {program} setup", last)
    names = [line.rpartition("--trusted-host 127.0.0.1 ")[2] for line in install[1:]]
    assert names == (["losslab losslab-exercise"] if wheels else [])


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


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Return a function that fails to fetch a kernel, leaves nothing, and returns the note."""

    def take(place):
        monkeypatch.setenv(packed.PLACE, str(place))
        target = tmp_path / "cache" / "kernel" / NAME
        assert not packed.install(packed.KERNEL, target)
        assert [path.name for path in target.parent.iterdir()] == [f".{NAME}.lock"]
        return capsys.readouterr().err

    return take


@pytest.fixture
def answering():
    """Return a function that starts a server which answers every request with the given blocks."""
    listening = []

    def start(blocks):
        ours = socket.create_server(("127.0.0.1", 0))
        listening.append(ours)

        def serve():
            while True:
                try:
                    connection, _ = ours.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    try:
                        for block in blocks():
                            connection.sendall(block)
                    except OSError:
                        pass

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{ours.getsockname()[1]}"

    yield start
    for ours in listening:
        ours.close()


def endless():
    yield HEAD + b"\r\n"
    while True:
        yield b"x" * 2**16


def member(name, content=b"", **more):
    """Return a member of an archive."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for key, value in more.items():
        setattr(info, key, value)
    return info, io.BytesIO(content)


def publish(place, members, **options):
    """Write an archive with these members, and its SHA-256."""
    place.mkdir()
    stream = zstandard.open(place / ARCHIVE, "wb")
    with stream, tarfile.open(fileobj=stream, mode="w|", **options) as tar:
        for info, content in members:
            tar.addfile(info, content)
    vouch(place)


def vouch(place):
    (place / SUM).write_text(f"{archive.digest(place / ARCHIVE)}  {ARCHIVE}\n")


OUTSIDE = "every member must be in the folder"
LINK = {"type": tarfile.SYMTYPE, "linkname": "/bin/sh"}
CRAFTED = {
    "absolute": (member("/etc/cron.d/x", b"x"), OUTSIDE),
    "climbing": (member(f"{NAME}/../../x", b"x"), OUTSIDE),
    "device": (member(f"{NAME}/sda", type=tarfile.BLKTYPE, devmajor=8), "a file or a folder"),
    "symbolic link": (member(f"{NAME}/linux", **LINK), "a file or a folder"),
    "hard link outside": (
        member(f"{NAME}/x", type=tarfile.LNKTYPE, linkname="/etc/shadow"), OUTSIDE,
    ),
    "no provenance": (member(f"{NAME}/x", b"x"), "provenance.json does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CRAFTED)
def test_crafted_archive_is_refused(kind, tmp_path, refused):
    crafted, words = CRAFTED[kind]
    publish(tmp_path / "place", [crafted], format=tarfile.PAX_FORMAT)
    assert words in refused(tmp_path / "place")


def test_unpacked_files_are_writable_by_their_owner_only(tmp_path, monkeypatch):
    publish(tmp_path / "place", [member(f"{NAME}/linux", b"x", mode=0o4777)])
    (tmp_path / "out").mkdir()
    packed._unpack(tmp_path / "place" / ARCHIVE, tmp_path / "out", NAME)
    assert (tmp_path / "out" / "linux").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(("name", "limit"), [("UNPACKED_BYTES", 100), ("MEMBERS", 1)])
def test_archive_bomb_is_refused_before_it_fills_the_disk(
    name, limit, tmp_path, refused, monkeypatch
):
    monkeypatch.setattr(packed, name, limit)
    publish(tmp_path / "place", [member(f"{NAME}/x"), member(f"{NAME}/y", bytes(200))])
    assert "bytes at most, found more" in refused(tmp_path / "place")


@pytest.mark.parametrize("content", [b"", zstandard.compress(b"no tar" * 1000)])
def test_malformed_archive_is_refused(content, tmp_path, refused):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / ARCHIVE).write_bytes(content)
    vouch(tmp_path / "place")
    assert "was not fetched from" in refused(tmp_path / "place")


def test_truncated_archive_is_refused(tmp_path, refused):
    publish(tmp_path / "place", [member(f"{NAME}/x", random.Random(1).randbytes(50_000))])
    os.truncate(tmp_path / "place" / ARCHIVE, 30_000)
    vouch(tmp_path / "place")
    assert "must be a .tar.zst of files" in refused(tmp_path / "place")


def test_links_of_an_image_are_made_only_if_its_list_is_pinned(tmp_path):
    """A list that nobody pins may have a link to any place of the host."""
    links = {"bin": "usr/bin", "awk": "/etc/alternatives/awk", "deep/up": "../bin", "top": "/"}
    (tmp_path / "image/root/deep").mkdir(parents=True)
    for name, to in links.items():
        (tmp_path / "image/root" / name).symlink_to(to)
    text = integrity.listing(tmp_path / "image/root")
    (tmp_path / "image" / integrity.LIST).write_text(text)
    for name in links:
        (tmp_path / "image/root" / name).unlink()
    with pytest.raises(LosslabError, match="must have the SHA-256"):
        packed._link(tmp_path / "image", NAME)
    integrity.write_pins({NAME: ("host", integrity.list_digest(text))})
    packed._link(tmp_path / "image", NAME)
    assert integrity.listing(tmp_path / "image/root") == text


def test_reading_stops_at_a_packages_size(answering, tmp_path):
    """The limit holds for Debian's archive, too: no more than the pinned size."""
    fetcher = archive.Fetcher(1.0)
    assert fetcher.download(answering(endless), tmp_path / "x", 10**6) == "more than 1000000 bytes"
    assert (tmp_path / "x").stat().st_size <= 10**6


@pytest.fixture
def release(archives, server, monkeypatch, tmp_path):
    """Serve the archives as a release that the repository pins."""
    monkeypatch.delenv(packed.PLACE, raising=False)
    monkeypatch.setattr(packed, "RELEASE", tmp_path / "release.toml")
    packed.RELEASE.write_text('# Release.\naddress = ""\n[sha256]\n')
    packed.write_release(f"{server.url}/v1/", [archives / ARCHIVE])
    assert packed.RELEASE.read_text().startswith("# Release.\n")

    def publish():
        server.files |= {f"/v1/{path.name}": path.read_bytes() for path in archives.iterdir()}

    publish()
    return publish


def test_release_is_fetched_by_its_pinned_digest_without_a_setting(release, server, tmp_path):
    target = tmp_path / "cache" / "kernel" / NAME
    assert packed.install(packed.KERNEL, target)
    origin = json.loads((target / packed.ORIGIN).read_text())
    assert origin["from"] == f"{server.url}/v1"
    # The server's own list of digests is not asked for.
    assert [path for path in server.asked if path.endswith(packed.SUFFIX)] == []


def test_other_bytes_than_the_pinned_ones_are_built_instead(release, archives, tmp_path, capsys):
    """Their server may also have changed the digest beside them."""
    (archives / ARCHIVE).unlink()
    (tmp_path / "built" / NAME / "root" / "one").write_text("2")
    packed.pack(tmp_path / "built" / NAME, packed.KERNEL, archives)
    release()
    target = tmp_path / "cache" / "kernel" / NAME
    assert not packed.install(packed.KERNEL, target)
    assert not target.exists()
    assert "was not fetched from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "name"), [("build", NAME), ("", "fedcba9876543210")], ids=["build", "new recipe"]
)
def test_build_and_new_recipes_fetch_nothing(
    release, server, monkeypatch, tmp_path, capsys, setting, name
):
    monkeypatch.setenv(packed.PLACE, setting)
    assert not packed.install(packed.KERNEL, tmp_path / "cache" / "kernel" / name)
    assert (server.asked, capsys.readouterr().err) == ([], "")


def test_public_patch_that_vanished_comes_from_the_release(release, server, monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "patch").write_text("diff")
    digest = archive.digest(tmp_path / "patch")
    patch = kernels.PublicFile("0002.patch", f"{server.url}/gone", digest, 4)
    server.files[f"/v1/{patch.archived}"] = b"diff"
    assert patch.get().path.read_text() == "diff"
