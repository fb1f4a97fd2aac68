#!/bin/sh
# The fast lane: linters, types, a dry run of the quick campaign, and the unit tests in parallel. Takes
# at most two minutes on two processors; needs `make tools`, but neither kernel nor image. Words are
# passed on to pytest.
set -u
cd "$(dirname "$0")/.."

PATH="$(pwd)/.venv/bin:$PATH"
status=0
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
snakemake --cores 1 --dry-run --quiet all --configfile config/quick.yaml --directory "$folder" \
    >"$folder/said" 2>&1 || { status=1 && cat "$folder/said"; }
# R's linter and Snakemake's take longer than all others; `make test` has them.
pytest --numprocesses auto --maxprocesses 8 --dist loadgroup --quiet -m "not alone" \
    --deselect "tests/test_linters.py::test_clean[lintr]" \
    --deselect "tests/test_linters.py::test_clean[snakemake --lint]" \
    tests/unit tests/test_linters.py "$@" || status=1
exit "$status"
