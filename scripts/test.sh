#!/bin/sh
# Run every test, after setup.sh: first side by side what does not mind, then one by one what looks at
# the clock or at the whole machine. Words are passed on to both runs of pytest.
set -u
cd "$(dirname "$0")/.."

scripts/packages.sh browser && scripts/group.sh docs && scripts/group.sh artifact &&
    scripts/group.sh slurm || exit 1
# Cells take a processor each, and some 100 MB of memory.
most=8
status=0
.venv/bin/pytest -m "not alone" --numprocesses auto --maxprocesses "$most" --dist loadgroup "$@" ||
    status=$?
.venv/bin/pytest -m alone "$@" || status=$?
exit "$status"
