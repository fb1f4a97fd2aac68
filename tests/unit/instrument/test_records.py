"""Records of the workflow about the cache, and their invalidation."""

import json
import re
import socket
import threading

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.instrument import archive, image, kernel, packed, records
from losslab.instrument.archive import UnavailableError


class Cache:
    """A cache with one kernel, or an empty one."""

    def __init__(self, monkeypatch, folder):
        self.folder = folder
        self.made_of = None
        monkeypatch.chdir(folder)
        monkeypatch.setattr(kernel, "existing", lambda which: self.made_of and folder)
        monkeypatch.setattr(records.cache, "provenance", lambda folder: self.made_of)
        monkeypatch.setattr(image, "existing", lambda name: None)

    def build(self):
        self.made_of = self.made_of or {"version": "6.12"}
        return self.folder

    def cannot(self):
        raise UnavailableError("it must be available, found: nobody has it", hint="ask somebody")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    return Cache(monkeypatch, tmp_path)


RECORD = records.path("kernel", "6.12")


def record(cache, **more):
    records.make("kernel", "6.12", more.pop("build", cache.build), RECORD, **more)


def kept():
    records.remove_outdated()
    return RECORD.exists()


def test_record_of_the_cached_part_is_kept(cache):
    record(cache)
    assert kept()
    assert json.loads(RECORD.read_text()) == {"made_of": {"version": "6.12"}}
    assert records.absent(RECORD) == ""


@pytest.mark.parametrize("now", [None, {"version": "6.13"}])
def test_outdated_record_is_removed(cache, now):
    record(cache)
    cache.made_of = now
    assert not kept()


def test_file_of_another_writer_is_no_record(cache):
    RECORD.parent.mkdir(parents=True)
    for text in ("{}", "no JSON"):
        RECORD.write_text(text)
        assert not kept()


def test_unavailable_part_is_an_error_unless_optional(cache):
    with pytest.raises(LosslabError, match="nobody has it"):
        record(cache, build=cache.cannot)
    assert not RECORD.exists()
    record(cache, build=cache.cannot, optional=True)
    assert records.absent(RECORD) == "kernel 6.12 is not there: its sources are unavailable"
    # It is asked for again only once the cache has it.
    assert kept()
    cache.build()
    assert not kept()


def test_unwritable_record_is_an_error(cache):
    (cache.folder / "results").write_text("a file")
    with pytest.raises(LosslabError, match="must be writable"):
        record(cache)


@pytest.mark.parametrize("wheels", [[], ["losslab", "mine", "scipy"]])
def test_serve_prints_the_lines_to_paste(wheels, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(records.http.server.ThreadingHTTPServer, "serve_forever", lambda _: None)
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "empty"))
    words = ["instrument", "serve", "kernel-6.12", "--address", "127.0.0.1",
             "--out", str(tmp_path), "--port"]  # fmt: skip
    assert cli.main([*words, "0"]) == 1
    assert "kernel-6.12 must be built before it is packed" in capsys.readouterr().err
    (tmp_path / packed.archive_name("kernel", kernel.target().name)).touch()
    for name in wheels:
        (tmp_path / f"{name}-1.0-py3-none-any.whl").touch()
    assert cli.main([*words, "0"]) == 0
    _, *install, last = capsys.readouterr().out.splitlines()
    program = "~/losslab/bin/losslab" if wheels else "losslab"
    assert re.fullmatch(rf"  LOSSLAB_INSTRUMENTS=http://127\.0\.0\.1:\d+ {program} setup", last)
    names = [line.rpartition("--trusted-host 127.0.0.1 ")[2] for line in install[1:]]
    assert names == (["losslab"] if wheels else [])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.main([*words, str(port)]) == 1
    assert f"must have the free port {port}" in capsys.readouterr().err


def test_server_gives_the_folders_files(tmp_path):
    (tmp_path / "a.whl").write_bytes(b"wheel")
    with records.server(tmp_path, "127.0.0.1", 0) as serving:
        threading.Thread(target=serving.serve_forever).start()
        url = f"http://127.0.0.1:{serving.server_port}"
        fetcher = archive.Fetcher()
        assert fetcher.download(f"{url}/a.whl", tmp_path / "got") == ""
        assert fetcher.download(f"{url}/%2e%2e/{tmp_path.name}/a.whl", tmp_path / "no") != ""
        assert fetcher.download(url, tmp_path / "page") == ""  # for `pip --find-links`
        serving.shutdown()
    assert (tmp_path / "got").read_bytes() == b"wheel"
    assert 'href="a.whl"' in (tmp_path / "page").read_text()
