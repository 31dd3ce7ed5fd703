// Products of the rows of each expert with its own matrix. Where experts' rows start is known on the device alone: one
// block lists the tiles of rows first, and as many blocks as there may be tiles look theirs up. Rows behind the last
// expert's are tiles of one expert more, without a pair. (With `scan.cu`, and `simt.cu` or `mma.cu` for `Tile`.)

// Writes, per expert, the first row and the end of those that hold pairs; per tile, its expert, its first row, and the end
// of its expert's rows. Where offsets are no growing sequence from 0 to at most `rows`, or counts do not fit them, no expert
// has rows.
KERNEL(segments) {
    __shared__ i64 sums[THREADS / 32];
    bool bad = false;
    for (u32 e = threadIdx.x; e < experts; e += THREADS) {
        i64 start = offsets[e * stride_offsets], end = offsets[(e + 1) * stride_offsets], count = counts[e * stride_counts];
        bool from = e > 0 || start == 0, to = end >= start && u64(end) <= rows, fits = count >= 0 && count <= end - start;
        if (from && to && fits) continue;
        bad = true;
        if (!from) flag(faults, experts, start, 1);
        else if (!to) flag(faults, experts + e + 1, end, rows + 1);
        else flag(faults, e, count, u64(end - start) + 1);
    }
    bad = __syncthreads_or(bad);
    for (u32 e = threadIdx.x; e < experts; e += THREADS) {
        i64 start = bad ? 0 : i64(offsets[e * stride_offsets]);
        bounds[2 * e] = start;
        bounds[2 * e + 1] = bad ? 0 : start + i64(counts[e * stride_counts]);
    }
    i64 before = 0;
    for (u32 base = 0; base <= experts; base += THREADS) {
        u32 e = base + threadIdx.x;
        i64 start = 0, end = 0;
        if (e < experts && !bad) {
            start = offsets[e * stride_offsets];
            end = offsets[(e + 1) * stride_offsets];
        } else if (e == experts) {
            start = bad ? 0 : i64(offsets[experts * stride_offsets]);
            end = i64(rows);
        }
        i64 count = (end - start + tile_rows - 1) / tile_rows;
        Scanned scan = scanned(count, sums);
        i64* entry = tiles + 3 * (before + scan.below);
        for (i64 i = 0; i < count; i++, entry += 3) {
            entry[0] = e;
            entry[1] = start + i * tile_rows;
            entry[2] = end;
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

// y[r, :] = x[r, :] · w[e(r)]: a block a tile of rows and one of columns, columns first.
KERNEL(product) {
    u64 across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const i64* entry = tiles + 3 * (blockIdx.x / across);
    if (entry[0] < 0) return;
    u64 e = entry[0], row = entry[1], end = entry[2], column = blockIdx.x % across * TILE_COLUMNS;
    u64 last = e < experts ? u64(bounds[2 * e + 1]) : row, inside = last > row ? last - row : 0;
    Factor a = {x + row * stride_x.v[0], stride_x.v[0], stride_x.v[1], inside};
    Factor b = {w + (inside > 0 ? e : 0) * stride_w.v[0] + column * stride_w.v[2], stride_w.v[2], stride_w.v[1], n - column};
    Tile tile;
    tile.multiply(a, b, 0, inside > 0 ? k : 0);
    tile.each([&](u32 i, u32 j, A first, A second) {
        u64 c = column + j;
        if (row + i >= end || c >= n) return;
        bool pad = i >= inside;
        T* at = y + (row + i) * stride_y.v[0] + c * stride_y.v[1];
        put(at, stride_y.v[1], c + 1 < n, pad ? A(0) : first, pad ? A(0) : second);
    });
}

// out[e] = Σ_r x[r, :]ᵀ · gy[r, :] over the rows of e: a block a tile of an expert's matrix.
KERNEL(weights) {
    u64 down = (k + TILE_ROWS - 1) / TILE_ROWS, across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    u64 column = blockIdx.x % across * TILE_COLUMNS, row = blockIdx.x / across % down * TILE_ROWS, e = blockIdx.x / across / down;
    u64 begin = bounds[2 * e], end = bounds[2 * e + 1];
    Factor a = {x + row * stride_x.v[1], stride_x.v[1], stride_x.v[0], k - row};
    Factor b = {gy + column * stride_gy.v[1], stride_gy.v[1], stride_gy.v[0], n - column};
    Tile tile;
    tile.multiply(a, b, begin, end);
    T* to = out + e * stride_out.v[0];
    tile.each([&](u32 i, u32 j, A first, A second) {
        u64 r = row + i, c = column + j;
        if (r >= k || c >= n) return;
        put(to + r * stride_out.v[1] + c * stride_out.v[2], stride_out.v[2], c + 1 < n, first, second);
    });
}
