// The maximum so far, and sums relative to it, are carried from 32 keys to the next.
KERNEL(masked_attention) {
    u32 row = u32(thread_index() / 32);
    if (row >= rows) return;
    u32 lane = threadIdx.x % 32;
    Query own = query_of(row, queries, heads, keys, causal, lengths, faults);
    u32 i = own.i, head = own.head, b = own.b, n = own.n;
    const T* query = row_of(q, b, i, head);
    const T* key = row_of(k, b, 0, head / group);
    const T* value = row_of(v, b, 0, head / group);
    T* to = row_of(out, b, i, head);
    for (u32 col = 0; col == 0 || col < features; col += SPAN) {
        A top = -infinity(), total = A(0);
        A sums[EACH] = {};
        for (u32 from = 0; from < n; from += 32) {
            u32 j = from + lane;
            A score = -infinity();
            if (j < n) {
                score = A(scale) * dot(query, q.stride.v[3], key + u64(j) * k.stride.v[1], k.stride.v[3], features);
                score = masked(score, mask, b, head, i, j);
            }
            A largest = Max::of(top, warp_all<Max>(score));
            // While all scores are minus infinity there is nothing to be relative to.
            A base = largest == -infinity() ? A(0) : largest;
            A less = exponential(top - base), weight = exponential(score - base);
            total = total * less + warp_all<Sum>(weight);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) sums[e] *= less;
            add_rows(sums, weight, min(32u, n - from), value + u64(from) * v.stride.v[1], v.stride.v[1], v.stride.v[3], col,
                     features);
            top = largest;
        }
        // A query that sees no key gets zeros.
        store_features(to, out.stride.v[3], sums, total == A(0) ? A(0) : A(1) / total, col, features);
        if (col == 0 && lane == 0) *stat_of(lse, b, head, i) = A(double(top) + log(double(total)));
    }
}
