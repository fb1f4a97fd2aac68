"""Job in containers of this machine's Docker engine, in real time.

It runs as root in the engine image, in its own network and mount namespaces; see
`backends.containernet`. The job's folder is /mnt/out, the host image is in /mnt/image.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from losslab.emulation import containers
from losslab.emulation.jobs import hostjob
from losslab.emulation.jobs.hostjob import JOB
from losslab.emulation.outcome import write_failure, write_result

IMAGE = Path("/mnt/image")


def main() -> int:
    """Run the job, write its result or failure, and remove its containers."""
    signal.signal(signal.SIGTERM, _interrupted)
    (JOB / "started").touch()
    try:
        job = json.loads((JOB / "job.json").read_text())
        api = containers.client()
        if job["kind"] == "clean":
            removed = containers.remove(api, job["owner"])
            write_result({"removed": removed}, JOB / "result.json")
            return 0
        # Jobs run one at a time, so containers found here are of runs that were killed.
        for leftover in containers.remove(api):
            print(f"removed {leftover}, left over from a killed run")
        with containers.owned(api, job["owner"]):
            _provide_image(api, job["image"])
            binds = [*job["binds"], *containers.name_binds(Path(job["image_root"]))]
            place = containers.Place(job["owner"], job["image"], tuple(binds), hostjob.LIMITED)
            result = hostjob.replicate(job, containers.host_class(place))
            result["machine"]["docker"] = api.version()["Version"]
            write_result(result, JOB / "result.json")
    except Exception as error:
        write_failure(containers.of_engine(error) or error, JOB / "result.json")
    return 0


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Exit through the context managers, which remove the containers."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)


def _provide_image(api: Any, image: str) -> None:
    """Import the host image, whose files a guest has as its root, unless the engine has it."""
    if containers.has_image(api, image):
        return
    command = ["tar", "-C", str(IMAGE), "-c", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as tar:
        containers.import_image(api, image, tar.stdout)


if __name__ == "__main__":
    sys.exit(main())
