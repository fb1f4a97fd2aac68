"""Hostile places of packed instruments: endless, slow, malformed and crafted archives."""

import io
import json
import os
import socket
import tarfile
import threading

import pytest
import zstandard

from losslab.instrument import archive, integrity, packed, unpacking

NAME = "0123456789abcdef"
ARCHIVE, FACTS = f"kernel-{NAME}.tar.zst", f"kernel-{NAME}.json"
GIVEN_UP_S = 1.0
PROVENANCE = {"version": "6.12.1", "hash": NAME, "pinned": True, "source": {}, "patches": [],
              "config_sha256": "0"}  # fmt: skip
HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(autouse=True)
def no_pins(monkeypatch, tmp_path):
    monkeypatch.setattr(packed, "PINS", tmp_path / "instruments.tsv")
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


def endless_chunks():
    yield HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    while True:
        yield b"10000\r\n" + b"x" * 2**16 + b"\r\n"


GOOD_FACTS = {"kind": "kernel", "hash": NAME, "sha256": "0" * 64, "size_bytes": 9, "provenance": {}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(GOOD_FACTS | {"sha256": None}), "None is not of type 'string'"),
        (json.dumps(GOOD_FACTS | {"kind": ["kernel"]}), "['kernel'] is not of type 'string'"),
        (json.dumps(GOOD_FACTS | {"size_bytes": "9"}), "'9' is not of type 'integer'"),
        (json.dumps(GOOD_FACTS | {"size_bytes": True}), "True is not of type 'integer'"),
        (json.dumps(GOOD_FACTS | {"\x1b[2Jmore": 1}), "was unexpected"),
        (json.dumps({"kind": "kernel"}), "'hash' is a required property"),
        (json.dumps(GOOD_FACTS | {"size_bytes": 2**40}), "its JSON says 1099511627776"),
        (json.dumps(GOOD_FACTS | {"size_bytes": -1}), "its JSON says -1"),
        ("[]", "[] is not of type 'object'"),
        ("null", "None is not of type 'object'"),
        ("[" * 100_000, "maximum recursion depth"),
        ("\xff", "must be UTF-8"),
        (" " * (packed.FACTS_BYTES + 1), "more than 262144 bytes"),
        ("9" * 100_000, "must be JSON"),
    ],
    ids=range(14),
)
def test_malformed_facts_are_refused(text, words, tmp_path, refused):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / FACTS).write_bytes(text.encode("latin-1"))
    assert words in refused(tmp_path / "place")


