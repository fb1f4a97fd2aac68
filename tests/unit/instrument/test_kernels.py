"""Parameters of the kernel's command line: unknown ones are refused, others are read back."""

import dataclasses
import hashlib
from dataclasses import replace

import pytest

from losslab.emulation.jobs import guest
from losslab.instrument import kernel, kernels
from losslab.instrument.fetch import UnavailableError
from losslab.reading import UsageError
from losslab.study.condition import DEFAULT_KERNEL

PATCH = b"--- a/x\n+++ b/x\n"


def test_every_declared_kernel_has_its_pins_patches_and_hash():
    for which in kernels.declared().values():
        assert kernel.pins(which.series).version.startswith(f"{which.series.name}.")
        assert all(path.is_file() for path in which.patches)
        assert "0010-hostfs-limits.patch" in which.patch_names
        assert kernels.of_key(which.key) == which
    hashes = [kernel.content_hash(which) for which in kernels.declared().values()]
    assert len(set(hashes)) == len(hashes)
    assert kernels.get(DEFAULT_KERNEL) == kernels.get("6.12") == kernels.default()
    assert kernel.content_hash() == kernel.content_hash(kernels.get("6.12"))


@pytest.fixture
def patch(tmp_path, monkeypatch):
    monkeypatch.delenv("LOSSLAB_A_PATCH", raising=False)
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path / "cache"))
    sha256 = hashlib.sha256(PATCH).hexdigest()
    address = (tmp_path / "public.patch").as_uri()
    return kernels.PublicFile("a.patch", address, sha256, len(PATCH), "LOSSLAB_A_PATCH")


@pytest.mark.parametrize("local", [False, True])
def test_public_patch_is_taken_with_its_digest_only(patch, tmp_path, monkeypatch, local):
    place = tmp_path / "public.patch"
    if local:
        place = tmp_path / "copy.patch"
        monkeypatch.setenv(patch.variable, str(place))
    with pytest.raises(UnavailableError, match="not there") as error:
        patch.get()
    assert patch.address in error.value.hint
    assert patch.variable in error.value.hint
    place.write_bytes(b"another")
    with pytest.raises(UnavailableError, match="different content"):
        patch.get()
    place.write_bytes(PATCH)
    assert patch.get().read_bytes() == PATCH
    place.unlink()
    assert patch.get().read_bytes() == PATCH


def test_missing_public_patch_is_refused_before_the_source_is_fetched(patch, monkeypatch):
    monkeypatch.setattr(kernel, "fetch_source", lambda *_: pytest.fail("too early"))
    which = dataclasses.replace(kernels.default(), name="new", fetched=(patch,))
    with pytest.raises(UnavailableError, match="not there"):
        kernel.part(which).build()


def test_changed_public_patch_makes_another_kernel(patch):
    which = dataclasses.replace(kernels.default(), fetched=(patch,))
    other = dataclasses.replace(which, fetched=(dataclasses.replace(patch, sha256="0" * 64),))
    assert len({kernel.content_hash(k) for k in (kernels.default(), which, other)}) == 3
    assert which.patch_names[-1] == "a.patch"


def test_patches_of_a_kernel_apply_in_the_order_of_their_names():
    """BBR's file is copied before the public patch changes it."""
    names = ["0001-copy-of-bbr.patch", "0002-bbr3.patch", "0003-bbr3-beside-bbr.patch"]
    assert kernels.get("6.12-bbr3").patch_names[-3:] == names


def test_series_may_have_its_own_settings():
    """Patches of a series apply to its kernels only, in addition to the common ones."""
    names = {name: [path.name for path in kernel.fragments(which)]
             for name, which in kernels.declared().items()}  # fmt: skip
    assert names["7.2"] == ["fragment.config", "fragment.config"]
    assert names["6.12"] == ["fragment.config"]
    own = kernel.fragments(kernels.get("7.2"))[1]
    assert "CONFIG_NET_SCH_DUALPI2=y" in own.read_text().splitlines()


BINARY = b"ELF\0tcp_mine.gain\0x\0tcp_mine.quiet\0tcp_other.gian\0printk.devkmsg=\0"


@pytest.fixture
def linux(tmp_path):
    (tmp_path / "linux").write_bytes(BINARY)
    return tmp_path / "linux"


def spec(*boot):
    return replace(kernels.default(), boot=boot)


def test_misspelt_parameter_is_refused_with_the_known_ones(linux):
    """A12: `tcp_mine.gian=3` was valid, with gain 1's bytes under gain 3's label."""
    with pytest.raises(UsageError, match=r"found tcp_mine\.gian=3.*gain, quiet; did you mean gain"):
        kernels.require_parameters(spec("tcp_mine.gian=3"), linux)
    with pytest.raises(UsageError, match="nothing is not one of them"):
        kernels.require_parameters(spec("nothing.gain=3"), linux)


def test_misspelt_parameter_of_an_own_kernel_names_the_users_file(linux, campaign_folder):
    declared = campaign_folder / "kernels" / "k2" / "kernel.toml"
    declared.parent.mkdir(parents=True)
    declared.touch()
    with pytest.raises(UsageError) as error:
        kernels.require_parameters(replace(spec("tcp_mine.gian=3"), name="k2"), linux)
    assert error.value.hint == f"correct it in {declared}, or in the axis parameters"


@pytest.mark.parametrize(
    "word", ["tcp_mine.gain=3", "tcp-mine.quiet", "printk.devkmsg=on", "seccomp=on", "quiet"]
)
def test_known_parameter_is_accepted(linux, word):
    kernels.require_parameters(spec(word), linux)


def test_parameter_of_an_algorithm_that_the_kernel_lacks_has_no_effect(linux, campaign_folder):
    source = campaign_folder / "algorithms/own/tcp_own.c"
    source.parent.mkdir(parents=True)
    source.touch()
    kernels.require_parameters(spec("tcp_own.gain=3"), linux)
    with pytest.raises(UsageError):
        kernels.require_parameters(replace(spec("tcp_own.gain=3"), algorithms=(source,)), linux)


@pytest.mark.parametrize(
    ("word", "found", "count"),
    [
        ("tcp_mine.gain=3", "3\n", 0), ("tcp-mine.gain=0x3", "3\n", 0),
        ("tcp_mine.gain=3", "1\n", 1), ("tcp_mine.gain=abc", "1\n", 1),
        ("tcp_mine.gain=on", "Y\n", 0), ("tcp_mine.gain", "Y\n", 0),
        ("tcp_mine.gain=off", "Y\n", 1), ("tcp_mine.gain=abc", "abc\n", 0),
        ("seccomp=on", "1\n", 0), ("tcp_mine.hidden=3", "1\n", 0),
    ],
)  # fmt: skip
def test_parameter_that_reads_back_differently_is_a_violation(tmp_path, word, found, count):
    """A12: it was set and not read back."""
    file = tmp_path / "tcp_mine" / "parameters" / "gain"
    file.parent.mkdir(parents=True)
    file.write_text(found)
    assert len(list(guest.parameter_violations([word], tmp_path))) == count


def test_key_with_a_name_that_no_kernel_has_is_refused():
    with pytest.raises(UsageError, match="less than 16 bytes"):
        kernels.of_key(f"6.12+{300 * 'm'}")
