"""Access to Debian's archive and PyPI for programs in a root folder.

All settings are read from this machine's configuration when needed.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from losslab import processes

# Settings of apt about access to archives, not about their content: proxies, certificates.
APT = re.compile(r'^(Acquire::\S*(?:[Pp]roxy|CaInfo|CAInfo|Verify-\w+)\S* ".*";)$', re.MULTILINE)
# Variables of proxies and indexes, and of certificate files.
PLAIN = re.compile(
    r"^(https?_proxy|no_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|DEFAULT_TIMEOUT))$",
    re.IGNORECASE,
)
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
BUNDLE = Path("/etc/ssl/losslab-bare.crt")
FILES = ("etc/resolv.conf", "etc/hosts")
PIP = Path("/etc/pip.conf")


def apt_options() -> list[str]:
    """Return apt's options for access to archives."""
    return APT.findall(processes.run(["apt-config", "dump"]))


def bundle() -> Path | None:
    """Return this machine's file of certificates, if it has one."""
    named = [os.environ[name] for name in CERTIFICATES if os.environ.get(name)]
    return next((Path(name) for name in named if Path(name).is_file()), None)


def variables() -> dict[str, str]:
    """Return network variables of this environment for programs in the root folder."""
    found = {name: value for name, value in os.environ.items() if PLAIN.match(name)}
    if bundle():
        found |= {name: str(BUNDLE) for name in CERTIFICATES}
    return found


def prepare(root: Path) -> None:
    """Write network configuration into a root folder."""
    for file in FILES:
        shutil.copyfile(Path("/") / file, root / file)
    if PIP.is_file():
        shutil.copyfile(PIP, root / PIP.relative_to("/"))
    certificates = bundle()
    if certificates:
        (root / BUNDLE.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(certificates, root / BUNDLE.relative_to("/"))
