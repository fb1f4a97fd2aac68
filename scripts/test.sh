#!/bin/sh
# Run every test but the nightly ones, after setup.sh; `scripts/test.sh nightly` runs those. Most tests
# run in parallel. Tests that use the clock or the whole machine (marked `alone`) run one by one
# afterwards. Other arguments are passed to both runs of pytest. It prints the CPU time of all
# processes and the slowest tests, and fails above the budget, unless caches were cold: a kernel, an
# image or mypy's cache was made in the meantime.
set -u
cd "$(dirname "$0")/.."
budget_min=25
lane="not nightly"
if [ "${1:-}" = nightly ]; then
    lane=nightly
    shift
fi

scripts/packages.sh browser latex && scripts/group.sh docs && scripts/group.sh artifact &&
    scripts/group.sh mcp && scripts/group.sh slurm && scripts/group.sh users || exit 1

# List what later runs find: kernels, images and mypy's cache.
kept() {
    cache="${LOSSLAB_CACHE:-$HOME/.cache/losslab}"
    ls -d .mypy_cache "$cache"/kernel/* "$cache"/image/* 2>/dev/null
}
# Each cell takes a processor and about 100 MB of memory. Some tests wait, so there is one more worker
# than processors. They take the groups of tests in the order of tests/conftest.py.
workers=$(($(nproc) + 1))
[ "$workers" -le 8 ] || workers=8
# Both runs print it, and a second run can be given it.
export LOSSLAB_RANDOM_SEED="${LOSSLAB_RANDOM_SEED:-$(date +%s)}"
status=0
before="$(kept)"
.venv/bin/pytest -m "$lane and not alone" --numprocesses "$workers" \
    --dist loadgroup --no-loadscope-reorder --durations=15 "$@" || status=$?
.venv/bin/pytest -m "$lane and alone" --durations=15 "$@"
alone=$?
# Exit status 5: no test is selected.
[ "$alone" -eq 0 ] || [ "$alone" -eq 5 ] || status=$alone

# The second line of `times` is that of all children, as 12m3.4s 1m2.3s. A pipe would be one itself.
spent="$(mktemp)"
times >"$spent"
used="$(awk 'NR == 2 { gsub(/[ms]/, " "); print int($1 + $3 + ($2 + $4) / 60 + 0.5) }' "$spent")"
rm "$spent"
caches=cold
[ "$before" != "$(kept)" ] || caches=warm
echo "test.sh: $used CPU-minutes with $caches caches, of $budget_min" >&2
if [ "$lane" != nightly ] && [ "$caches" = warm ] && [ "$used" -gt "$budget_min" ]; then
    echo "test.sh: error: make tests cheaper, or mark one nightly" >&2
    [ "$status" -ne 0 ] || status=1
fi
exit "$status"
