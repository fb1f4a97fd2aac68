"""Packed instruments from a folder and a server: complete, damaged, wrong or missing."""

import io
import json
import os
import tarfile

import pytest
import zstandard

from losslab.errors import LosslabError
from losslab.instrument import fetch, image, integrity, kernel, kernels, packed

NAME = "0123456789abcdef"
ARCHIVE = f"kernel-{NAME}.tar.zst"
SUM = f"{ARCHIVE}.sha256"


@pytest.fixture(autouse=True)
def no_pins(monkeypatch, tmp_path):
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")
    monkeypatch.setattr(fetch, "BACKOFF_S", 0.0)


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
    (folder / "linux.sha256").write_text(fetch.digest(folder / "linux") + "\n")
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


@pytest.fixture(params=["folder", "server"])
def place(request, archives, server, monkeypatch):
    """Return a function that publishes the archives' current files."""
    monkeypatch.setenv(packed.PLACE, str(archives))

    def publish():
        if request.param == "server":
            monkeypatch.setenv(packed.PLACE, f"{server.url}/instruments/")
            server.files = {f"/instruments/{p.name}": p.read_bytes() for p in archives.iterdir()}

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


def test_packed_instrument_is_fetched_again(place, tmp_path):
    place()
    target = tmp_path / "cache" / "kernel" / NAME
    assert packed.install(packed.KERNEL, target)
    original = tmp_path / "built" / NAME
    assert (target / "linux").read_bytes() == (original / "linux").read_bytes()
    now, before = (target / "linux").stat(), (original / "linux").stat()
    assert (int(now.st_mtime), now.st_mode) == (int(before.st_mtime), before.st_mode)
    assert (target / "root" / "one").stat().st_ino == (target / "root" / "other").stat().st_ino
    assert os.readlink(target / "root" / "sh") == "/bin/dash"
    assert not (target / "build.log").exists()
    assert set(json.loads((target / packed.ORIGIN).read_text())) == {"from", "sha256"}
    assert not [p.name for p in target.parent.iterdir() if "partial" in p.name]


def vouched(archives, content=None):
    """Write the digest of an archive with other content."""
    if content is not None:
        (archives / ARCHIVE).write_bytes(content)
    (archives / SUM).write_text(f"{fetch.digest(archives / ARCHIVE)}  {ARCHIVE}\n")


def truncated(archives):
    os.truncate(archives / ARCHIVE, (archives / ARCHIVE).stat().st_size // 2)


def truncated_before_its_digest(archives):
    truncated(archives)
    vouched(archives)


def made_of_another(archives):
    """Rename the archive of another instrument."""
    other = built(archives.parent / "more", "fedcba9876543210")
    packed.pack(other, packed.KERNEL, archives).rename(archives / ARCHIVE)
    vouched(archives)


def with_member(mode, kind=tarfile.REGTYPE):
    """Return a function that writes an archive of one member."""

    def write(archives):
        content, member = io.BytesIO(), tarfile.TarInfo(f"{NAME}/odd")
        member.type, member.mode = kind, mode
        with tarfile.open(fileobj=content, mode="w") as tar:
            tar.addfile(member)
        vouched(archives, zstandard.compress(content.getvalue()))

    return write


def test_archive_that_unpacks_to_more_than_the_limit_is_refused(
    place, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(packed, "UNPACKED_BYTES", 10_000)
    place()
    assert not packed.install(packed.KERNEL, tmp_path / "cache" / "kernel" / NAME)
    assert "must have at most 10000 bytes, found more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (with_member(0o644, tarfile.CHRTYPE), "found '0123456789abcdef/odd'"),
        (with_member(0o644, tarfile.FIFOTYPE), "only files, folders and links"),
        (with_member(0o4755), "without setuid bits"),
        (truncated, "its .sha256 says"),
        (lambda place: (place / ARCHIVE).unlink(), f"{ARCHIVE}: "),
        (lambda place: (place / SUM).write_text("<html>not found</html>"), "its .sha256 says '<ht"),
        (made_of_another, "must be built from the pinned sources of its recipe"),
        (truncated_before_its_digest, "must be a .tar.zst"),
        (lambda place: vouched(place, b"no archive"), "must be a .tar.zst"),
        (lambda place: vouched(place, zstandard.compress(b"no tar" * 1000)), "must be a .tar.zst"),
    ],
)
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
            integrity.write_pins({name: ("host", fetch.digest(folder / integrity.LIST))})
        packed.pack(folder, kind, tmp_path / "instruments")
        return folder

    return make


@pytest.mark.parametrize("module", [kernel, image])
def test_set_up_fetches_without_building(module, made_of, tmp_path, monkeypatch):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    wanted = module.part().target()
    made_of(module.__name__.rpartition(".")[2], wanted.name)
    monkeypatch.setenv(packed.PLACE, str(tmp_path / "instruments"))
    # A build would fail: its requirements are absent.
    monkeypatch.setenv("LOSSLAB_ARCHIVE", "http://127.0.0.1:1/debian")
    assert module.part().build() == module.part().existing() == wanted


@pytest.mark.parametrize(
    ("pins", "words"),
    [({NAME: ("host", "f" * 64)}, "SHA-256 ffffffffffff"), ({}, "must be pinned in trees.tsv")],
)
def test_image_of_another_tree_than_pinned_is_refused(
    made_of, tmp_path, monkeypatch, capsys, pins, words
):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    folder = made_of(packed.IMAGE, NAME)
    monkeypatch.setenv(packed.PLACE, str(tmp_path / "instruments"))
    integrity.write_pins(pins)
    assert not packed.install(packed.IMAGE, tmp_path / "cache" / "image" / NAME)
    assert words in capsys.readouterr().err
    if not pins:
        with pytest.raises(LosslabError, match="must be listed in"):
            packed.pack(folder, packed.IMAGE, tmp_path / "out")


def test_changed_build_is_not_packed(tmp_path):
    folder = built(tmp_path)
    (folder / "linux").write_bytes(b"another")
    with pytest.raises(LosslabError, match="found another"):
        packed.pack(folder, packed.KERNEL, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.zst"))


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
    digest = fetch.digest(tmp_path / "patch")
    patch = kernels.PublicFile("0002.patch", f"{server.url}/gone", digest, 4)
    server.files[f"/v1/{patch.archived}"] = b"diff"
    assert patch.get().read_text() == "diff"
