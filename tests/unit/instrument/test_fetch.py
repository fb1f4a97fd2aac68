"""Downloads by hash: from the archives, the snapshot archive and the cache."""

import hashlib
import socket

import pytest

from losslab.instrument import debian, fetch
from losslab.instrument.fetch import UnavailableError
from losslab.lock import mark

from .servers import INSTANT, MAIN, SECURITY, SNAPSHOT, file_of

DEAD = "http://127.0.0.1:9"  # discard: no program listens there
CURL, NAME = file_of("curl.deb", b"curl"), "c/curl/curl_1%2Bb2_amd64.deb"


def take(file=CURL, path="pool/main/c/curl/curl_1+b2_amd64.deb"):
    """Fetch a file of the pool; return its content."""
    urls = debian.archive_urls(path, debian.debian_archives())
    urls += debian.snapshot_urls(path, INSTANT)
    return fetch.Fetcher().fetch((file, url) for url in urls).read_bytes()


@pytest.mark.parametrize(
    ("served", "place"),
    [
        ({MAIN: b"curl", SECURITY: b"evil"}, MAIN),
        ({SECURITY: b"curl"}, SECURITY),
        ({SNAPSHOT: b"curl"}, SNAPSHOT),
        ({MAIN: b"evil", SNAPSHOT: b"curl"}, SNAPSHOT),
    ],
)
def test_file_comes_from_the_first_place_that_has_it_and_then_from_the_cache(server, served, place):
    server.files = {prefix + NAME: content for prefix, content in served.items()}
    assert take() == b"curl"
    assert server.asked[-1] == place + NAME
    asked = len(server.asked)
    assert (take(), len(server.asked)) == (b"curl", asked)
    # A corrupt file in the cache is replaced.
    (fetch.cache_folder() / "files" / CURL.sha256).write_bytes(b"evil")
    assert take() == b"curl"


def test_changed_file_is_refused_by_name_and_not_kept(server):
    server.files[MAIN + NAME] = b"evil"
    with pytest.raises(UnavailableError) as error:
        take()
    assert "curl.deb must be available with the pinned sha256" in error.value.message
    assert f"different content, sha256 {hashlib.sha256(b'evil').hexdigest()}" in error.value.message
    assert "HTTP 404" in error.value.message
    assert list((fetch.cache_folder() / "files").iterdir()) == []


def test_busy_server_is_retried_a_limited_number_of_times(server):
    server.files[MAIN + NAME] = b"curl"
    server.busy = 2
    assert take() == b"curl"
    server.busy = 100
    with pytest.raises(UnavailableError, match="HTTP 429"):
        take(file_of("dash.deb", b"dash"))


def test_mirror_folder_may_lack_a_file(server, monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_ARCHIVE", f"file:{tmp_path}/debian")
    server.files[SNAPSHOT + NAME] = b"curl"
    assert take() == b"curl"
    place = tmp_path / "debian/pool/main/d/dash/dash_1_amd64.deb"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"dash")
    assert take(file_of("dash.deb", b"dash"), "pool/main/d/dash/dash_1_amd64.deb") == b"dash"


def test_leftovers_of_a_killed_download_are_removed(server):
    server.files[MAIN + NAME] = b"curl"
    folder = fetch.cache_folder() / "files"
    leftover, own = folder / ".partial-killed", folder / ".partial-own"
    for each in (leftover, own):
        each.mkdir(parents=True)
        (each / "file").write_bytes(b"cu")
    mark(leftover, ".partial-")
    take()
    assert {path.name for path in folder.iterdir()} == {own.name, CURL.sha256}


def test_unreachable_server_is_asked_once_and_named_with_a_fix(server, monkeypatch):
    fetcher = fetch.Fetcher()
    with pytest.raises(UnavailableError, match="cannot be reached") as error:
        fetcher.fetch([(CURL, f"{DEAD}/a")])
    assert "--unpinned" in error.value.hint
    assert "make relock" in error.value.hint
    monkeypatch.setattr(fetcher, "_pool", lambda parts: pytest.fail("asked again"))
    with pytest.raises(UnavailableError, match="cannot be reached"):
        fetcher.fetch([(CURL, f"{DEAD}/b")])


def test_name_server_that_recovers_loses_no_server(server, monkeypatch):
    names, resolve = [], socket.getaddrinfo

    def resolve_later(host, *words, **more):
        names.append(host)
        if len(names) <= 2:
            raise socket.gaierror(socket.EAI_AGAIN, "no name")
        return resolve(host, *words, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve_later)
    server.files[MAIN + NAME] = b"curl"
    assert (take(), len(names)) == (b"curl", 3)


def test_download_is_limited_in_size(server, tmp_path):
    server.files["/b"] = b"b" * 100
    assert fetch.Fetcher().download(f"{server.url}/b", tmp_path / "b", 99) == "more than 99 bytes"


def test_environment_variable_permits_the_same_as_the_option(monkeypatch):
    for value, allowed in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(fetch.UNPINNED, value)
        assert fetch.unpinned_allowed() is allowed
    assert fetch.unpinned_allowed(True)
