#!/bin/sh
# Prepare this machine: Debian packages, .venv, pinned kernel and host image. Safe to run again.
#
#   scripts/setup.sh          all of it, and a first short cell
#   scripts/setup.sh tools    packages and .venv; the workflow builds the rest where it needs it
#
# Where LOSSLAB_INSTRUMENTS names a folder or an address with packed kernels and images, they are taken
# instead of built.
#
# What cannot be had as it is pinned is refused; with LOSSLAB_UNPINNED=1 what there is now takes its
# place, and every manifest says so.
set -eu
cd "$(dirname "$0")/.."

# A fetched instrument needs no compiler. Who cannot install is told of everything at once.
if [ -n "${LOSSLAB_INSTRUMENTS:-}" ]; then
    scripts/packages.sh --check python analysis tests
    scripts/packages.sh python
else
    scripts/packages.sh --check build python analysis tests
    scripts/packages.sh build python
fi
# R, which only the report and its tests need, comes while Python's packages do and a kernel is built.
scripts/packages.sh analysis tests &
later=$!
image=""
# The one would go on after an interrupt; the other is to leave no package half installed.
trap '[ -z "$image" ] || kill "$image" 2>/dev/null || true; wait "$later" || true' EXIT

# /usr/bin/python3 first: it is the one whose venv module the packages above brought.
python=""
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python="$candidate"
        break
    fi
done
if [ -z "$python" ]; then
    echo "losslab: error: Python 3.11 or newer with venv must be there, found none." >&2
    echo "  -> install it (Debian 12 and 13: apt-get install python3 python3-venv)" >&2
    exit 1
fi

stamp="$(cat pyproject.toml requirements*.lock scripts/setup.sh | sha256sum | cut -d' ' -f1) $(pwd)"
if [ "$(cat .venv/losslab-stamp 2>/dev/null || true)" != "$stamp" ]; then
    echo "losslab: making .venv"
    rm -rf .venv
    "$python" -m venv .venv
    install=".venv/bin/pip install --quiet --disable-pip-version-check"
    # Every package by its hash, and what builds those that PyPI has as sources only.
    if $install --require-hashes -r requirements-build.lock &&
        $install --require-hashes --no-build-isolation --use-pep517 -r requirements.lock; then
        $install --no-build-isolation --no-deps -e .
    elif [ "${LOSSLAB_UNPINNED:-0}" != 0 ]; then
        $install -e '.[dev]'
    else
        echo "losslab: error: Python's packages must be had as requirements*.lock pin them." >&2
        echo "  -> check the network, or take what there is now: LOSSLAB_UNPINNED=1 make setup" >&2
        exit 1
    fi
    echo "$stamp" >.venv/losslab-stamp
fi
# A campaign starts Python for every cell. Where this cannot be written, each start compiles; what is
# installed, pip has compiled.
.venv/bin/python -m compileall -qq src >/dev/null 2>&1 || true

if [ -n "${LOSSLAB_INSTRUMENTS:-}" ]; then
    echo "losslab: fetching kernel and image, where the cache does not have them"
    .venv/bin/losslab instrument fetch || {
        wait "$later" || exit 1
        scripts/packages.sh build
    }
fi
if [ "${1:-}" = tools ]; then
    wait "$later" || exit 1
    exit 0
fi
echo "losslab: host image and kernel (ten minutes of CPU time when they are new)"
.venv/bin/losslab image &
image=$!
kernel=built
.venv/bin/losslab kernel || kernel=failed
wait "$image" || exit 1
[ "$kernel" = built ] || exit 1
wait "$later" || exit 1
.venv/bin/losslab doctor --self-test
