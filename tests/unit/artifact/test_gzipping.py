"""Gzip on several processors."""

import gzip
import io
import random

from losslab.artifact.gzipping import PART_BYTES, writing


def compressed(data: bytes, step: int) -> bytes:
    file = io.BytesIO()
    with writing(file, 3) as writer:
        for at in range(0, len(data), step):
            assert writer.write(data[at : at + step]) == len(data[at : at + step])
    return file.getvalue()


def test_the_members_are_one_file_in_order() -> None:
    text = b"".join(b"%d," % number for number in range(2 * PART_BYTES))
    found = compressed(text, 99_991)
    assert gzip.decompress(found) == text
    assert len(found) < len(text) / 2
    assert found == compressed(text, 99_991)
    assert gzip.decompress(compressed(b"", 1)) == b""


def test_data_that_does_not_shrink_is_stored() -> None:
    noise = random.Random(1).randbytes(3 * PART_BYTES)
    found = compressed(noise, PART_BYTES)
    assert gzip.decompress(found) == noise
    assert noise[:1000] in found
    assert len(found) < 1.001 * len(noise)
