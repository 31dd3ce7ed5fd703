// Updates of a few numbers: one thread each.

constexpr i64 LARGEST = 0x7FFFFFFFFFFFFFFFll;
DEVICE i64 next(i64 x) { return x < LARGEST ? x + 1 : x; }

KERNEL(advance) {
    if (thread_index() > 0 || *ok == 0) return;
    i64* step = cursor;
    i64* epoch = cursor + cursor.stride.v[0];
    i64* batch = cursor + 2 * cursor.stride.v[0];
    *step = next(*step);
    i64 following = next(*batch);
    bool last = following >= 0 && u64(following) >= batches;
    *batch = last ? 0 : following;
    if (last) *epoch = next(*epoch);
}

KERNEL(advance_micro) {
    if (thread_index() > 0) return;
    i64* micro = cursor + 6 * cursor.stride.v[0];
    i64 following = next(*micro);
    *micro = following % i64(micro_batches) == 0 ? following - i64(micro_batches) : following;
}

KERNEL(lookup) {
    if (thread_index() > 0) return;
    i64 step = *cursor;
    *out = table[min(step < 0 ? 0ull : u64(step), n - 1) * table.stride.v[0]];
}

// Up to four values of a row, each of its own type.
KERNEL(ring_push) {
    if (thread_index() > 0) return;
    i64 rest = *cursor % i64(rows);
    double* to = ring + u64(rest < 0 ? rest + i64(rows) : rest) * ring.stride.v[0] + first * ring.stride.v[1];
    to[0] = double(widen(*x0));
    if (count > 1) to[ring.stride.v[1]] = double(widen(*x1));
    if (count > 2) to[2 * ring.stride.v[1]] = double(widen(*x2));
    if (count > 3) to[3 * ring.stride.v[1]] = double(widen(*x3));
}
