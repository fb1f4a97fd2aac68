#!/bin/sh
# Run every test, after setup.sh. Most tests run in parallel. Tests that use the clock or the whole
# machine (marked `alone`) run one by one afterwards. Arguments are passed to both runs of pytest.
set -u
cd "$(dirname "$0")/.."

scripts/packages.sh browser && scripts/group.sh docs && scripts/group.sh artifact &&
    scripts/group.sh croissant && scripts/group.sh slurm && scripts/group.sh users || exit 1
# Each cell takes a processor and about 100 MB of memory.
most=8
status=0
.venv/bin/pytest -m "not alone" --numprocesses auto --maxprocesses "$most" --dist loadgroup "$@" ||
    status=$?
.venv/bin/pytest -m alone "$@" || status=$?
exit "$status"
