"""Images: packages, locks and replaced bytes."""

import hashlib
import json
import subprocess

import pytest

from losslab.campaign import instrument
from losslab.errors import LosslabError
from losslab.instrument import debian, fetch, image, integrity, kernel
from losslab.instrument.fetch import UnavailableError

from .servers import MAIN, SNAPSHOT, lock_of, pack, unpacked_deb


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# instant: 2026", "# instant: x2026", "must be a lock file"),
        ("bash\t1", "bash\t1\tmore", "must be a lock file"),
        ("sha256\tpath", "sha256\tpath\textra", "found it edited"),
        ("bash\t1", "zsh\t1", "found it edited"),
    ],
)
def test_incomplete_package_lock_is_refused(tmp_path, old, new, message):
    lock = lock_of("bash", "curl")
    (tmp_path / "lock").write_text(lock.text())
    assert debian.read_lock(tmp_path / "lock") == lock
    assert old in lock.text()
    (tmp_path / "lock").write_text(lock.text().replace(old, new))
    with pytest.raises(LosslabError, match=message):
        debian.read_lock(tmp_path / "lock")


def test_package_lock_determines_the_image():
    assert image.content_hash(image.HOST, lock_of("bash")) != image.content_hash()


def test_unavailable_package_is_named(server):
    server.files[MAIN + "b/bash/bash_1_all.deb"] = b"bash"
    with pytest.raises(UnavailableError, match=r"curl_1_all\.deb must be available"):
        debian.fetch_packages(lock_of("bash", "curl"))


def test_local_archive_has_exactly_the_packages(tmp_path, server):
    content = pack(unpacked_deb(tmp_path, "curl"))
    server.files[MAIN + "c/curl/curl_1_all.deb"] = content
    lock = lock_of("curl", content=content)
    folder = tmp_path / "archive"
    folder.mkdir(mode=0o700)
    line = image.make_archive(lock, debian.fetch_packages(lock), folder)
    assert line == f"deb [trusted=yes] copy:{folder} trixie main"
    index = (folder / "dists/trixie/main/binary-amd64/Packages").read_text()
    assert "Package: curl\n" in index
    assert f"SHA256: {hashlib.sha256(content).hexdigest()}\n" in index
    assert (folder / "pool" / "curl_1_all.deb").read_bytes() == content
    assert folder.stat().st_mode & 0o777 == 0o755


def build_image(monkeypatch, unpinned):
    """Build the host image without its system; return its lock and its provenance."""
    made = []

    def build(name, folder, locked, files, *, pinned):
        made.append(locked)
        (folder / "provenance.json").write_text(json.dumps({"pinned": pinned}))

    monkeypatch.setattr(image, "_build", build)
    monkeypatch.setattr(image, "lock", lambda name=image.HOST: lock_of("bash"))
    monkeypatch.setattr(image, "resolve", lambda name: lock_of("bash", content=b"newer"))
    folder = image.part().build(unpinned)
    assert image.part().existing() == folder
    return image.provenance(folder), made


def test_image_with_other_packages_is_refused_without_permission(server, monkeypatch, capsys):
    server.files[MAIN + "b/bash/bash_1_all.deb"] = b"newer"
    with pytest.raises(UnavailableError, match=r"bash_1_all\.deb"):
        build_image(monkeypatch, unpinned=False)
    assert image.part().existing() is None
    facts, made = build_image(monkeypatch, unpinned=True)
    assert facts == {"pinned": False}
    assert made == [lock_of("bash", content=b"newer")]
    assert "unpinned host image" in capsys.readouterr().err
    # Without permission the refusal repeats; the pinned package is used once it is available.
    with pytest.raises(UnavailableError):
        build_image(monkeypatch, unpinned=False)
    server.files[SNAPSHOT + "b/bash/bash_1_all.deb"] = b"bash"
    assert build_image(monkeypatch, unpinned=False)[0] == {"pinned": True}
    assert image.part().target().name != image.part().target(pinned=False).name


def test_bytes_are_replaced_only_if_found_once(tmp_path):
    program = tmp_path / "shim"
    program.write_bytes(b"\0TODOGOMAXPROCS=4unix\0")
    each = image.Replacement("shim", b"GOMAXPROCS=4", b"GOMAXPROCS=1")
    each.apply(tmp_path)
    assert program.read_bytes() == b"\0TODOGOMAXPROCS=1unix\0"
    with pytest.raises(LosslabError, match="once, found it 0 times"):
        each.apply(tmp_path)


def test_replacement_must_have_the_same_length(tmp_path):
    recipe = tmp_path / "replace.toml"
    assert image.replacements(recipe) == []
    for values, words in (
        ("found = '00ff'\nby = 'ff'", "by as many"),
        ("found = 'x'", "must have"),
    ):
        recipe.write_text(f"[[replace]]\nfile = 'a'\n{values}\n")
        with pytest.raises(LosslabError, match=words):
            image.replacements(recipe)
    (each,) = image.replacements(image.recipe("quic") / "replace.toml")
    assert each.by.startswith(bytes.fromhex("f30f1efa"))


def repository_of(folder, text):
    def git(*words):
        return subprocess.run(
            ["git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x", *words],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip

    (folder / "mininet").mkdir(parents=True)
    (folder / "mininet" / "net.py").write_text(text)
    (folder / "mininet" / "examples").symlink_to("../examples")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "x")
    return git("rev-parse", "HEAD")


def test_containernet_comes_from_any_copy_with_the_pinned_commit(monkeypatch, tmp_path):
    commit = repository_of(tmp_path / "copy", "pinned = True\n")
    (tmp_path / "copy" / "mininet" / "net.py").write_text("pinned = False\n")
    monkeypatch.setenv(image.SOURCE, f"git+file://{tmp_path}/copy")
    monkeypatch.setattr(image, "containernet", lambda: {"commit": commit, "url": "unused"})
    image.install_containernet(tmp_path / "opt", tmp_path / "log")
    assert (tmp_path / "opt/mininet/net.py").read_text() == "pinned = True\n"


def test_containernet_without_the_pinned_commit_is_refused(monkeypatch, tmp_path):
    repository_of(tmp_path / "copy", "other = True\n")
    monkeypatch.setenv(image.SOURCE, f"file://{tmp_path}/copy")
    with pytest.raises(UnavailableError, match="Containernet's commit c068942") as error:
        image.install_containernet(tmp_path / "opt", tmp_path / "log")
    assert image.SOURCE in error.value.hint


@pytest.mark.parametrize("pinned", [True, False])
def test_instrument_is_pinned_if_all_its_parts_are(server, monkeypatch, tmp_path, pinned):
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")
    for folder, facts in (
        (kernel.part().target(), {"pinned": True, "hash": "k"}),
        (image.part().target(pinned=pinned), {"pinned": pinned, "hash": "i"}),
    ):
        (folder / "root").mkdir(parents=True)
        (folder / "provenance.json").write_text(json.dumps(facts))
    (kernel.part().target() / "linux").touch()
    sha256 = fetch.digest(kernel.part().target() / "linux")
    (kernel.part().target() / integrity.LINUX_DIGEST).write_text(sha256)
    assert instrument.instrument().provenance["pinned"] is pinned


@pytest.mark.parametrize("name", sorted(set(image.names()) - {image.HOST, image.ENGINE}))
def test_every_other_image_has_the_hosts_package_versions(name):
    host, other = image.lock().versions(), image.lock(name).versions()
    assert {package: other.get(package) for package in host} == host
    assert set(image.packages(name)) <= set(other)
