#!/bin/sh
# What maturin takes for cargo: cargo-zigbuild, told the oldest glibc that the wheel runs on.
for word; do
    shift
    [ "$word" = "$LANDFALL_TRIPLE" ] && word=$word$LANDFALL_GLIBC
    set -- "$@" "$word"
done
exec cargo-zigbuild "$@"
