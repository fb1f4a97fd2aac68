"""How many files a program may have open: a flow is one."""

from __future__ import annotations

import resource

# What a program has open besides flows: Python's own, a listener, a poll.
OTHER_FILES = 32


def allow_files(flows: int) -> None:
    """Raise this process's limit of open files to what so many flows need.

    A host's programs have a low one (`topology.DESCRIPTOR_LIMIT`).

    Raises:
        ValueError: this process may not.
    """
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = flows + OTHER_FILES
    if least == resource.RLIM_INFINITY or wanted <= least:
        return
    if most != resource.RLIM_INFINITY:
        most = max(most, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
