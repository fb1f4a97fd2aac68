import pytest

from losslab import processes
from losslab.errors import LosslabError
from losslab.instrument import cache, image, kernel


def test_dropped_symbols_are_named():
    fragment = "# comment\nCONFIG_A=y\nCONFIG_B=250\nCONFIG_C=n\nCONFIG_D=y\n"
    config = "CONFIG_A=y\nCONFIG_B=100\nCONFIG_C=y\n# CONFIG_D is not set\n"
    assert kernel.dropped_symbols(fragment, config) == ["CONFIG_B", "CONFIG_C", "CONFIG_D"]


def test_a_failed_build_leaves_nothing(tmp_path):
    target = tmp_path / "kernel" / "hash"
    with pytest.raises(ValueError, match="broken"), cache.building(target) as folder:
        assert folder is not None
        (folder / "linux").touch()
        raise ValueError("broken")
    assert not target.exists()
    assert [p.name for p in target.parent.iterdir()] == [".hash.lock"]


def test_what_a_killed_build_left_goes(tmp_path):
    target = tmp_path / "kernel" / "hash"
    (tmp_path / "kernel" / ".hash.partial-killed" / "linux").mkdir(parents=True)
    (tmp_path / "kernel" / ".other.partial-running").mkdir()
    with cache.building(target):
        pass
    left = sorted(p.name for p in target.parent.iterdir())
    assert left == [".hash.lock", ".other.partial-running", "hash"]


def test_a_finished_build_is_not_repeated(tmp_path):
    target = tmp_path / "kernel" / "hash"
    with cache.building(target) as folder:
        assert folder is not None
    with cache.building(target) as folder:
        assert folder is None


def test_a_failing_command_shows_its_last_lines(tmp_path):
    with pytest.raises(LosslabError, match="no rule"):
        processes.run(["sh", "-c", "echo no rule; exit 2"], log=tmp_path / "log")


def test_a_missing_command_says_what_to_do(tmp_path):
    with pytest.raises(LosslabError) as error:
        processes.run(["no-such-program"], log=tmp_path / "log")
    assert error.value.hint == "run `make setup`"


def test_bytes_are_replaced_only_where_they_are_there_once(tmp_path):
    program = tmp_path / "shim"
    program.write_bytes(b"\0TODOGOMAXPROCS=4unix\0")
    each = image.Replacement("shim", b"GOMAXPROCS=4", b"GOMAXPROCS=1", "a recipe")
    each.apply(tmp_path)
    assert program.read_bytes() == b"\0TODOGOMAXPROCS=1unix\0"
    with pytest.raises(LosslabError, match="once, found it 0 times"):
        each.apply(tmp_path)


def test_a_recipe_replaces_bytes_by_as_many(tmp_path):
    recipe = tmp_path / "replace.toml"
    assert image.read_replacements(recipe) == []
    recipe.write_text('[[replace]]\nfile = "a"\nfound = "00ff"\nby = "ff"\n')
    with pytest.raises(LosslabError, match="by as many others"):
        image.read_replacements(recipe)
    recipe.write_text('[[replace]]\nfile = "a"\nfound = "nothing"\n')
    with pytest.raises(LosslabError, match="must have"):
        image.read_replacements(recipe)
    (each,) = image.replacements("quic")
    assert each.by.startswith(bytes.fromhex("f30f1efa"))


def test_variants_leave_the_plain_builds_alone():
    assert kernel.content_hash() == kernel.content_hash(kernel.PLAIN)
    assert kernel.content_hash(kernel.CONTAINERS) != kernel.content_hash()
    assert image.content_hash() == image.content_hash(image.HOST)
    assert image.content_hash(image.ENGINE) != image.content_hash()
    assert set(image.packages()) < set(image.packages(image.ENGINE))
