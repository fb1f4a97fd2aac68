"""Saved container images: merged layers, whiteouts, links, and files that are none."""

import gzip
import hashlib
import io
import json
import subprocess
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from losslab.errors import LosslabError
from losslab.instrument import rootimage

IMAGE = {
    "architecture": "amd64",
    "config": {"Env": ["A=b c"], "Entrypoint": ["/run", "it's"], "WorkingDir": "/work"},
}


def layer(*members, zipped=False):
    """Return a layer of names with contents; `->`, `=>` and `/` make links and folders."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in members:
            header = tarfile.TarInfo(name)
            header.mode = 0o755
            if content == "/":
                header.type = tarfile.DIRTYPE
            elif content.startswith(("->", "=>")):
                header.type = tarfile.SYMTYPE if content[0] == "-" else tarfile.LNKTYPE
                header.linkname = content[2:]
            elif content == "device":
                header.type = tarfile.CHRTYPE
            else:
                header.size = len(content)
            tar.addfile(header, io.BytesIO(content.encode()) if header.size else None)
    return gzip.compress(out.getvalue()) if zipped else out.getvalue()


def saved(path, layers, image=IMAGE, form="docker", broken=b"", platforms=("amd64", "arm64")):
    """Write a saved image."""
    files = {}

    def blob(content):
        name = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{name}"] = content + broken
        return {"digest": f"sha256:{name}"}

    config, *blobs = (blob(each) for each in (json.dumps(image).encode(), *layers))
    if form == "docker":
        names = [f"blobs/{each['digest'].replace(':', '/')}" for each in (config, *blobs)]
        manifest = [{"Config": names[0], "Layers": names[1:], "RepoTags": ["x:y"]}]
        files["manifest.json"] = json.dumps(manifest).encode()
    else:
        inner = blob(json.dumps({"config": config, "layers": blobs}).encode())
        its = [inner | {"platform": {"architecture": each, "os": "linux"}} for each in platforms]
        index = blob(json.dumps({"manifests": its}).encode())
        files |= {"index.json": json.dumps({"manifests": [index]}).encode(), "oci-layout": b"{}"}
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))


def merged(path, tmp_path):
    """Merge an image; return its configuration and its files with their contents."""
    config, _ = rootimage.merge(path, tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar") as tar:
        found = {
            each.name: "/" if each.isdir() else f"->{each.linkname}" if each.issym()
            else tar.extractfile(each).read().decode()
            for each in tar
        }  # fmt: skip
    return config, found


@pytest.mark.parametrize("form", ["docker", "oci"])
@pytest.mark.parametrize("zipped", [False, True])
def test_layers_of_a_saved_image_are_merged(form, zipped, tmp_path):
    layers = [
        layer(
            ("usr/bin/", "/"), ("bin", "->usr/bin"), ("usr/bin/sh", "old"), ("etc/a", "1"),
            ("etc/b", "2"), ("opt/x/deep", "3"), ("null", "device"), ("hard", "=>etc/a"),
        ),
        layer(
            ("bin/sh", "new"), ("etc/.wh.b", ""), ("opt/x/.wh..wh..opq", ""), ("opt/x/new", "4"),
            ("./usr/bin/.wh.none", ""), zipped=zipped,
        ),
    ]  # fmt: skip
    saved(tmp_path / "image.tar", layers, form=form)
    config, found = merged(tmp_path / "image.tar", tmp_path)
    assert found == {
        "usr/bin": "/", "bin": "->usr/bin", "usr/bin/sh": "new", "etc/a": "1", "hard": "1",
        "opt/x/new": "4",
    }  # fmt: skip
    said = subprocess.run(
        ["sh", "-c", config.shell() + 'printf "%s|" "$A" "$image_folder" "$@"'],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert said == "b c|/work|/run|it's|"


def test_plain_root_folder_is_accepted(tmp_path):
    (tmp_path / "root.tar").write_bytes(layer(("./bin/", "/"), ("./bin/sh", "x")))
    _, found = merged(tmp_path / "root.tar", tmp_path)
    assert found == {"bin": "/", "bin/sh": "x"}
    rootimage.write(tmp_path / "root.tar", tmp_path)
    rootimage.require_command(tmp_path, "sender", "./serve")
    with pytest.raises(LosslabError, match="must have an entry point"):
        rootimage.require_command(tmp_path, "sender", "entrypoint")


@pytest.mark.parametrize(
    "name", ["../../evil", "/../evil", "up/evil", "abs/../../evil", "abs/evil"]
)
def test_no_member_leaves_the_root(name, tmp_path):
    links = [("up", "->../../../"), ("abs", "->/etc"), ("etc/", "/")]
    (tmp_path / "root.tar").write_bytes(layer(*links, (name, "x")))
    _, found = merged(tmp_path / "root.tar", tmp_path)
    (path,) = [path for path in found if path.endswith("evil")]
    assert path in ("evil", "etc/evil")
    assert not any(part in ("", "..") for path in found for part in path.split("/"))


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: path.write_bytes(b""), "must be a saved container image"),
        (lambda path: path.write_bytes(b"#!/bin/sh\n" * 99), "must be a saved container image"),
        (lambda path: path.write_bytes(layer()), "must have files"),
        (lambda path: path.write_bytes(layer(("a", "->b"), ("b", "->a"), ("a/x", "1"))), "loop"),
        (lambda path: path.write_bytes(layer(("a", "=>b"))), "hard link"),
        (lambda path: path.write_bytes(layer(("manifest.json", "[]"))), "one image"),
        (lambda path: path.write_bytes(layer(("manifest.json", "{"))), "saved container image"),
        (lambda path: path.write_bytes(layer(("manifest.json", "[1]"))), "saved container image"),
        (lambda path: saved(path, [layer(("a", "1"))], broken=b" "), "must have this digest"),
        (lambda path: saved(path, [rootimage.ZSTD + b"1234"]), "zstd"),
        (lambda path: saved(path, [], form="oci", platforms=["arm64"] * 2), "for amd64, found 0"),
        (lambda path: saved(path, [], image={"architecture": "arm64"}), "amd64, found 'arm64'"),
        (lambda path: saved(path, [], image={"config": {"Env": ["; reboot"]}}), "NAME=VALUE"),
    ],
)  # fmt: skip
def test_file_that_is_no_image_is_refused_in_one_line(write, said, tmp_path):
    write(tmp_path / "image.tar")
    with pytest.raises(LosslabError, match=said) as error:
        rootimage.merge(tmp_path / "image.tar", tmp_path / "out.tar")
    assert "\n" not in error.value.message


NAMES = st.lists(st.sampled_from(["a", "b", "c", "..", ".wh.a", ".wh..wh..opq"]), min_size=1)
CONTENTS = st.sampled_from(["/", "x", "->a", "->/b/c", "->../..", "=>a", "device"])


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(NAMES.map("/".join), CONTENTS), max_size=8), max_size=3))
def test_any_layers_are_merged_below_the_root_or_refused(tmp_path_factory, layers):
    folder = tmp_path_factory.mktemp("image")
    saved(folder / "image.tar", [layer(*each) for each in layers])
    try:
        _, found = merged(folder / "image.tar", folder)
    except LosslabError:
        return
    assert not any(part in ("", ".", "..") for path in found for part in path.split("/"))
    links = {path for path, content in found.items() if content.startswith("->")}
    assert not any(path.startswith(f"{link}/") for link in links for path in found)
