"""Try containers, links, routes, rate and clean-up on this machine's own engine, without netem.

    python -m bench.rehearsal [--duration-s 2]

prints what was read back and seen. As root, with Docker's engine and `make containernet`.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

from losslab import preflight
from losslab.backends import containernet
from losslab.build import image
from losslab.condition import Condition
from losslab.errors import LosslabError

TIMEOUT_S = 300.0


def images() -> containernet.Images:
    """Find the built images."""
    engine, host = image.existing(image.ENGINE), image.existing()
    if engine is None or host is None:
        raise LosslabError("the images must be built, found none", hint="run `make containernet`")
    return containernet.Images(engine / "root", host / "root", image.provenance(host)["hash"])


def main() -> int:
    """Rehearse once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration-s", type=float, default=2.0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    allowed = preflight.ALGORITHMS_ALLOWED.read_text().split()
    condition = Condition(
        algorithm=allowed[0], loss_percent=0.0, path="asymmetric", app="iperf3", rtt_ms=0.44,
        rate_mbit=50.0, buffer_packets=100, duration_s=options.duration_s, warmup_s=0.0,
    )  # fmt: skip
    used = images()
    lacking = [
        kind for kind in preflight.QDISCS
        if not preflight.kernel_qdisc(kind, True, used.engine).good
    ]  # fmt: skip
    job = {
        "kind": "rehearsal", "condition": condition.to_json(), "seed": 7, "lacking": lacking,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="losslab-rehearsal-") as name:
        try:
            outcome = containernet.run_on_host(used, job, Path(name), TIMEOUT_S)
        except LosslabError as error:
            print(f"rehearsal: error: {error}", file=sys.stderr)
            return 1
    print(json.dumps({"lacking": lacking, **outcome.result}, indent=1, sort_keys=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
