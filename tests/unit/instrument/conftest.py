import tarfile

import pytest

from losslab.instrument import fetch, kernel, kernels

from . import servers


@pytest.fixture
def server(monkeypatch, tmp_path):
    running = servers.Server()
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOSSLAB_ARCHIVE", f"{running.url}/debian")
    monkeypatch.setenv("LOSSLAB_SNAPSHOT", f"{running.url}/snapshot")
    monkeypatch.delenv(fetch.UNPINNED, raising=False)
    monkeypatch.setattr(fetch, "BACKOFF_S", 0.0)
    fetch._proxies.cache_clear()
    yield running
    running.close()


@pytest.fixture
def source(server, monkeypatch, tmp_path):
    """Pin a source of two builds; return the pins and the packages' contents."""
    series = kernels.default().series
    (tmp_path / "linux-1").mkdir()
    (tmp_path / "linux-1" / "Makefile").write_text("# Linux\n")
    builds, contents = [], []
    for number, version in enumerate(("6.12.1-1", "6.12.1-1~deb12u1")):
        content = servers.unpacked_deb(tmp_path / version, series.package, version)
        (content / series.tarball).parent.mkdir(parents=True)
        with tarfile.open(content / series.tarball, "w:xz") as tar:
            tar.add(tmp_path / "linux-1", "linux-1")
        contents.append(servers.pack(content))
        file = servers.file_of("source.deb", contents[-1])
        path = f"pool/updates/main/l/linux{number}/{series.package}_{version}_all.deb"
        builds.append(kernel.Build(version, path, file.size, file.sha256, f"sha1-{number}"))
    pinned = kernel.Pins("6.12.1", tuple(builds))
    monkeypatch.setattr(kernel, "pins", lambda series: pinned)
    return pinned, contents
