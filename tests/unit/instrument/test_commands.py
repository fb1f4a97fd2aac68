"""Commands on kernels and images."""

import re
import socket
import threading

import pytest

from losslab import cli
from losslab.instrument import commands, fetch, kernel, packed


@pytest.mark.parametrize("wheels", [[], ["losslab", "mine", "scipy"]])
def test_serve_prints_the_lines_to_paste(wheels, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands.http.server.ThreadingHTTPServer, "serve_forever", lambda _: None)
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "empty"))
    words = ["instrument", "serve", "kernel-6.12", "--address", "127.0.0.1",
             "--out", str(tmp_path), "--port"]  # fmt: skip
    assert cli.main([*words, "0"]) == 1
    assert "kernel-6.12 must be built before it is packed" in capsys.readouterr().err
    (tmp_path / packed.archive_name("kernel", kernel.part().target().name)).touch()
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
    with commands.server(tmp_path, "127.0.0.1", 0) as serving:
        threading.Thread(target=serving.serve_forever).start()
        url = f"http://127.0.0.1:{serving.server_port}"
        fetcher = fetch.Fetcher()
        assert fetcher.download(f"{url}/a.whl", tmp_path / "got") == ""
        assert fetcher.download(f"{url}/%2e%2e/{tmp_path.name}/a.whl", tmp_path / "no") != ""
        assert fetcher.download(url, tmp_path / "page") == ""  # for `pip --find-links`
        serving.shutdown()
    assert (tmp_path / "got").read_bytes() == b"wheel"
    assert 'href="a.whl"' in (tmp_path / "page").read_text()
