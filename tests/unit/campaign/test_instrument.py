"""Instruments of a campaign: packed ones, and the time limit of the video encoder."""

import pytest

from losslab import repository
from losslab.backends import runner
from losslab.backends.base import COMMON
from losslab.campaign import instrument
from losslab.campaign.replicate import Instrument
from losslab.errors import GuestLostError, HostError
from losslab.instrument import image, integrity, kernel, kernels, packed, records
from losslab.study.condition import Condition


@pytest.fixture
def nothing_built(monkeypatch, tmp_path):
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(packed.PLACE, raising=False)
    # The made-up instruments have pins of their own.
    monkeypatch.setattr(integrity, "PINS", tmp_path / "trees.tsv")


def test_missing_instrument_names_the_build_command(nothing_built):
    with pytest.raises(HostError, match="is not built"):
        instrument.instrument()
    assert all("not built" in line for line in records.installed())


@pytest.mark.parametrize(
    ("given_s", "limit_s"), [(0.3, 0.3), (None, instrument.ENCODE_TIMEOUT_S), (900.0, 900.0)]
)
def test_encoder_has_a_guest_of_its_own_and_the_requested_limit(
    monkeypatch, tmp_path, given_s, limit_s
):
    """A campaign's guest may have containers, which run no other jobs."""
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path))
    jobs = []

    def run(backend, tools, job):
        jobs.append((job.timeout_s, job.alone))
        raise GuestLostError("the guest must end in time, found it still running")

    monkeypatch.setattr(runner, "run", run)
    tools = Instrument(
        tmp_path / "linux", tmp_path / "root", {"image": {"hash": "0"}}, "containernet",
        engine_root=tmp_path / "engine",
    )  # fmt: skip
    with pytest.raises(GuestLostError):
        instrument.video(Condition(algorithm="cubic", app="ffmpeg"), tools, given_s)
    assert jobs == [(limit_s, True)]


@pytest.fixture
def built(nothing_built, monkeypatch):
    """Record builds in an empty cache instead of running them."""
    found = []
    default = kernels.default().key
    monkeypatch.setattr(image, "build", lambda name, unpinned: found.append(("image", name)))
    monkeypatch.setattr(kernel, "build", lambda unpinned: found.append(("kernel", default)))
    return found


def test_empty_cache_gets_the_default_kernel_and_image(built):
    instrument.provide(COMMON)
    assert built == [("image", image.HOST), ("kernel", kernels.default().key)]


def test_missing_compiler_is_named_with_the_command_that_installs_it(built, monkeypatch):
    monkeypatch.setattr(repository.shutil, "which", lambda name: None if name == "flex" else name)
    with pytest.raises(HostError, match="found missing: flex") as error:
        instrument.provide(COMMON)
    assert "apt-get install --no-install-recommends gcc" in error.value.hint
    assert built == []
