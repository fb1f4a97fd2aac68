"""What measures is taken from where it lies packed, on a machine that has built nothing."""

import json

import pytest

from losslab.campaign import instrument
from losslab.errors import HostError
from losslab.instrument import archive, image, integrity, kernel, packed


@pytest.fixture
def nothing_built(monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(packed.PLACE, raising=False)
    # What is made up here is not what is pinned.
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")


def publish(place, kind, name, **facts):
    folder = place.parent / f"built-{kind}" / name
    folder.mkdir(parents=True)
    if kind == packed.KERNEL:
        (folder / "linux").touch()
        sha256 = archive.digest(folder / "linux")
        (folder / integrity.LINUX_DIGEST).write_text(f"{sha256}\n")
    else:
        (folder / "root").mkdir()
        (folder / "root" / "init").touch()
        integrity.record_tree(folder, "")
    known = {
        packed.KERNEL: {"source": {}, "config_sha256": "0"},
        packed.IMAGE: {"packages": {}, "packages_sha256": "0"},
    }
    provenance = {"hash": name, "pinned": True, **known[kind], **facts}
    (folder / "provenance.json").write_text(json.dumps(provenance))
    packed.pack(folder, kind, place)


def test_a_node_without_a_cache_takes_it(nothing_built, monkeypatch, tmp_path):
    place = tmp_path / "instruments"
    publish(place, packed.KERNEL, kernel.target().name, version="6.12.1", patches=[])
    publish(place, packed.IMAGE, image.target().name, suite="trixie")
    monkeypatch.setenv(packed.PLACE, str(place))
    found = instrument.instrument()
    assert found.kernel == kernel.target() / "linux"
    assert found.provenance["kernel"]["version"] == "6.12.1"
    assert instrument.installed() == [
        f"kernel {kernel.target().name}, Linux 6.12.1",
        f"image {image.target().name}, Debian trixie",
    ]


def test_without_a_place_it_says_what_to_build(nothing_built):
    with pytest.raises(HostError, match="must be built before anything can be measured"):
        instrument.instrument()
    assert all("not built" in line for line in instrument.installed())
