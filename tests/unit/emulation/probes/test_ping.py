import struct

from losslab.emulation.probes import ping


def test_checksum_of_a_complete_request_is_zero():
    assert ping.checksum(ping.request(513)) == 0
    # RFC 1071, section 3: the sum of 0001 f203 f4f5 f6f7 is ddf2.
    assert ping.checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF & ~0xDDF2


def test_only_own_replies_count():
    header = bytes([0x45]) + bytes(19)
    reply = struct.pack("!BBHHH", 0, 0, 0, ping.IDENTIFIER, 7)
    assert ping.reply_sequence(header + reply) == 7
    assert ping.reply_sequence(header + ping.request(7)) is None
    other = struct.pack("!BBHHH", 0, 0, 0, ping.IDENTIFIER + 1, 7)
    assert ping.reply_sequence(header + other) is None
    with_options = bytes([0x46]) + bytes(23)
    assert ping.reply_sequence(with_options + reply) == 7
