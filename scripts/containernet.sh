#!/bin/sh
# Prepare the containernet backend, after setup.sh: build the engine image (Docker's engine and
# Containernet on Debian 13). Safe to run again.
#
#   scripts/containernet.sh          for containers in a guest; needs no root
#   scripts/containernet.sh host     also for this machine's own kernel: installs Docker; needs root
#
# Needs the network: Debian's archive, and github.com for Containernet, which is in no package registry.
# LOSSLAB_CONTAINERNET_SOURCE can name another copy of its repository: file:///home/me/containernet.
set -eu
cd "$(dirname "$0")/.."
where="${1:-guest}"

[ "$where" != host ] || scripts/packages.sh engine

echo "losslab: engine image (takes a few minutes if it is not in the cache)"
.venv/bin/losslab image --variant engine
.venv/bin/losslab doctor --backend containernet --where "$where" | sed "/^\$/,\$d"
