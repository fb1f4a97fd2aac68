"""Hostile places of packed instruments: endless, slow, malformed and crafted archives."""

import io
import os
import random
import socket
import tarfile
import threading

import pytest
import zstandard

from losslab.errors import LosslabError
from losslab.instrument import archive, integrity, packed

NAME = "0123456789abcdef"
ARCHIVE = f"kernel-{NAME}.tar.zst"
SUM = f"{ARCHIVE}.sha256"
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(autouse=True)
def no_pins(monkeypatch, tmp_path):
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")
    monkeypatch.setattr(archive, "BACKOFF_S", 0.0)


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
