import hashlib
import socket

import pytest

from losslab.instrument import archive
from losslab.instrument.archive import Place, UnavailableError
from losslab.lock import mark

from .servers import INSTANT, MAIN, SECURITY, SNAPSHOT, file_of

REFUSED_PORT = 9  # discard: no program listens there


def take(file, path="pool/main/c/curl/curl_1+b2_amd64.deb"):
    places = archive.debian_places(path, archive.debian_archives(), INSTANT)
    return archive.Fetcher().fetch([(file, place) for place in places])


def test_file_comes_from_the_archive_and_then_from_the_cache(server):
    server.files[MAIN + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    assert take(file_of("curl.deb", b"curl")).path.read_bytes() == b"curl"
    again = take(file_of("curl.deb", b"curl"))
    assert again.place.name == "archive"
    assert len(server.asked) == 1


def test_package_moved_between_archives_is_found(server):
    server.files[SECURITY + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    assert "debian-security" in take(file_of("curl.deb", b"curl")).place.url


def test_removed_package_comes_from_the_snapshot_archive(server):
    server.files[SNAPSHOT + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    found = take(file_of("curl.deb", b"curl"))
    assert found.place.name == "snapshot"
    assert found.path.read_bytes() == b"curl"


def test_changed_file_is_refused_by_name_and_not_kept(server):
    server.files[MAIN + "c/curl/curl_1%2Bb2_amd64.deb"] = b"evil"
    with pytest.raises(UnavailableError) as error:
        take(file_of("curl.deb", b"curl"))
    assert "curl.deb must be available with the pinned sha256" in error.value.message
    assert f"different content, sha256 {hashlib.sha256(b'evil').hexdigest()}" in error.value.message
    assert "not there (HTTP 404)" in error.value.message
    assert list((archive.cache_folder() / "files").iterdir()) == []


def test_changed_file_in_the_archive_does_not_hide_the_snapshot(server):
    server.files[MAIN + "c/curl/curl_1%2Bb2_amd64.deb"] = b"evil"
    server.files[SNAPSHOT + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    assert take(file_of("curl.deb", b"curl")).place.name == "snapshot"


def test_busy_server_is_retried_a_limited_number_of_times(server):
    server.files[MAIN + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    server.busy = 2
    assert take(file_of("curl.deb", b"curl")).place.name == "archive"
    server.busy = 100
    with pytest.raises(UnavailableError, match="HTTP 429"):
        take(file_of("dash.deb", b"dash"))


def test_mirror_folder_may_lack_a_file(server, monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_ARCHIVE", f"file:{tmp_path}/debian")
    (tmp_path / "debian/pool/main/d/dash").mkdir(parents=True)
    (tmp_path / "debian/pool/main/d/dash/dash_1_amd64.deb").write_bytes(b"dash")
    fetcher, archives = archive.Fetcher(), archive.debian_archives()
    for name, place in (("curl", "snapshot"), ("dash", "archive")):
        path = f"pool/main/{name[0]}/{name}/{name}_1_amd64.deb"
        server.files[f"/snapshot/archive/debian/{INSTANT}/{path}"] = name.encode()
        places = archive.debian_places(path, archives, INSTANT)
        file = file_of(f"{name}.deb", name.encode())
        assert fetcher.fetch([(file, each) for each in places]).place.name == place


def test_leftovers_of_a_killed_download_are_removed(server):
    file = file_of("curl.deb", b"curl")
    server.files[MAIN + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    folder = archive.cache_folder() / "files"
    leftover, own = folder / ".partial-killed", folder / ".partial-own"
    for each in (leftover, own):
        each.mkdir(parents=True)
        (each / "file").write_bytes(b"cu")
    mark(leftover, ".partial-")
    take(file)
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        [own.name, file.sha256, f"{file.sha256}.url"]
    )


def test_corrupt_cached_file_is_replaced(server):
    server.files[MAIN + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    take(file_of("curl.deb", b"curl")).path.write_bytes(b"evil")
    assert take(file_of("curl.deb", b"curl")).path.read_bytes() == b"curl"


def test_unreachable_server_is_asked_once_and_named_with_a_fix(server, monkeypatch):
    dead = f"http://127.0.0.1:{REFUSED_PORT}"
    fetcher = archive.Fetcher()
    file = file_of("curl.deb", b"curl")
    with pytest.raises(UnavailableError) as error:
        fetcher.fetch([(file, Place("archive", f"{dead}/a"))])
    assert "cannot be reached" in error.value.message
    assert "--unpinned" in error.value.hint
    assert "make relock" in error.value.hint
    monkeypatch.setattr(fetcher, "_pool", lambda parts: pytest.fail("asked again"))
    with pytest.raises(UnavailableError, match="cannot be reached"):
        fetcher.fetch([(file, Place("snapshot", f"{dead}/b"))])


def resolve_after(monkeypatch, failures, errno):
    """Let the name server fail some times before it answers; return the names of its queries."""
    names, resolve = [], socket.getaddrinfo

    def resolve_later(host, *words, **more):
        names.append(host)
        if len(names) <= failures:
            raise socket.gaierror(errno, "no name")
        return resolve(host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_later)
    return names


def test_name_server_that_recovers_loses_no_server(server, monkeypatch):
    server.files[MAIN + "c/curl/curl_1%2Bb2_amd64.deb"] = b"curl"
    names = resolve_after(monkeypatch, 2, socket.EAI_AGAIN)
    assert take(file_of("curl.deb", b"curl")).place.name == "archive"
    assert len(names) == 3


def test_download_is_limited_in_size(server, tmp_path):
    server.files["/b"] = b"b" * 100
    assert archive.Fetcher().download(f"{server.url}/b", tmp_path / "b", 99) == "more than 99 bytes"


def test_environment_variable_permits_the_same_as_the_option(monkeypatch):
    monkeypatch.delenv(archive.UNPINNED, raising=False)
    assert not archive.unpinned_allowed()
    assert archive.unpinned_allowed(True)
    monkeypatch.setenv(archive.UNPINNED, "0")
    assert not archive.unpinned_allowed()
    monkeypatch.setenv(archive.UNPINNED, "1")
    assert archive.unpinned_allowed()
