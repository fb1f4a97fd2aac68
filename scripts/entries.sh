#!/bin/bash
# Measure the algorithms that a commit changes compared with its first parent, as a job of a pull request does:
# entries.sh FOLDER. The seeds are drawn from the commit. FOLDER/NAME has the record and the comment of each.
# A removed one has a comment only. Ends with 1 if one of them has no row.
set -u
out=$1 status=0
commit=$(git rev-parse HEAD)
names=$(git diff --name-only --no-renames HEAD^1 HEAD -- algorithms |
    sed -n 's|^"\{0,1\}algorithms/\([^/]*\)/.*|\1|p' | sort -u)
mkdir -p "$out"
set -f # a name is no pattern
for name in $names; do
    case $name in
    *[!A-Za-z0-9_-]* | -* | _*)
        mkdir -p "$out/_refused" # no algorithm's name
        echo "An algorithm's name has only letters, digits, - and _, found another one." |
            tee "$out/_refused/comment.md" >&2
        status=1
        continue
        ;;
    esac
    [ "$name" = template ] && continue # the skeleton that `losslab new algorithm` copies
    if [ ! -d "algorithms/$name" ]; then
        mkdir -p "$out/$name"
        echo "\`$name\` is removed. Its row leaves the table with the merge." >"$out/$name/comment.md"
        continue
    fi
    echo "losslab: $name, with seeds of $commit" >&2
    .venv/bin/losslab entry "$name" --commit "$commit" --out "$out/$name" || status=1
done
exit "$status"
