#!/bin/sh
# Build senders and receivers of QUIC stacks into programs/quic/bin. Needs cargo and a C compiler (quinn, s2n-quic), also
# cmake and a C++ compiler (quiche), go (quic-go), and the network for the first build: Cargo.lock and go.sum pin what is
# fetched by its digest.
#
#   programs/quic/build.sh               all of them
#   programs/quic/build.sh quic-go       one of quiche, quinn, s2n-quic and quic-go
#
# JOBS is the number of parallel jobs. Programs are kept in the user's cache by the content of their recipe and the
# compiler's version.
set -eu
cd "$(dirname "$0")"
cache="${LOSSLAB_CACHE:-$HOME/.cache/losslab}/stacks"
jobs="${JOBS:-$(nproc)}"
target=x86_64-unknown-linux-gnu
mkdir -p "$cache" bin

# AWS-LC (s2n-quic) would seed its random numbers with the CPU's jitter, and runs would not repeat.
export AWS_LC_SYS_NO_JITTER_ENTROPY=1

for stack in ${*:-quiche quinn s2n-quic quic-go}; do
    if [ "$stack" = quic-go ]; then tool=go; else tool=cargo; fi
    command -v $tool >/dev/null || {
        echo "build.sh: error: $stack needs $tool, found none" >&2
        exit 1
    }
    if [ "$stack" = quic-go ]; then
        key="$( (go version && cat quic-go/*) | sha256sum | cut -c1-16)"
    else
        key="$( (cargo --version && cat Cargo.* ./*.pem build.sh src/lib.rs "src/bin/$stack.rs") | sha256sum | cut -c1-16)"
    fi
    kept="$cache/$stack@$key"
    if [ ! -e "$kept" ]; then
        echo "losslab: building $stack" >&2
        if [ "$stack" = quic-go ]; then
            (cd quic-go && CGO_ENABLED=0 go build -p "$jobs" -trimpath -buildvcs=false -ldflags=-s -o "$kept.new" .)
        else
            # Without shared libraries, a program runs in the guest's Debian whatever this machine has.
            RUSTFLAGS="-C target-feature=+crt-static" CARGO_TARGET_DIR="$cache/target" cargo build --quiet \
                --release --locked --jobs "$jobs" --target $target --features "$stack" --bin "$stack"
            cp "$cache/target/$target/release/$stack" "$kept.new"
        fi
        mv "$kept.new" "$kept"
    fi
    cp "$kept" "bin/$stack"
done
