"""A user's own kernels, images and suites, in a campaign's folder."""

import hashlib
import tarfile

import pytest

from losslab import cli
from losslab.errors import LosslabError
from losslab.instrument import image, kernel, kernels
from losslab.repository import ROOT
from losslab.study import design, studyfiles

MEASURE = (
    "measure", "--algorithm", "cubic", "--duration-s", "1", "--warmup-s", "0.1", "--out", "x",
)  # fmt: skip


@pytest.fixture
def written(campaign_folder, monkeypatch, tmp_path):
    """Return a function that writes a file of the campaign's folder; the cache is empty."""
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))

    def write(name, text=""):
        path = campaign_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_own_kernel_is_named_by_its_folder(written, capsys):
    written("kernels/mine/kernel.toml", 'series = "6.12"\nboot = ["tcp_cubic.beta=700"]\n')
    spec = kernels.get("mine")
    assert (spec.label, spec.series, spec.command) == (
        "mine", kernels.default().series, "losslab kernel --name mine"
    )  # fmt: skip
    assert "mine" in design.load_names(ROOT).kernels
    assert cli.main([*MEASURE, "--kernel", "mine"]) == 1
    said = capsys.readouterr().err
    assert "the pinned kernel mine is not built" in said
    assert "`losslab kernel --name mine`" in said
    assert cli.main([*MEASURE, "--kernel", "mime"]) == 2
    said = capsys.readouterr().err
    assert "kernel must be one of config/kernels.toml or kernels/ (" in said
    assert "found 'mime'; did you mean mine?" in said


def test_every_input_of_an_own_kernel_changes_its_hash(written):
    toml = written("kernels/mine/kernel.toml", 'series = "6.12"\n')
    hashes = [kernel.content_hash(kernels.get("mine"))]
    for name, text in (
        ("fragment.config", "CONFIG_TCP_CONG_CDG=y\n"),
        ("0001-mine.patch", "--- a/x\n+++ b/x\n"),
        ("kernel.toml", f'series = "6.12"\nsource = {{ address = "a", sha256 = "{"0" * 64}" }}\n'),
    ):
        written(f"kernels/mine/{name}", text)
        hashes.append(kernel.content_hash(kernels.get("mine")))
    assert hashes[0] == kernel.content_hash()
    assert len({*hashes}) == 4
    spec = kernels.get("mine")
    assert spec.patch_names == [*kernels.default().patch_names, "0001-mine.patch"]
    assert kernel.fragments(spec)[-1] == toml.with_name("fragment.config")


def test_own_source_is_taken_only_with_its_digest(written, tmp_path):
    (tmp_path / "linux-9").mkdir()
    (tmp_path / "linux-9" / "Makefile").write_text("# mine\n")
    tarball = written("kernels/mine/linux-9.tar.gz")
    with tarfile.open(tarball, "w:gz") as tar:
        tar.add(tmp_path / "linux-9", "linux-9")
    text = 'series = "6.12"\n[source]\naddress = "linux-9.tar.gz"\nsha256 = "{}"\n'
    digest = hashlib.sha256(tarball.read_bytes()).hexdigest()
    written("kernels/mine/kernel.toml", text.format(digest))
    source = kernel._source(kernels.get("mine"), unpinned=False)
    assert source.provenance() == {"from": tarball.as_uri(), "version": "", "sha256": digest}
    (tmp_path / "work").mkdir()
    source.unpack(tmp_path / "work", tmp_path / "tree", tmp_path / "log")
    assert (tmp_path / "tree" / "Makefile").read_text() == "# mine\n"
    written("kernels/mine/kernel.toml", text.format("0" * 64))
    with pytest.raises(
        LosslabError, match=r"linux-9\.tar\.gz must be available .* sha256"
    ) as error:
        kernel._source(kernels.get("mine"), unpinned=False)
    assert "name the file in kernel.toml" in error.value.hint


def test_own_image_adds_packages_to_the_hosts(written, capsys):
    path = written("images/mine/packages.txt", "# comment\nnetcat-openbsd\n")
    assert image.names()[-1] == "rsync"
    assert "mine" in image.names()
    assert image.packages("mine") == [*image.packages(), "netcat-openbsd"]
    assert "mine" in design.load_names(ROOT).images
    kernel.part().target().mkdir(parents=True)
    assert cli.main([*MEASURE, "--image", "mine"]) == 1
    said = capsys.readouterr().err
    assert f"{path.with_name('packages.lock')} must pin the packages of the image mine" in said
    assert "`losslab image --variant mine --relock`" in said
    written("images/mine/packages.lock", (ROOT / "containers/rsync/packages.lock").read_text())
    assert cli.main([*MEASURE, "--image", "mine"]) == 1
    assert "run `losslab image --variant mine`" in capsys.readouterr().err
    assert cli.main(["image", "--variant", "mein"]) == 2
    assert "found mein; did you mean mine?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("kernels/mine/notes", "", "must have a file kernel.toml, found none"),
        ("kernels/6.12/kernel.toml", "", "a folder of kernels must have a new name"),
        ("kernels/Mine/kernel.toml", "", "a folder of kernels must have a new name"),
        ("kernels/mine/kernel.toml", 'serie = "6.12"', "'serie' (was|were) unexpected"),
        ("kernels/mine/kernel.toml", 'series = "5.4"', "found no 5.4"),
        ("kernels/mine/kernel.toml", "series =", "mine/kernel.toml must be TOML"),
        ("images/mine/notes", "", "must have a file packages.txt, found none"),
        ("images/host/packages.txt", "", "a folder of images must have a new name"),
    ],
)
def test_broken_recipe_is_refused_with_its_path(written, file, text, words):
    path = written(file, text)
    with pytest.raises(LosslabError, match=words) as error:
        design.load_names(ROOT)
    assert str(path.parent) in str(error.value) or "5.4" in words
    assert kernels.get("6.12") == kernels.default()  # which needs no recipe of the folder


def test_own_suite_is_found_and_checked(written):
    text = (ROOT / "suites/ci/suite.yaml").read_text().replace("suite: ci", "suite: mine")
    path = written("suites/mine.yaml", text)
    assert studyfiles.load_suite("mine", ROOT)["suite"] == "mine"
    with pytest.raises(
        LosslabError, match=r"must be one of .*, ci, mine, rfc9438, rfc9743"
    ) as error:
        studyfiles.load_suite("mien", ROOT)
    assert "did you mean mine?" in error.value.message
    path.write_text(text.replace("goodput_mbit", "goodput_gbit"))
    with pytest.raises(LosslabError, match="goodput_gbit"):
        studyfiles.load_suite("mine", ROOT)
