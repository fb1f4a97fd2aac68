#!/bin/sh
# Build the additional kernel and images for tests: BBRv3, containers, video, QUIC and rsync. Safe to run
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

# Images need the network, kernels the processors.
echo "losslab: images engine, ffmpeg, quic and rsync; kernel 6.12-bbr3"
{
    .venv/bin/losslab image --variant engine $optional
    .venv/bin/losslab image --variant ffmpeg >/dev/null
    .venv/bin/losslab image --variant quic >/dev/null
    .venv/bin/losslab image --variant rsync >/dev/null
} &
images=$!
kernel=0
.venv/bin/losslab kernel --name 6.12-bbr3 $optional || kernel=$?
wait "$images"
exit "$kernel"
