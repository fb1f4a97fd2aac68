#!/bin/sh
# Prepare the containernet backend, after setup.sh: the engine image (Docker's engine and Containernet
# on Debian 13) and the kernel that runs containers in a guest. Safe to run again.
#
#   scripts/containernet.sh          to run containers in a guest; needs no root
#   scripts/containernet.sh host     and on this machine's own kernel: installs Docker; needs root
#
# The network: Debian's archive, and github.com for Containernet, which is in no package registry.
# LOSSLAB_CONTAINERNET_SOURCE names another copy of its repository: file:///home/me/containernet.
set -eu
cd "$(dirname "$0")/.."
where="${1:-guest}"

needed="git"
[ "$where" = host ] && needed="git docker.io"
missing=""
for package in $needed; do
    case "$package" in
    git) command -v git >/dev/null || missing="$missing git" ;;
    docker.io) command -v dockerd >/dev/null || missing="$missing docker.io" ;;
    esac
done
if [ -n "$missing" ]; then
    install="apt-get install -y --no-install-recommends$missing"
    if [ "$(id -u)" = 0 ]; then
        as_root=""
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root="sudo"
    else
        echo "losslab: error: Debian packages are missing and installing them needs root." >&2
        echo "  -> run as root:  apt-get update && $install" >&2
        exit 1
    fi
    echo "losslab: installing$missing"
    $as_root apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $as_root $install >/dev/null
fi

echo "losslab: engine image (a few minutes when it is new)"
.venv/bin/losslab image --variant engine
echo "losslab: kernel that runs containers (about ten minutes of CPU time when it is new)"
.venv/bin/losslab kernel --variant containers
.venv/bin/losslab doctor | sed -n "/^containernet backend/,\$p"
