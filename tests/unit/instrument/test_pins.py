import itertools
import json
import subprocess
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from losslab import cli
from losslab.campaign import instrument
from losslab.errors import LosslabError
from losslab.instrument import archive, image, imagebuild, integrity, kernel, kernels, pins
from losslab.instrument.archive import Download, Place, UnavailableError

from .servers import MAIN, SNAPSHOT, file_of, lock_of


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
    monkeypatch.setenv(imagebuild.SOURCE, f"git+file://{tmp_path}/copy")
    monkeypatch.setattr(image, "containernet", lambda: {"commit": commit, "url": "unused"})
    imagebuild.install_containernet(tmp_path / "opt", tmp_path / "log")
    assert (tmp_path / "opt/mininet/net.py").read_text() == "pinned = True\n"
    assert pins._fetch_commit(f"file://{tmp_path}/copy", commit) == ""
    assert pins._fetch_commit(f"file://{tmp_path}/copy", "0" * 40) != ""


def test_containernet_without_the_pinned_commit_is_refused(monkeypatch, tmp_path):
    repository_of(tmp_path / "copy", "other = True\n")
    monkeypatch.setenv(imagebuild.SOURCE, f"file://{tmp_path}/copy")
    with pytest.raises(UnavailableError, match="Containernet's commit c068942") as error:
        imagebuild.install_containernet(tmp_path / "opt", tmp_path / "log")
    assert imagebuild.SOURCE in error.value.hint


def line_of(found, name):
    return next(pin for pin in found if pin.name == name)


def test_list_of_pins_is_complete_without_network_access(server):
    found = pins.examine()
    names = [
        "kernel source", "kernel source 6.1", "kernel source 7.2", "patch 0002-bbr3.patch",
        "host image", "engine image", "quic image", "rsync image", "Containernet", "Quarto",
        "Python",
    ]  # fmt: skip
    assert [pin.name for pin in found] == names
    assert server.asked == []
    assert all("; else " in pin.line() and not pin.lost for pin in found)


def test_list_of_pins_has_the_origin_of_built_files(server, monkeypatch):
    folder = kernel.target()
    folder.mkdir(parents=True)
    file, place = file_of("a.deb", b"a"), Place("snapshot", "http://example.org/a")
    archive.write_sources([Download(folder, file, place)], folder)
    (folder / "provenance.json").write_text('{"pinned": true}')
    assert "found 1 from the snapshot" in pins.examine()[0].line()
    folder.rename(kernel.target(pinned=False))
    (kernel.target(pinned=False) / "provenance.json").write_text('{"pinned": false}')
    assert "UNPINNED" in pins.examine()[0].line()


def test_check_lists_places_and_lost_pins(source, server, monkeypatch):
    _, _, tarball = source
    monkeypatch.setattr(image, "lock", lambda name=image.HOST: lock_of("bash", "curl"))
    monkeypatch.setattr(pins, "_containernet", lambda check: pins.Pin("Containernet", "", "", ""))
    monkeypatch.setattr(pins, "_pip_problem", lambda: "")
    asked = []
    monkeypatch.setattr(kernels.PublicPatch, "get", lambda patch: asked.append(patch.variable))
    server.files[MAIN + "b/bash/bash_1_all.deb"] = b"bash"
    server.files["/kernel/v6.x/linux-6.12.1.tar.xz"] = tarball
    found = pins.examine(check=True)
    assert "kernel.org has it" in line_of(found, "kernel source").found
    assert not line_of(found, "kernel source").lost
    lost = line_of(found, "host image")
    assert lost.lost
    assert asked == ["LOSSLAB_BBR3_PATCH"]
    assert "archive has 1 of 2" in lost.found
    assert "nowhere: curl_1_all.deb" in lost.found
    assert cli.main(["pins", "--check"]) == 1
    server.files[SNAPSHOT + "c/curl/curl_1_all.deb"] = b"curl"
    assert "snapshot 1 of the other 1" in line_of(pins.examine(check=True), "host image").found
    assert cli.main(["pins", "--check"]) == 0


def test_unavailable_kernel_source_is_reported_lost(source, server):
    assert pins._kernel(kernels.default(), archive.Fetcher()).lost


def canonical(requirements):
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def test_python_lock_satisfies_the_projects_requirements(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())
    wanted = canonical(
        Requirement(words)
        for words in (
            *project["project"]["dependencies"],
            *itertools.chain(*project["project"]["optional-dependencies"].values()),
        )
    )
    build, everything = (canonical(pins.locked_requirements(path)) for path in pins.PYTHON_LOCKS)
    wanted_to_build = canonical(map(Requirement, project["build-system"]["requires"]))
    for asked, locked in ((wanted, everything), (wanted_to_build, build)):
        for name, requirement in asked.items():
            (version,) = (each.version for each in locked[name].specifier)
            assert requirement.specifier.contains(version), name


def test_python_lock_is_complete_for_this_version():
    locked = canonical(
        r
        for r in pins.locked_requirements(pins.PYTHON_LOCKS[1])
        if r.marker is None or r.marker.evaluate()
    )
    for name in locked:
        for words in metadata.requires(name) or ():
            needed = Requirement(words)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in locked, f"{name} needs {needed.name}"


def test_python_lock_without_hashes_is_refused(tmp_path):
    path = tmp_path / "requirements.lock"
    path.write_text("a==1 \\\n    --hash=sha256:00\nb==2\n")
    with pytest.raises(LosslabError, match="found b==2"):
        pins.locked_requirements(path)
    path.write_text("a>=1 --hash=sha256:00\n")
    with pytest.raises(LosslabError, match="found a>=1"):
        pins.locked_requirements(path)


def test_conda_environment_has_the_locked_python_versions(root):
    environment = yaml.safe_load((root / "environment.yml").read_text())
    named = [words for words in environment["dependencies"] if isinstance(words, str)]
    locked = canonical(pins.locked_requirements(pins.PYTHON_LOCKS[1]))
    conda = {"snakemake": "snakemake-minimal"}
    for name in ("snakemake", "pandas", "jsonschema", "pyyaml", "packaging"):
        (version,) = (each.version for each in locked[name].specifier)
        assert f"{conda.get(name, name)}={version}" in named


# Provenance in every manifest, and in the tables of the report


@pytest.mark.parametrize("pinned", [True, False])
def test_instrument_is_pinned_if_all_its_parts_are(server, monkeypatch, tmp_path, pinned):
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")
    for folder, facts in (
        (kernel.target(), {"pinned": True, "hash": "k"}),
        (image.target(pinned=pinned), {"pinned": pinned, "hash": "i"}),
    ):
        (folder / "root").mkdir(parents=True)
        (folder / "provenance.json").write_text(json.dumps(facts))
    (kernel.target() / "linux").touch()
    sha256 = archive.digest(kernel.target() / "linux")
    (kernel.target() / integrity.LINUX_DIGEST).write_text(sha256)
    assert instrument.instrument().provenance["pinned"] is pinned
