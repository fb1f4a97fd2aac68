#!/bin/sh
# Install missing Debian packages of scripts/packages.txt.
#
#   scripts/packages.sh PART ...
#   scripts/packages.sh --check PART ...    install nothing; fail if this user cannot install
set -eu
cd "$(dirname "$0")/.."

check=""
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi

listed() {
    for part in "$@"; do
        sed 's/#.*//' scripts/packages.txt | awk -v part="$part" '$1 == part { print $2, $3 }'
    done
}

missing=$(listed "$@" | while read -r package program; do
    [ -n "$program" ] && command -v "$program" >/dev/null && continue
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        printf ' %s' "$package"
done)
[ -n "$missing" ] || exit 0
if ! command -v dpkg-query >/dev/null; then
    echo "losslab: note: not a Debian system; install the equivalents of these packages:$missing" >&2
    exit 0
fi
install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "losslab: error: Debian packages are missing, and installing them needs root." >&2
    echo "  -> run as root:  apt-get update && $install" >&2
    exit 1
fi
[ -z "$check" ] || exit 0
echo "losslab: installing$missing"
$as_root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $as_root $install >/dev/null
