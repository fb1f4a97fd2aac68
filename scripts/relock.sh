#!/bin/sh
# Pin anew what the packages of images and of Python are: the newest that Debian and PyPI have. It
# changes what is measured, and with what: measure again, and record the golden digests again.
# The kernel's source stays as it is; `.venv/bin/losslab kernel --relock` takes its newest release.
set -eu
cd "$(dirname "$0")/.."

.venv/bin/losslab image --relock
# The files of images with other packages than before; every image is built again.
for packages in containers/*/packages.txt; do
    variant="$(basename "$(dirname "$packages")")"
    .venv/bin/losslab image --variant "$variant" --pin-tree
done

# uv resolves for every Python from 3.11 on; it has an environment of its own.
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9
lock() {
    "$folder/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-annotate --upgrade --custom-compile-command 'make relock' "$@"
}
# What builds the packages that PyPI has as sources only, and losslab; and everything else.
echo setuptools | lock --output-file requirements-build.lock -
lock --extra dev --output-file requirements.lock pyproject.toml
# What only some need, with the versions of the above where they share a package.
for group in docs artifact slurm; do
    lock --constraints requirements.lock --group "$group" --output-file "requirements/$group.lock"
done
