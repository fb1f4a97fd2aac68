#!/bin/sh
# Build the kernels and images that some tests need beside those of `make setup`: containers, BBRv3,
# QUIC and rsync. Safe to run again.
#
#   scripts/instruments.sh              all of them
#   scripts/instruments.sh --optional   without those whose source cannot be had: their tests are skipped
#
# The network: Debian's archive, and github.com for Containernet and BBRv3, unless
# LOSSLAB_CONTAINERNET_SOURCE and LOSSLAB_BBR3_PATCH name copies of them.
set -eu
cd "$(dirname "$0")/.."
optional="${1:-}"
records="$(mktemp -d)"
trap 'rm -rf "$records"' EXIT

# Images mostly wait for the network, kernels for the processors: one of each at a time.
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
echo "losslab: kernel that runs containers"
.venv/bin/losslab kernel --variant containers $optional --only-with "$records/engine.json" \
    --record "$records/containers.json"
