#!/bin/sh
# Prepare this machine: Debian packages, .venv, pinned kernel and host image. Safe to run again.
#
#   scripts/setup.sh          everything, and a short test cell
#   scripts/setup.sh tools    only packages and .venv; the workflow builds the rest when needed
#
#   scripts/setup.sh measure  without R, Quarto and the other images: enough to measure and check
#   BUILD=1 scripts/setup.sh  build kernel and images from source
#
# losslab fetches kernel and images if a release has them (containers/release.toml), an unpacked artifact, or the folder
# or address in LOSSLAB_INSTRUMENTS, and builds the others.
#
# Setup fails if a pinned version is not available. With LOSSLAB_UNPINNED=1 it uses the current version
# instead, and every manifest says so.
set -eu
cd "$(dirname "$0")/.."

# Only a .venv that losslab made is removed.
if [ -e .venv ] && [ ! -e .venv/losslab-stamp ] && [ ! -e .venv/.losslab-made ]; then
    echo "losslab: error: .venv must be losslab's own or not exist, found another: $(pwd)/.venv" >&2
    echo "  -> move it away and start again" >&2
    exit 2
fi

# An artifact's archive has its kernel and image.
[ ! -f SHA256SUMS ] || [ ! -d instruments ] || export LOSSLAB_INSTRUMENTS="${LOSSLAB_INSTRUMENTS:-instruments}"
place="${LOSSLAB_INSTRUMENTS:-$(sed -n 's/^address = "\(.*\)"$/\1/p' containers/release.toml)}"
if [ -n "${BUILD:-}" ] || [ "$place" = build ]; then
    export LOSSLAB_INSTRUMENTS=build
    place=""
fi

# A fetched instrument needs no compiler, but a changed kernel does. Check all parts first, so that one
# error names all packages.
mode="${1:-}"
if [ "$mode" = measure ]; then
    scripts/packages.sh build python
elif [ -n "$place" ]; then
    scripts/packages.sh --check python analysis tests
    scripts/packages.sh python
else
    scripts/packages.sh --check build python analysis tests
    scripts/packages.sh build python
fi
# Only the report and its tests need R, so it is installed in the background.
if [ "$mode" = measure ]; then
    true &
else
    scripts/packages.sh analysis tests &
fi
later=$!
others=""
# After an interrupt or error, stop the other jobs, and wait for apt: it must not leave packages half installed.
trap '[ -z "$others" ] || kill $others 2>/dev/null || true; wait "$later" || true' EXIT
trap 'exit 130' INT TERM

# /usr/bin/python3 first: the packages above installed its venv module.
python=""
for candidate in /usr/bin/python3 python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python="$candidate"
        break
    fi
done
if [ -z "$python" ]; then
    echo "losslab: error: found no Python 3.11 or newer with venv." >&2
    echo "  -> install it (Debian 12 and 13: apt-get install python3 python3-venv)" >&2
    exit 1
fi

# Build images and kernel in the background, from sources: pip need not have installed losslab.
image="" more="" kernel="" quarto=""
build() {
    # The report has another renderer where the pinned Quarto cannot be fetched.
    if [ "$mode" != measure ]; then
        PYTHONPATH=src timeout 900 .venv/bin/python -m losslab.analysis &
        quarto=$!
    fi
    echo "losslab: images and kernel (take ten minutes of CPU time if they are not in the cache)"
    PYTHONPATH=src .venv/bin/python -m losslab.cli kernel &
    kernel=$!
    PYTHONPATH=src .venv/bin/python -m losslab.cli image &
    image=$!
    if [ -z "$place" ] && [ "$mode" != measure ]; then
        # The main study runs in containers if Containernet's source can be fetched, or else in plain hosts.
        PYTHONPATH=src .venv/bin/python -m losslab.cli image --variant engine --optional &
        more=$!
        PYTHONPATH=src .venv/bin/python -m losslab.cli image --variant ffmpeg &
        more="$more $!"
    fi
    others="$quarto $kernel $image $more"
}

stamp="$(cat pyproject.toml requirements*.lock scripts/setup.sh | sha256sum | cut -d' ' -f1) $(pwd)"
if [ "$(cat .venv/losslab-stamp 2>/dev/null || true)" != "$stamp" ]; then
    echo "losslab: making .venv"
    rm -rf .venv
    mkdir .venv
    echo "made by scripts/setup.sh, which replaces this folder" >.venv/.losslab-made
    "$python" -m venv .venv
    install=".venv/bin/pip install --quiet --disable-pip-version-check"
    # Install every package by its hash: first those that build packages from sources, images and kernel.
    if awk '/^[a-z]/ { on = FILENAME ~ /build/ || /^(pyyaml|urllib3|zstandard)==/ } on' \
        requirements-build.lock requirements.lock | $install --require-hashes -r /dev/stdin; then
        [ "$mode" = tools ] || [ -n "$place" ] || build
    fi
    if $install --require-hashes --no-build-isolation --use-pep517 -r requirements.lock; then
        $install --no-build-isolation --no-deps -e .
    elif [ "${LOSSLAB_UNPINNED:-0}" != 0 ]; then
        $install -e '.[campaign,dev]'
    else
        echo "losslab: error: pip could not install the Python packages pinned in requirements*.lock." >&2
        echo "  -> check the network, or use current versions: LOSSLAB_UNPINNED=1 make setup" >&2
        exit 1
    fi
    echo "$stamp" >.venv/losslab-stamp
fi
# Compile losslab once, because a campaign starts Python for every cell. Users without write access here
# could not. pip has compiled the installed packages.
.venv/bin/python -m compileall -qq src >/dev/null 2>&1 || true

if [ -n "$place" ]; then
    echo "losslab: fetching kernel and image if they are not in the cache"
    .venv/bin/losslab instrument fetch || {
        wait "$later" || exit 1
        scripts/packages.sh build
    }
fi
if [ "$mode" = tools ]; then
    wait "$later" || exit 1
    exit 0
fi
if [ -n "$place" ]; then
    # The image of video cells (139 MB packed) is fetched when a cell needs it.
    [ "$mode" = measure ] || .venv/bin/losslab instrument fetch image-engine || true
    # Adding an algorithm to a fetched kernel needs its object files, of use only with their compiler.
    ! command -v gcc >/dev/null || .venv/bin/losslab instrument fetch objects-6.12 || true
fi
[ -n "$kernel" ] || build
for part in "$image" "$kernel" $more; do
    wait "$part" || exit 1
done
[ -z "$quarto" ] || wait "$quarto" || echo "losslab: note: Quarto was not installed; run make setup again to retry" >&2
wait "$later" || exit 1
.venv/bin/losslab doctor --self-test
