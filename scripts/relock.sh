#!/bin/sh
# Pin the newest packages of Debian and PyPI for images and Python. This makes a new instrument: measure
# everything again, and record new golden digests. The kernel's source stays the same:
# containers/kernel/source.toml pins it.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/losslab image --relock
# Pin the trees of images with new packages; every image is built again.
for packages in containers/*/packages.txt; do
    variant="$(basename "$(dirname "$packages")")"
    .venv/bin/losslab image --variant "$variant" --pin-tree
done

# uv resolves for every Python from 3.11 on. It has its own environment.
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
lock() {
    "$folder/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --upgrade --custom-compile-command 'make relock' "$@"
}
# First the build tools of losslab and of packages that PyPI has as sources only, then all others.
echo setuptools | lock --output-file requirements-build.lock -
lock --extra campaign --extra dev --output-file requirements.lock pyproject.toml
# Optional groups, with the same versions of shared packages.
for group in docs artifact mcp slurm users; do
    lock --constraints requirements.lock --group "$group" --output-file "requirements/$group.lock"
done
