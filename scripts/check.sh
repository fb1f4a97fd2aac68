#!/bin/sh
# Run linters, type checks, a dry run of the quick campaign, and the unit tests in parallel. Takes at
# most two minutes on two processors. Needs `make tools`, but neither kernel nor image. Arguments are
# passed to pytest.
set -u
cd "$(dirname "$0")/.."

PATH="$(pwd)/.venv/bin:$PATH"
status=0
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
snakemake --cores 1 --dry-run --quiet all --configfile config/campaigns/quick.yaml --directory "$folder" \
    >"$folder/output" 2>&1 &
dry_run=$!
# Snakemake's linter is slow, so only `make test` runs it.
pytest --numprocesses auto --maxprocesses 8 --dist loadgroup --quiet -m "not alone and not nightly" --durations=5 \
    --deselect "tests/test_linters.py::test_linter_finds_nothing[snakemake --lint]" \
    tests/unit tests/test_linters.py "$@" || status=1
wait "$dry_run" || { status=1 && cat "$folder/output"; }
exit "$status"
