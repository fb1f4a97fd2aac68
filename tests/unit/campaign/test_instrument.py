"""Instruments of a campaign: packed ones, and the time limit of the video encoder."""

import pytest

from losslab import repository
from losslab.backends import runner
from losslab.backends.base import COMMON
from losslab.campaign import instrument
from losslab.campaign.replicate import Instrument
from losslab.errors import GuestLostError, HostError
from losslab.instrument import built, image, integrity, kernel, packed
from losslab.instrument.part import Part
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
    assert all("not built" in line for line in built.installed())


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
def builds(nothing_built, monkeypatch):
    """Record builds in an empty cache instead of running them."""
    recipes = []
    monkeypatch.setattr(Part, "build", lambda part, unpinned: recipes.append(part.recipe))
    return recipes


def test_empty_cache_gets_the_default_kernel_and_image(builds):
    instrument.provide(COMMON)
    assert builds == [image.content_hash(), kernel.content_hash()]


def test_missing_compiler_is_named_with_the_command_that_installs_it(builds, monkeypatch):
    monkeypatch.setattr(repository.shutil, "which", lambda name: None if name == "flex" else name)
    with pytest.raises(HostError, match="found missing: flex") as error:
        instrument.provide(COMMON)
    assert "apt-get install --no-install-recommends gcc" in error.value.hint
    assert builds == []


def test_missing_kernels_and_images_are_all_named_with_the_commands_that_build_them(nothing_built):
    """F3: a missing kernel stopped a sweep after the cells of the other kernels."""
    conditions = [Condition(algorithm=name) for name in ("cubic", "bbr", "bbr3")]
    with pytest.raises(HostError, match=r"kernel 6\.12-bbr3 is not built") as error:
        instrument.require_built([*conditions, Condition(algorithm="cubic", app="ffmpeg")])
    assert "pinned kernel is not built" in error.value.message
    assert "`losslab kernel --name 6.12-bbr3`" in error.value.hint
    assert "`losslab image --variant" in error.value.hint


def test_pip_user_is_not_asked_for_what_the_first_run_builds(nothing_built, monkeypatch):
    monkeypatch.setattr(instrument, "INSTALLED", True)
    instrument.require_built([Condition(algorithm="cubic"), Condition(algorithm="bbr")])
    with pytest.raises(HostError, match=r"kernel 6\.12-bbr3 is not built"):
        instrument.require_built([Condition(algorithm="cubic"), Condition(algorithm="bbr3")])
