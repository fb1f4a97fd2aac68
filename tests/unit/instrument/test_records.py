"""What the workflow's records say of the cache, and when they are worth nothing."""

import json

import pytest

from losslab.errors import LosslabError
from losslab.instrument import image, kernel, records
from losslab.instrument.archive import UnavailableError


class Cache:
    """A cache with one kernel, or none."""

    def __init__(self, monkeypatch, folder):
        self.folder = folder
        self.made_of = None
        monkeypatch.chdir(folder)
        monkeypatch.setattr(kernel, "existing", lambda variant, which: self.made_of and folder)
        monkeypatch.setattr(kernel, "provenance", lambda folder: self.made_of)
        monkeypatch.setattr(image, "existing", lambda name: None)

    def build(self):
        self.made_of = self.made_of or {"version": "6.12"}
        return self.folder

    def cannot(self):
        raise UnavailableError("it must be had, found: nobody has it", hint="ask somebody")


@pytest.fixture
def cache(monkeypatch, tmp_path):
    return Cache(monkeypatch, tmp_path)


RECORD = records.path("kernel", "plain")


def record(cache, **more):
    records.make("kernel", "plain", more.pop("build", cache.build), RECORD,
                 records.number("kernel", "plain"), **more)  # fmt: skip


def test_a_record_of_what_the_cache_has_keeps_its_number(cache):
    assert records.number("kernel", "plain") == 1
    record(cache)
    assert json.loads(RECORD.read_text()) == {"made_of": {"version": "6.12"}, "number": 1}
    assert records.number("kernel", "plain") == 1
    assert records.absent(RECORD) == ""


@pytest.mark.parametrize("now", [None, {"version": "6.13"}])
def test_a_record_of_something_else_asks_for_another_build_once(cache, now):
    record(cache)
    cache.made_of = now
    assert records.number("kernel", "plain") == 2
    record(cache)
    assert records.number("kernel", "plain") == 2


def test_what_somebody_else_wrote_is_no_record(cache):
    RECORD.parent.mkdir(parents=True)
    for text in ("{}", "no JSON"):
        RECORD.write_text(text)
        assert records.number("kernel", "plain") == 1


def test_what_cannot_be_had_is_an_error_unless_it_is_optional(cache):
    with pytest.raises(LosslabError, match="nobody has it"):
        record(cache, build=cache.cannot)
    assert not RECORD.exists()
    record(cache, build=cache.cannot, optional=True)
    assert records.absent(RECORD) == "it must be had, and could not"
    # It is not asked for again by itself, but where the cache has got it otherwise.
    assert records.number("kernel", "plain") == 1
    cache.build()
    assert records.number("kernel", "plain") == 2


def test_nobody_builds_what_is_of_no_use(cache):
    other = records.path("image", "engine")
    records.write({"absent": "no engine"}, other)
    record(cache, build=cache.cannot, only_with=[other])
    assert records.absent(RECORD) == "no engine"
    cache.build()
    record(cache, only_with=[other])
    assert records.absent(RECORD) == ""


def test_a_record_that_cannot_be_written_is_an_error(cache):
    (cache.folder / "results").write_text("a file")
    with pytest.raises(LosslabError, match="must be a file to write to"):
        record(cache)