def member(name, content=b"", **more):
    """Return a member of an archive."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    for key, value in more.items():
        setattr(info, key, value)
    return info, io.BytesIO(content)


def publish(place, members, **options):
    """Write an archive with these members, and facts that match."""
    place.mkdir()
    stream = zstandard.open(place / ARCHIVE, "wb")
    with stream, tarfile.open(fileobj=stream, mode="w|", **options) as tar:
        for info, content in members:
            tar.addfile(info, content)
    vouch(place)


def vouch(place):
    facts = GOOD_FACTS | {
        "sha256": archive.digest(place / ARCHIVE),
        "size_bytes": (place / ARCHIVE).stat().st_size,
    }
    (place / FACTS).write_text(json.dumps(facts))


LINK, HARD, FOLDER = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}, {"type": tarfile.DIRTYPE}
ROOT = member(f"{NAME}/root", mode=0o755, **FOLDER)
OUTSIDE = "every member must be in the folder"
CRAFTED = {
    "absolute": ([member("/etc/cron.d/x", b"x")], OUTSIDE),
    "climbing": ([member(f"{NAME}/../../x", b"x")], OUTSIDE),
    "elsewhere": ([member("other/x", b"x")], OUTSIDE),
    "setuid": ([member(f"{NAME}/su", b"x", mode=0o4755)], "setuid, setgid or sticky"),
    "setgid folder": ([member(f"{NAME}/x", mode=0o2755, **FOLDER)], "setuid, setgid or sticky"),
    "device": ([member(f"{NAME}/sda", type=tarfile.BLKTYPE, devmajor=8)], "found a device"),
    "character device": ([member(f"{NAME}/mem", type=tarfile.CHRTYPE)], "found a device"),
    "fifo": ([member(f"{NAME}/pipe", type=tarfile.FIFOTYPE)], "found a device"),
    "sparse": ([member(f"{NAME}/x", type=tarfile.GNUTYPE_SPARSE)], "found"),
    "link outside root": ([member(f"{NAME}/linux", linkname="/bin/sh", **LINK)], "within root"),
    "link that climbs": (
        [ROOT, member(f"{NAME}/root/x", linkname="../../..", **LINK)], "within root",
    ),
    "absolute link that climbs": (
        [ROOT, member(f"{NAME}/root/x", linkname="/../etc", **LINK)], "within root",
    ),
    "written through a link": (
        [ROOT, member(f"{NAME}/root/x", linkname="/tmp", **LINK), member(f"{NAME}/root/x/y", b"x")],
        "No such file or directory",
    ),
    "link over a file": (
        [ROOT, member(f"{NAME}/root/x", b"x"), member(f"{NAME}/root/x", linkname="y", **LINK)],
        "File exists",
    ),
    "twice": ([member(f"{NAME}/x", b"x"), member(f"{NAME}/x", b"y")], "File exists"),
    "hard link outside": ([member(f"{NAME}/x", linkname="/etc/shadow", **HARD)], OUTSIDE),
    "hard link to nothing": (
        [member(f"{NAME}/x", linkname=f"{NAME}/y", **HARD)], "must name an earlier file",
    ),
    "no time": ([member(f"{NAME}/x", b"x", pax_headers={"mtime": "1e99"})], "must be unpackable"),
    "no provenance": ([member(f"{NAME}/x", b"x")], "provenance.json does not exist"),
    "provenance of wrong types": (
        [member(f"{NAME}/provenance.json", json.dumps(PROVENANCE | {"patches": [1]}).encode())],
        "1 is not of type 'string'",
    ),
    "another kernel than its digest": (
        [
            member(f"{NAME}/provenance.json", json.dumps(PROVENANCE).encode()),
            member(f"{NAME}/linux", b"wrapper"), member(f"{NAME}/linux.sha256", b"0" * 64),
        ],
        "must be unchanged since its build",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CRAFTED)
def test_crafted_archive_is_refused(kind, tmp_path, refused):
    members, words = CRAFTED[kind]
    publish(tmp_path / "place", members, format=tarfile.PAX_FORMAT)
    assert words in refused(tmp_path / "place")


def test_links_of_an_image_are_unpacked_unchanged(tmp_path):
    links = {"bin": "usr/bin", "awk": "/etc/alternatives/awk", "deep/up": "../bin", "top": "/"}
    members = [ROOT, member(f"{NAME}/root/deep", mode=0o755, **FOLDER)]
    members += [member(f"{NAME}/root/{n}", linkname=to, **LINK) for n, to in links.items()]
    publish(tmp_path / "place", members)
    (tmp_path / "out").mkdir()
    limits = packed.LIMITS[packed.IMAGE]
    unpacking.unpack(tmp_path / "place" / ARCHIVE, tmp_path / "out", NAME, limits)
    assert {name: os.readlink(tmp_path / "out/root" / name) for name in links} == links


def test_unpacked_files_are_writable_by_their_owner_only(tmp_path):
    publish(tmp_path / "place", [member(f"{NAME}/linux", b"x", mode=0o777)])
    (tmp_path / "out").mkdir()
    limits = packed.LIMITS[packed.KERNEL]
    unpacking.unpack(tmp_path / "place" / ARCHIVE, tmp_path / "out", NAME, limits)
    assert (tmp_path / "out" / "linux").stat().st_mode & 0o7777 == 0o755


def test_archive_bomb_is_refused_before_it_fills_the_disk(tmp_path, refused, monkeypatch):
    (tmp_path / "place").mkdir()
    limit = 8 * 2**20
    monkeypatch.setitem(packed.LIMITS, packed.KERNEL, unpacking.Limits(2**20, limit, 100))
    with zstandard.open(tmp_path / "place" / ARCHIVE, "wb") as bomb:
        info = tarfile.TarInfo(f"{NAME}/x")
        info.size = 2 * limit
        bomb.write(info.tobuf())
        for _ in range(0, 2 * limit, 2**20):
            bomb.write(bytes(2**20))
    vouch(tmp_path / "place")
    assert f"must have {limit} bytes at most" in refused(tmp_path / "place")


def test_archive_bomb_in_a_header_is_refused(tmp_path, refused):
    """A name of gigabytes would be read into memory."""
    (tmp_path / "place").mkdir()
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 2**30
    with zstandard.open(tmp_path / "place" / ARCHIVE, "wb") as bomb:
        bomb.write(info.tobuf() + bytes(2**16))
    vouch(tmp_path / "place")
    assert "a member's headers must have" in refused(tmp_path / "place")


def test_too_many_members_are_refused(tmp_path, refused):
    most = packed.LIMITS[packed.KERNEL].members
    publish(tmp_path / "place", [member(f"{NAME}/{n}") for n in range(most + 1)])
    assert f"must have {most} members at most, found more" in refused(tmp_path / "place")


@pytest.mark.parametrize("content", [b"no archive", b"", zstandard.compress(b"no tar" * 1000)])
def test_malformed_archive_is_refused(content, tmp_path, refused):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / ARCHIVE).write_bytes(content)
    vouch(tmp_path / "place")
    assert "was not fetched from" in refused(tmp_path / "place")


def test_truncated_archive_is_refused(tmp_path, refused):
    publish(tmp_path / "place", [member(f"{NAME}/x", os.urandom(50_000))])
    os.truncate(tmp_path / "place" / ARCHIVE, 30_000)
    vouch(tmp_path / "place")
    assert "the archive ends early" in refused(tmp_path / "place")


def test_reading_stops_at_a_packages_size(answering, tmp_path):
    """The limit holds for Debian's archive, too: no more than the pinned size."""
    fetcher = archive.Fetcher(1.0)
    assert fetcher.download(answering(endless), tmp_path / "x", 10**6) == "more than 1000000 bytes"
    assert (tmp_path / "x").stat().st_size <= 10**6
