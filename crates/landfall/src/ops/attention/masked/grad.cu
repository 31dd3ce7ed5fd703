// Both kernels make the weights again from the scores and their logarithm. `masked_rows` runs first: it leaves
// rowsum(slope * out) of each query in `level`.

// The logarithm of a query's sum; of one that sees no key, 0: its scores are minus infinity.
DEVICE A seen(A lse) { return lse == -infinity() ? A(0) : lse; }

KERNEL(masked_rows) {
    u32 row = u32(thread_index() / 32);
    if (row >= rows) return;
    u32 lane = threadIdx.x % 32;
    Query at = query_of(row, queries, heads, keys, causal, lengths, faults);
    u32 i = at.i, head = at.head, b = at.b, n = at.n;
    const T* query = row_of(q, b, i, head);
    const T* g = row_of(slope, b, i, head);
    const T* result = row_of(out, b, i, head);
    const T* key = row_of(k, b, 0, head / group);
    const T* value = row_of(v, b, 0, head / group);
    double part = 0.0;
    for (u32 c = lane; c < features; c += 32) {
        part = fused(double(widen(g[c * slope.stride.v[3]])), double(widen(result[c * out.stride.v[3]])), part);
    }
    A own = A(warp_all<Sum>(part));
    if (lane == 0) level[row] = own;
    A less = seen(A(widen(*stat_of(lse, b, head, i))));
    for (u32 col = 0; col < features; col += SPAN) {
        A sums[EACH] = {};
        for (u32 from = 0; from < n; from += 32) {
            u32 j = from + lane;
            A change = A(0);
            if (j < n) {
                const T* own_key = key + u64(j) * k.stride.v[1];
                A score = masked(A(scale) * dot(query, q.stride.v[3], own_key, k.stride.v[3], features), mask, b, head, i, j);
                A along = dot(g, slope.stride.v[3], value + u64(j) * v.stride.v[1], v.stride.v[3], features);
                A weight = exponential(score - less);
                change = weight == A(0) ? weight : weight * (along - own);
            }
            add_rows(sums, change, min(32u, n - from), key + u64(from) * k.stride.v[1], k.stride.v[1], k.stride.v[3], col,
                     features);
        }
        store_features(row_of(gq, b, i, head), gq.stride.v[3], sums, A(scale), col, features);
    }
}

KERNEL(masked_columns) {
    u32 column = u32(thread_index() / 32);
    if (column >= columns) return;
    u32 lane = threadIdx.x % 32, shared = heads / group;
    u32 j = column % keys, key_head = column / keys % shared, b = column / keys / shared;
    u32 n = keys_of(length_of(lengths, b, keys), keys);
    const T* key = row_of(k, b, j, key_head);
    const T* value = row_of(v, b, j, key_head);
    // The first query that sees the key.
    u32 first = j >= n ? queries : 0;
    if (causal && j < n && j + queries > n) first = min(j + queries - n, queries);
    for (u32 col = 0; col < features; col += SPAN) {
        A key_sums[EACH] = {}, value_sums[EACH] = {};
        for (u32 head = key_head * group; head < (key_head + 1) * group; head++) {
            for (u32 from = first; from < queries; from += 32) {
                u32 i = from + lane;
                A weight = A(0), change = A(0);
                if (i < queries) {
                    const T* query = row_of(q, b, i, head);
                    A score = A(scale) * dot(query, q.stride.v[3], key, k.stride.v[3], features);
                    weight = exponential(masked(score, mask, b, head, i, j) - seen(A(widen(*stat_of(lse, b, head, i)))));
                    A along = dot(row_of(slope, b, i, head), slope.stride.v[3], value, v.stride.v[3], features);
                    if (weight != A(0)) change = weight * (along - level[(b * heads + head) * queries + i]);
                }
                u32 count = min(32u, queries - from);
                add_rows(key_sums, change, count, row_of(q, b, from, head), q.stride.v[1], q.stride.v[3], col, features);
                add_rows(value_sums, weight, count, row_of(slope, b, from, head), slope.stride.v[1], slope.stride.v[3], col,
                         features);
            }
        }
        store_features(row_of(gk, b, j, key_head), gk.stride.v[3], key_sums, A(scale), col, features);
        store_features(row_of(gv, b, j, key_head), gv.stride.v[3], value_sums, A(1), col, features);
    }
}
