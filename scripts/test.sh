#!/bin/sh
# Run every test, after setup.sh. Most tests run in parallel. Tests that use the clock or the whole
# machine (marked `alone`) run one by one afterwards. Arguments are passed to both runs of pytest.
set -u
cd "$(dirname "$0")/.."

scripts/packages.sh browser && scripts/group.sh docs && scripts/group.sh artifact &&
    scripts/group.sh slurm && scripts/group.sh users || exit 1
# Each cell takes a processor and about 100 MB of memory. Some tests wait, so there is one more worker
# than processors.
workers=$(($(nproc) + 1))
[ "$workers" -le 8 ] || workers=8
status=0
.venv/bin/pytest -m "not alone" --numprocesses "$workers" --dist loadgroup "$@" ||
    status=$?
.venv/bin/pytest -m alone "$@" || status=$?
exit "$status"
