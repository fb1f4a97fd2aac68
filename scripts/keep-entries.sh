#!/bin/bash
# Keep what entries.sh measured for a merge: keep-entries.sh FOLDER. Copies the new records to recorded/algorithms, and
# removes those of algorithms that the merge removed. An algorithm without a new row keeps its old one.
set -eu
for result in "$1"/*/; do
    name=$(basename "$result")
    record=$name.json
    if [ ! -d "algorithms/$name" ]; then
        rm -f "recorded/algorithms/$record"
    elif [ -e "$result$record" ]; then
        cp "$result$record" recorded/algorithms/
    fi
done
