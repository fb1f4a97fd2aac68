"""How this machine reaches Debian's archive and PyPI, for programs in a root folder.

All of it is read from the machine's own configuration when it is needed.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from losslab import processes

# Of apt's configuration what says how, not what: proxies, certificates.
APT = re.compile(r'^(Acquire::\S*(?:[Pp]roxy|CaInfo|CAInfo|Verify-\w+)\S* ".*";)$', re.MULTILINE)
# Variables that name proxies and indexes; and those that name a file of certificates.
PLAIN = re.compile(
    r"^(https?_proxy|no_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT))$",
    re.IGNORECASE,
)
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
BUNDLE = Path("/etc/ssl/losslab-bare.crt")
FILES = ("etc/resolv.conf", "etc/hosts")
PIP = Path("/etc/pip.conf")


def apt_options() -> list[str]:
    """List apt's options that say how archives are reached."""
    return APT.findall(processes.run(["apt-config", "dump"]))


def bundle() -> Path | None:
    """Name the file of certificates that this machine was told to use, if it was."""
    named = [os.environ[name] for name in CERTIFICATES if os.environ.get(name)]
    return next((Path(name) for name in named if Path(name).is_file()), None)


def variables() -> dict[str, str]:
    """Give programs in the folder what this machine's environment says of the network."""
    found = {name: value for name, value in os.environ.items() if PLAIN.match(name)}
    if bundle():
        found |= {name: str(BUNDLE) for name in CERTIFICATES}
    return found


def prepare(root: Path) -> None:
    """Write into a root folder what its programs read of the network."""
    for file in FILES:
        shutil.copyfile(Path("/") / file, root / file)
    if PIP.is_file():
        shutil.copyfile(PIP, root / PIP.relative_to("/"))
    certificates = bundle()
    if certificates:
        (root / BUNDLE.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(certificates, root / BUNDLE.relative_to("/"))
