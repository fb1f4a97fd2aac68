#!/bin/sh
# Install a group of Python packages of pyproject.toml into .venv, by hash: scripts/group.sh NAME
set -eu
cd "$(dirname "$0")/.."

lock="requirements/$1.lock"
stamp=".venv/losslab-group-$1"
if [ ! -f "$lock" ]; then
    echo "losslab: error: found no $lock; a group must have a lock in requirements/." >&2
    exit 2
fi
sum="$(sha256sum "$lock" | cut -d' ' -f1)"
[ "$(cat "$stamp" 2>/dev/null || true)" = "$sum" ] && exit 0
echo "losslab: installing Python packages of $lock"
if ! .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"; then
    echo "losslab: error: pip could not install the packages pinned in $lock." >&2
    echo "  -> check the network and the index in pip's configuration" >&2
    exit 1
fi
echo "$sum" >"$stamp"
