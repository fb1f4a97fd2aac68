"""Links in archives: they stay inside, also through other links."""

import tarfile

import pytest

from losslab.instrument import packed, unpacking
from tests.unit.instrument.test_hostile_archives import ARCHIVE, LINK, NAME, ROOT, member, publish

CRAFTED = {
    "link that climbs through a link to .": (  # C4
        [
            ROOT, member(f"{NAME}/root/s", linkname=".", **LINK),
            member(f"{NAME}/root/e", linkname="s/s/s/../../../etc/hostname", **LINK),
        ],
        "within root",
    ),
    "link that climbs through a later link": (
        [
            ROOT, member(f"{NAME}/root/a", linkname="b/../../x", **LINK),
            member(f"{NAME}/root/b", linkname=".", **LINK),
        ],
        "within root",
    ),
    "links in a circle": (
        [
            ROOT, member(f"{NAME}/root/a", linkname="b", **LINK),
            member(f"{NAME}/root/b", linkname="a", **LINK),
        ],
        "within root",
    ),
    "link written through a link": (
        [
            ROOT, member(f"{NAME}/root/x", linkname="/tmp", **LINK),
            member(f"{NAME}/root/x/losslab-link", linkname="y", **LINK),
        ],
        "written through a link",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CRAFTED)
def test_link_that_leaves_the_image_is_refused(kind, tmp_path):
    """C4: a link to `.` hid how far another one climbs."""
    members, words = CRAFTED[kind]
    publish(tmp_path / "place", members, format=tarfile.PAX_FORMAT)
    (tmp_path / "out").mkdir()
    limits = packed.LIMITS[packed.IMAGE]
    with pytest.raises(unpacking.RefusedError, match=words):
        unpacking.unpack(tmp_path / "place" / ARCHIVE, tmp_path / "out", NAME, limits)
