struct Head {
    union {
        Line queries[LINES];
        Scores weights[N];  // once nobody reads the queries
    };
    Line keys[LINES], values[LINES];
    A inverse[LINES];
};
KERNEL(attention) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert(sizeof(Head) == SHARED, "what a launch gives");
    Head& h = *reinterpret_cast<Head*>(dynamic);
    const T *of_q = features_of(q, heads), *of_k = features_of(k, heads);
    const T* of_v = features_of(v, heads);
    // One branch for all, within which they come together.
    if (by_fours(of_q, q.stride, e) && by_fours(of_k, k.stride, e) && by_fours(of_v, v.stride, e)) {
        load<true>(h.queries, of_q, q.stride, e, A(scale));
        load<true>(h.keys, of_k, k.stride, e, A(1));
        load<true>(h.values, of_v, v.stride, e, A(1));
    } else {
        load<false>(h.queries, of_q, q.stride, e, A(scale));
        load<false>(h.keys, of_k, k.stride, e, A(1));
        load<false>(h.values, of_v, v.stride, e, A(1));
    }
    __syncthreads();
    Place p = place();
    A scores[TILE][TILE];
    products(scores, p, h.queries, h.keys);
    if (has_prev) add(scores, p, scores_of(prev, heads), prev.stride);
    if (has_scores) write(scores_of(emitted, heads), emitted.stride, p, scores);
    __syncthreads();
    put(h.weights, p, scores);
    __syncthreads();
    // Softmax: sixteen lanes a row, which alone read and write it.
    Place at = line();
    A tops[TILE], totals[TILE];
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        tops[i] = -infinity();
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            bool there = has<N>(at.row, i) && has<N>(at.column, j);
            scores[i][j] = there ? h.weights[at.row + i * SIDE][at.column + j * SIDE] : -infinity();
            tops[i] = Max::of(tops[i], scores[i][j]);
        }
        tops[i] = line_all<Max>(tops[i]);
    }
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        // While all scores are minus infinity there is nothing to be relative to.
        A base = tops[i] == -infinity() ? A(0) : tops[i];
        totals[i] = A(0);
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            scores[i][j] = exponential(scores[i][j] - base);
            if (has<N>(at.column, j)) totals[i] += scores[i][j];
        }
        totals[i] = line_all<Sum>(totals[i]);
    }
    put(h.weights, at, scores);
    // Lane i finishes row i of the TILE that it shares.
    A top = tops[0], total = totals[0];
#pragma unroll
    for (u32 i = 1; i < TILE; i++) {
        if (at.column == i) top = tops[i], total = totals[i];
    }
    u32 query = at.row + at.column * SIDE;
    if (at.column < TILE && query < N) {
        // A row of minus infinity alone has no weights.
        if (total == A(0)) total = infinity() - infinity();
        h.inverse[query] = A(1) / total;
        scores_of(lse, heads)[query * lse.stride.v[2]] = A(double(top) + log(double(total)));
    }
    __syncthreads();
    weigh(features_of(out, heads), out.stride, e, h.values, h.weights, [&](u32 i) { return h.inverse[i]; });
}
