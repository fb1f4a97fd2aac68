"""Instruments with a replaced file, which are refused, and one that another machine packed."""

import json
import os
import shutil
import time

import pytest

from losslab.instrument import built, fetch, integrity
from tests.faults import kit


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return kit.own_cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def losslab(cache):
    """Return a function that runs losslab with that cache."""

    def losslab(*words):
        return kit.run(*kit.LOSSLAB, *words, env=os.environ | cache.environment)

    return losslab


@pytest.fixture
def wrapped_iperf3(cache):
    """Replace iperf3 by a wrapper that halves the goodput; restore it afterwards."""
    program = cache.image / "root" / "usr/bin/iperf3"
    program.rename(program.with_name("iperf3.real"))
    program.write_text('#!/bin/sh\nexec /usr/bin/iperf3.real "$@" --set-mss 536\n')
    program.chmod(0o755)
    yield
    program.with_name("iperf3.real").rename(program)


def measure(out):
    return ["measure", "--algorithm", "cubic", "--rate-mbit", "5", "--duration-s", "1",
            "--warmup-s", "0.1", "--out", out]  # fmt: skip


def test_replaced_program_is_refused_before_measuring_and_found_by_doctor(
    losslab, wrapped_iperf3, tmp_path
):
    done = losslab(*measure(tmp_path / "out"))
    assert done.returncode == 1
    assert "found: usr/bin/iperf3 has another size and content" in done.stderr
    assert "usr/bin/iperf3.real was added" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
    done = losslab("doctor", "--whole", "--json")
    assert done.returncode == 1
    findings = {each["requirement"]: each for each in json.loads(done.stdout)[-1]["findings"]}
    assert findings["kernel 6.12"]["good"]
    assert "usr/bin/iperf3" in findings["image host, tree pinned"]["found"]
    assert not findings["image host, tree pinned"]["good"]


def test_manifest_has_the_image_digest_and_host_json_the_kernels(losslab, cache, tmp_path):
    done = losslab(*measure(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    _, pinned = integrity.pins()[cache.image.name]
    assert manifest["instrument"]["image"]["tree_sha256"] == pinned
    host = json.loads((tmp_path / "out" / "host.json").read_text())
    assert host["kernel_sha256"] == fetch.digest(cache.kernel / "linux")


def test_kernel_replaced_with_its_digest_ends_a_campaign(losslab, cache, tmp_path):
    def cell(percent):
        command = kit.cell_command(tmp_path, 1, kit.CONDITION | {"loss_percent": percent})
        return kit.run(*command, env=os.environ | cache.environment)

    built.write({"found": ""}, tmp_path / "instrument/smoke-test-virtual-guest.json")
    first = cell(1)
    assert first.returncode == 0, first.stderr
    linux, digest = cache.kernel / "linux", cache.kernel / integrity.LINUX_DIGEST
    aside = {path: path.with_name(f"{path.name}.aside") for path in (linux, digest)}
    for path, other in aside.items():
        path.rename(other)
    shutil.copy2(aside[linux], linux)
    with linux.open("ab") as file:
        file.write(b"another build")
    digest.write_text(f"{fetch.digest(linux)}\n")
    try:
        done = cell(2)
        assert done.returncode == 1
        assert "must be the one that this campaign began with" in done.stderr
        assert not (kit.cell_folder(tmp_path) / "0").exists()
    finally:
        for path, other in aside.items():
            other.rename(path)


def test_empty_cache_measures_with_the_packed_instrument(losslab, tmp_path):
    place = str(tmp_path / "packed")
    done = losslab("instrument", "pack", "kernel-6.12", "image-host", "--out", place)
    assert done.returncode == 0, done.stderr
    begin = time.monotonic()
    student = {"LOSSLAB_CACHE": str(tmp_path / "cache"), "LOSSLAB_INSTRUMENTS": place}
    done = kit.run(*kit.LOSSLAB, *measure(tmp_path / "out"), env=os.environ | student)
    assert done.returncode == 0, done.stderr
    print(f"from an empty cache to the first number: {time.monotonic() - begin:.0f} s")
    origins = [*(tmp_path / "cache").glob("*/*/fetched.json")]
    assert [json.loads(path.read_text())["from"] for path in origins] == [place, place]
