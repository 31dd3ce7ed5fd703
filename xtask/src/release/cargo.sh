#!/bin/sh
# What maturin takes for cargo: cargo-zigbuild, told the oldest glibc that the wheel runs on.
for word; do
    shift
    [ "$word" = "$LANDFALL_TRIPLE" ] && word=$word$LANDFALL_GLIBC
    set -- "$@" "$word"
done
# For macOS it has flags of the linker for all crates, which would then be built again; they go to the last one alone, behind its `--`.
if [ "$1" = rustc ] && [ -n "${CARGO_ENCODED_RUSTFLAGS:-}" ]; then
    # shellcheck disable=SC2046 # flags have no spaces
    set -- "$@" $(printf %s "$CARGO_ENCODED_RUSTFLAGS" | tr '\037' ' ')
    unset CARGO_ENCODED_RUSTFLAGS
fi
exec cargo-zigbuild "$@"
