import hashlib
import tarfile

import pytest

from losslab.instrument import archive, kernel, kernels

from . import servers


@pytest.fixture
def server(monkeypatch, tmp_path):
    running = servers.Server()
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LOSSLAB_ARCHIVE", f"{running.url}/debian")
    monkeypatch.setenv("LOSSLAB_SNAPSHOT", f"{running.url}/snapshot")
    monkeypatch.setenv("LOSSLAB_KERNEL_ORG", f"{running.url}/kernel")
    monkeypatch.setenv("LOSSLAB_QUARTO_SOURCE", f"{running.url}/quarto")
    monkeypatch.delenv(archive.UNPINNED, raising=False)
    monkeypatch.setattr(archive, "BACKOFF_S", 0.0)
    archive._proxies.cache_clear()
    yield running
    running.close()


@pytest.fixture
def source(server, monkeypatch, tmp_path):
    """Pin a source of two builds; return the packages' contents and kernel.org's archive."""
    series = kernels.default().series
    tree = tmp_path / "linux-1"
    tree.mkdir()
    (tree / "Makefile").write_text("# Linux\n")
    tarball = tmp_path / "linux.tar.xz"
    with tarfile.open(tarball, "w:xz") as tar:
        tar.add(tree, "linux-1")
    builds, contents = [], []
    for number, version in enumerate(("6.12.1-1", "6.12.1-1~deb12u1")):
        content = servers.unpacked_deb(tmp_path / version, series.package, version)
        place = content / series.tarball
        place.parent.mkdir(parents=True)
        place.write_bytes(tarball.read_bytes())
        contents.append(servers.pack(content))
        file = servers.file_of("source.deb", contents[-1])
        path = f"pool/updates/main/l/linux{number}/{series.package}_{version}_all.deb"
        builds.append(kernel.Build(version, path, file.size, file.sha256, file.sha1))
    pinned = kernel.Pins(
        "6.12.1", tuple(builds), "v6.x/linux-6.12.1.tar.xz",
        hashlib.sha256(tarball.read_bytes()).hexdigest(),
    )  # fmt: skip
    monkeypatch.setattr(kernel, "pins", lambda series: pinned)
    return pinned, contents, tarball.read_bytes()
