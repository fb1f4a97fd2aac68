#!/bin/sh
# Build the additional kernels and images for tests: containers, BBRv3, QUIC and rsync. Safe to run
# again.
#
#   scripts/instruments.sh              all of them
#   scripts/instruments.sh --optional   skip those whose source is not available, and their tests
#
# Needs the network: Debian's archive, and github.com for Containernet and BBRv3, unless
# LOSSLAB_CONTAINERNET_SOURCE and LOSSLAB_BBR3_PATCH name copies.
set -eu
cd "$(dirname "$0")/.."
optional="${1:-}"
records="$(mktemp -d)"
trap 'rm -rf "$records"' EXIT

# Build one image and one kernel at a time: images need the network, kernels the processors.
echo "losslab: images engine, quic and rsync; kernel 6.12-bbr3"
{
    .venv/bin/losslab image --variant engine $optional --record "$records/engine.json"
    .venv/bin/losslab image --variant quic >/dev/null
    .venv/bin/losslab image --variant rsync >/dev/null
} &
images=$!
kernel=0
.venv/bin/losslab kernel --name 6.12-bbr3 $optional --record "$records/bbr3.json" || kernel=$?
wait "$images"
[ "$kernel" = 0 ] || exit "$kernel"
echo "losslab: kernel for containers"
.venv/bin/losslab kernel --variant containers $optional --only-with "$records/engine.json" \
    --record "$records/containers.json"
