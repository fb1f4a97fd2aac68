#!/bin/sh
# Build the additional kernel and images for tests: BBRv3, containers, video, QUIC and rsync. Safe to run
# again.
#
#   scripts/instruments.sh              all of them
#   scripts/instruments.sh --optional   skip those whose source is not available, and their tests
#   scripts/instruments.sh quic bbr3    only these, of engine, ffmpeg, quic, rsync and bbr3
#
# Needs the network: Debian's archive, and github.com for Containernet and BBRv3, unless
# LOSSLAB_CONTAINERNET_SOURCE and LOSSLAB_BBR3_PATCH name copies.
set -eu
cd "$(dirname "$0")/.."
optional=""
if [ "${1:-}" = --optional ]; then
    optional="$1"
    shift
fi
[ "$#" -gt 0 ] || set -- engine ffmpeg quic rsync bbr3

# Images need the network, kernels the processors.
echo "losslab: $*"
for part in "$@"; do
    [ "$part" = bbr3 ] || .venv/bin/losslab image --variant "$part" $optional >/dev/null || exit 1
done &
images=$!
kernel=0
for part in "$@"; do
    [ "$part" != bbr3 ] || .venv/bin/losslab kernel --name 6.12-bbr3 $optional || kernel=$?
done
wait "$images"
exit "$kernel"
