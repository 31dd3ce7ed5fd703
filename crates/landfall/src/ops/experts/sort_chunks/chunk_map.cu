// Where rows go when chunks change their order. Each block finds the first row of every chunk, before and after, and looks
// up those of its own rows' chunks by halving. (With `scan.cu`.)

KERNEL(chunk_map) {
    __shared__ i64 from[CHUNKS], to[CHUNKS], sums[THREADS / 32];
    bool first = blockIdx.x == 0, bad = false;
    for (u32 c = threadIdx.x; c < chunks; c += THREADS) to[c] = -1;
    i64 before = 0, after = 0;
    for (u32 base = 0; base < chunks; base += THREADS) {
        u32 c = base + threadIdx.x;
        bool inside = c < chunks;
        i64 size = inside ? i64(sizes[c * sizes.stride.v[0]]) : 0, chunk = inside ? i64(order[c * order.stride.v[0]]) : 0;
        bool known = chunk >= 0 && chunk < chunks;
        if (size < 0 || !known) {
            bad = true;
            if (first && !known) flag(faults, c, chunk, chunks);
            else if (first) flag(faults, c, size, rows + 1);
        }
        Scanned scan = scanned(max(size, 0ll), sums);
        if (inside) from[c] = before + scan.below;
        before += scan.all;
        i64 placed = inside && known ? max(i64(sizes[chunk * sizes.stride.v[0]]), 0ll) : 0;
        scan = scanned(placed, sums);
        if (inside && known) to[chunk] = after + scan.below;
        after += scan.all;
    }
    bad = __syncthreads_or(bad);
    if (!bad) {
        for (u32 c = threadIdx.x; c < chunks; c += THREADS) {
            if (to[c] >= 0) continue;
            bad = true;
            if (first) flag(faults, c, -1, chunks);
        }
        bad = __syncthreads_or(bad);
    }
    if (!bad && u64(before) > rows) {
        bad = true;
        if (first && threadIdx.x == 0) flag(faults, chunks, before, rows + 1);
    }
    for (u64 r = thread_index(); r < rows; r += u64(gridDim.x) * THREADS) {
        i64 place = i64(r);
        if (!bad && place < before) {
            // The last chunk that starts at or before the row.
            u32 low = 0, high = chunks;
            while (low + 1 < high) {
                u32 middle = (low + high) / 2;
                if (from[middle] <= place) low = middle;
                else high = middle;
            }
            place = to[low] + (place - from[low]);
        }
        d[r * d.stride.v[0]] = I(place);
    }
}
