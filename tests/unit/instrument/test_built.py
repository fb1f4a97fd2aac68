"""Records of the workflow about the cache, and their invalidation."""

import json

import pytest

from losslab.errors import LosslabError
from losslab.instrument import built
from losslab.instrument.fetch import UnavailableError
from losslab.instrument.part import Part


class Cache:
    """A cache with one kernel, or an empty one."""

    def __init__(self, monkeypatch, folder):
        self.folder = folder
        self.made_of = None
        monkeypatch.chdir(folder)
        monkeypatch.setattr(Part, "existing", lambda part: self.made_of and folder)
        monkeypatch.setattr(built.cache, "provenance", lambda folder: self.made_of)

    def build(self):
        self.made_of = self.made_of or {"version": "6.12"}
        return self.folder

    def cannot(self):
        raise UnavailableError("it must be available, found: nobody has it", hint="ask somebody")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    return Cache(monkeypatch, tmp_path)


RECORD = built.path("kernel", "6.12")


def record(cache, **more):
    built.make("kernel", "6.12", more.pop("build", cache.build), RECORD, **more)


def kept():
    built.remove_outdated()
    return RECORD.exists()


def test_record_of_the_cached_part_is_kept(cache):
    record(cache)
    assert kept()
    assert json.loads(RECORD.read_text()) == {"made_of": {"version": "6.12"}}
    assert built.absent(RECORD) == ""


@pytest.mark.parametrize("now", [None, {"version": "6.13"}])
def test_outdated_record_is_removed(cache, now):
    record(cache)
    cache.made_of = now
    assert not kept()


def test_file_of_another_writer_is_no_record(cache):
    RECORD.parent.mkdir(parents=True)
    for text in ("{}", "no JSON"):
        RECORD.write_text(text)
        assert not kept()


def test_unavailable_part_is_an_error_unless_optional(cache):
    with pytest.raises(LosslabError, match="nobody has it"):
        record(cache, build=cache.cannot)
    assert not RECORD.exists()
    record(cache, build=cache.cannot, optional=True)
    assert built.absent(RECORD) == "kernel 6.12 is not there: its sources are unavailable"
    # It is asked for again only once the cache has it.
    assert kept()
    cache.build()
    assert not kept()


def test_unwritable_record_is_an_error(cache):
    (cache.folder / "results").write_text("a file")
    with pytest.raises(LosslabError, match="must be writable"):
        record(cache)
