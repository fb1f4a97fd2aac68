"""First use of the instrument: what is built, and the error without compilers."""

import pytest

from losslab import provide, repository
from losslab.backends.preflight import COMMON
from losslab.errors import HostError
from losslab.instrument import image, kernel, kernels, packed


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Record builds in an empty cache instead of running them."""
    found = []
    monkeypatch.setenv("LOSSLAB_CACHE", str(tmp_path))
    monkeypatch.delenv(packed.PLACE, raising=False)

    default = kernels.default().key
    monkeypatch.setattr(image, "build", lambda name, unpinned: found.append(("image", name)))
    monkeypatch.setattr(kernel, "build", lambda unpinned: found.append(("kernel", default)))
    return found


def test_empty_cache_gets_the_default_kernel_and_image(built):
    provide.provide(COMMON)
    assert built == [("image", image.HOST), ("kernel", kernels.default().key)]


def test_complete_cache_builds_nothing(built, capsys):
    for folder in (kernel.target(), image.target()):
        folder.mkdir(parents=True)
        (folder / "provenance.json").write_text('{"version": "1"}')
    provide.provide(COMMON)
    assert (built, capsys.readouterr().err) == ([], "")


def test_missing_compiler_is_named_with_the_command_that_installs_it(built, monkeypatch):
    monkeypatch.setattr(repository.shutil, "which", lambda name: None if name == "flex" else name)
    with pytest.raises(HostError, match="found missing: flex") as error:
        provide.provide(COMMON)
    assert "apt-get install --no-install-recommends gcc" in error.value.hint
    assert built == []
