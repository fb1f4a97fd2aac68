#!/bin/sh
# Download uPlot's files from npm again, as pinned in the explorer's uplot/source.toml. For another
# version, change version and integrity there (`npm view uplot@VERSION dist.integrity`), run this script,
# and write the printed hashes there.
set -eu
cd "$(dirname "$0")/../src/losslab/tools/explorer/page/uplot"

value() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" source.toml; }

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
file="$(npm pack --silent --pack-destination "$folder" "uplot@$(value version)")"
found="sha512-$(openssl dgst -sha512 -binary "$folder/$file" | base64 -w0)"
if [ "$found" != "$(value integrity)" ]; then
    echo "losslab: error: uPlot must have the integrity $(value integrity) of source.toml, found $found" >&2
    exit 1
fi
tar -xzf "$folder/$file" -C "$folder"
cp "$folder/package/dist/uPlot.iife.min.js" "$folder/package/dist/uPlot.min.css" \
    "$folder/package/LICENSE" .
sha256sum uPlot.iife.min.js uPlot.min.css LICENSE
