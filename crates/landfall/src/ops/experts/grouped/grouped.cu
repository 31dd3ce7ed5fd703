// Products of the rows of each expert with its own matrix. One block lists the tiles of rows first, and as many blocks as there
// may be tiles look theirs up. Rows behind the last expert's are tiles of one expert more, without a pair. (With `segments.cu`,
// and `simt.cu`, `mma.cu` or `wgmma.cu` for `Tile`.)

// Writes, per expert, the first row and the end of those that hold pairs; per tile, its expert, its first row, and the end
// of its expert's rows.
KERNEL(segments) {
    __shared__ i64 sums[THREADS / 32];
    Segments all = {counts, offsets, rows, experts, false};
    all.check(faults);
    i64 before = 0;
    for (u32 base = 0; base <= experts; base += THREADS) {
        u32 e = base + threadIdx.x;
        Segment segment = all.of(e);
        if (e < experts) {
            bounds[2 * e] = segment.start;
            bounds[2 * e + 1] = segment.last;
        }
        i64 count = (segment.end - segment.start + tile_rows - 1) / tile_rows;
        Scanned scan = scanned(count, sums);
        i64* entry = tiles + 3 * (before + scan.below);
        for (i64 i = 0; i < count; i++, entry += 3) {
            entry[0] = e;
            entry[1] = segment.start + i * tile_rows;
            entry[2] = segment.end;
        }
        before += scan.all;
    }
    for (u64 i = before + threadIdx.x; i < most_tiles; i += THREADS) tiles[3 * i] = -1;
}

// Writes a pair of neighbouring columns, of which the first is inside.
DEVICE void put(T* at, u64 step, bool both, A first, A second) {
    if (PAIRED) {
        Vector<T, 2> pair;
        pair.v[0] = narrow<T>(first);
        pair.v[1] = narrow<T>(second);
        pair.store(at);
    } else {
        at[0] = narrow<T>(first);
        if (both) at[step] = narrow<T>(second);
    }
}
