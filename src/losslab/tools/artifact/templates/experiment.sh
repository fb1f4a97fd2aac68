#!/bin/sh
# @{label}: @{facts}. It measures again, compares with the archive's results, and prints the claims.
# Safe to run twice: runs that are there are kept.
set -eu
cd "$(dirname "$0")/.."
again="../again-@{label}"
# Snakemake asks for the user's name, which a user of `docker run --user` has not.
export LOGNAME="${LOGNAME:-$(id -u)}"
.venv/bin/snakemake --quiet host progress reason rules --cores all --configfile "$PWD/@{config}" --directory "$again" results/claims.csv
status=0
.venv/bin/losslab diff results "$again/results" --common >"$again/diff.txt" || status=$?
sed '/^only in A: /d' "$again/diff.txt"
.venv/bin/losslab claims @{claims} --claims "$again/results/claims.csv"
exit "$status"
