"""The axes of programs that are brought along, or come with an image. Standard library only."""

from __future__ import annotations

from typing import Any

from losslab.study.axes import Seed, axis

NO_COMMAND, NOTHING_BROUGHT, DEFAULT_IMAGE = "none", "none", "default"
# What ngtcp2 has.
QUIC_ALGORITHMS = ("cubic", "reno", "bbr")


def sender_command() -> Any:
    """Declare what the sender runs."""
    return axis(
        NO_COMMAND,
        help="of the app `command`: a shell's words, which send to `$RECEIVER`",
        named="sends-{}", digested=True,
    )  # fmt: skip


def receiver_command() -> Any:
    """Declare what the receiver runs."""
    return axis(
        NO_COMMAND,
        help="of the app `command`: a shell's words, which listen on a port and are started first",
        named="receives-{}", digested=True,
    )  # fmt: skip


def bring() -> Any:
    """Declare what is brought along."""
    return axis(
        NOTHING_BROUGHT,
        help="a folder that is brought along for the app `command`, which works in a copy of it",
        named="bring-{}", digested=True, seed=Seed.NEVER,
    )  # fmt: skip


def image() -> Any:
    """Declare what the hosts have."""
    return axis(
        DEFAULT_IMAGE,
        help="what the hosts have: a folder of `containers/` with `packages.txt`; `default`: "
        "`quic` for the app of that name, `host` for all others",
        pattern="[a-z0-9-]+", named="image-{}", seed=Seed.NEVER,
    )  # fmt: skip
