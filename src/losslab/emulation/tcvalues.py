"""Values as tc and the kernel convert, store and print them: pure functions.

Sources: iproute2 6.15 (`tc/q_netem.c`, `tc/tc_util.c`, `tc/tc_core.c`, `lib/json_writer.c`), and
Linux 6.12 (`net/sched/sch_htb.c`).
"""

from __future__ import annotations

from typing import Any

UINT32_MAX = 2**32 - 1
# Unit of a bucket's size, which tc converts to a transmission time (PSCHED_SHIFT, net/pkt_sched.h).
TICK_NS = 64
# The largest bucket, in seconds of its rate: 2^32 ticks are 274.9 s.
BUCKET_MAX_S = 274
# netem's options that are times. tc prints both or neither.
DELAY, JITTER = "delay.delay", "delay.jitter"
# Options that tc leaves out if they are 0 (netem_print_opt, tc/q_netem.c).
OMITTED = (DELAY, "loss-random.loss", "duplicate.duplicate", "reorder.reorder")
# Limits of HTB's default quantum, a tenth of the rate (htb_change_class, r2q): tc prints a warning
# if the kernel has to replace it.
HTB_RATE_PER_QUANTUM, HTB_QUANTUM_MIN, HTB_QUANTUM_MAX = 10, 1000, 200_000


def percent(share: float) -> str:
    """Return a probability as an argument of tc, in percent with ten digits."""
    return f"{100 * share:.10g}%"


def chance(share: float) -> int:
    """Return the 32-bit integer that tc makes of `percent(share)` (parse_percent, set_percent)."""
    return round(float(percent(share).removesuffix("%")) / 100 * UINT32_MAX)


def printed(option: str, value: Any) -> Any:
    """Return what tc prints as JSON for a planned option; None if it leaves the option out.

    Options that are floats are times in s, which netem stores in ns, or probabilities.
    tc prints them with six digits (jsonw_float).
    """
    if not isinstance(value, float):
        return value
    stored = round(value * 1e9) / 1e9 if option in (DELAY, JITTER) else chance(value) / UINT32_MAX
    if stored == 0 and option in OMITTED:
        return None
    return float(f"{stored:g}")


def bucket_bytes(rate_bytes: int, ticks: int) -> float:
    """Return the size of a bucket in bytes from its size in ticks."""
    return ticks * TICK_NS * rate_bytes / 1e9


def htb_quantum(rate_bytes: int, smallest: int) -> int | None:
    """Return the quantum that a class of HTB must set; None if the kernel's default is good.

    It is the largest that the kernel would choose, or the smallest that holds a packet.
    """
    default = rate_bytes // HTB_RATE_PER_QUANTUM
    if default < HTB_QUANTUM_MIN:
        return smallest
    return HTB_QUANTUM_MAX if default > HTB_QUANTUM_MAX else None
