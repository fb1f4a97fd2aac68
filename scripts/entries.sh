#!/bin/bash
# Measure the algorithms that a commit changes compared with its first parent, as a job of a pull request does:
# entries.sh FOLDER. The seeds are drawn from the commit. FOLDER/NAME has the record and the comment of each.
# Ends with 1 if one of them has no row.
set -u
out=$1 status=0
commit=$(git rev-parse HEAD)
mapfile -t names < <(git diff --name-only -z --no-renames HEAD^1 HEAD -- algorithms |
    xargs -0 -r -n 1 printf '%s\n' | sed -n 's|^algorithms/\([^/]*\)/.*|\1|p' | sort -u)
mkdir -p "$out"
for name in "${names[@]}"; do
    [ -d "algorithms/$name" ] || continue # removed
    if [[ ! $name =~ ^[A-Za-z0-9][A-Za-z0-9_-]{0,14}$ ]]; then
        echo "losslab: an algorithm's name has at most 15 letters, digits, - and _, found another one" >&2
        status=1
        continue
    fi
    echo "losslab: $name, with seeds of $commit" >&2
    .venv/bin/losslab entry "$name" --commit "$commit" --out "$out/$name" || status=1
done
exit "$status"
