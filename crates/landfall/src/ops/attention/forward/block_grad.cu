struct Head {
    Line queries[LINES], keys[LINES], slopes[LINES];
    union {
        Line values[LINES];
        Scores weights[N];  // once nobody reads the values
    };
    Scores changes[N];
    A less[LINES], levels[LINES];
};

// Slopes, and with them rowsum(slope * out) of each query, in f64: sixteen lanes a query.
template <bool FOURS> DEVICE void load_slopes(Head& h, const T* x, const Dims& s, const T* out, const Dims& of, u32 e) {
    Place p = line();
    double level[TILE] = {};
    for (u32 m = 0; m < ROUNDS; m++) {
        if (!has<QUADS>(p.column, m)) break;
        u32 c = (p.column + m * SIDE) * 4;
        Given slopes[TILE], given[TILE];
        fetch<FOURS>(slopes, x, s, p.row, c, e);
        fetch<FOURS>(given, out, of, p.row, c, e);
        put(h.slopes, slopes, p.row, c, A(1));
#pragma unroll
        for (u32 i = 0; i < TILE; i++) {
#pragma unroll
            for (u32 k = 0; k < 4; k++) level[i] = fused(double(widen(given[i].v[k])), double(widen(slopes[i].v[k])), level[i]);
        }
    }
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        level[i] = line_all<Sum>(level[i]);
        if (p.column == 0 && has<N>(p.row, i)) h.levels[nth(p.row, i)] = A(level[i]);
    }
}

// Row j of the result is the sum of all lines, line i times `weights[i][j]`.
DEVICE void weigh_columns(T* to, const Dims& s, u32 e, const Line* lines, const Scores* weights) {
    Place p = place();
    bool fours = by_fours(to, s, e);
    // Four neighbouring rows, so that one access has the weights of all.
    for (u32 t = 0; t < (TILE + 3) / 4; t++) {
        if (!has<LINES / 4>(p.row, t)) break;
        u32 first = (p.row + t * SIDE) * 4;
        for (u32 m = 0; m < ROUNDS; m++) {
            if (!has<QUADS>(p.column, m)) break;
            u32 c = (p.column + m * SIDE) * 4;
            A sums[4][4] = {};
#pragma unroll 4
            for (u32 i = 0; i < N; i++) {
                Quad x = Quad::load(&lines[i][c]), own = Quad::load(&weights[i][first]);
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
#pragma unroll
                    for (u32 f = 0; f < 4; f++) sums[j][f] = fused(own.v[j], x.v[f], sums[j][f]);
                }
            }
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                if (N % 4 == 0 || first + j < N) store(to, s, first + j, c, e, fours, sums[j], A(1));
            }
        }
    }
}

// What is read of a head's scores is read before the gradient of the previous ones is written, which may lie there.
KERNEL(gradient) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert(sizeof(Head) == SHARED, "what a launch gives");
    Head& h = *reinterpret_cast<Head*>(dynamic);
    const T *of_q = features_of(q, heads), *of_k = features_of(k, heads);
    const T *of_v = features_of(v, heads), *given = features_of(out, heads);
    const T* of_slope = features_of(slope, heads);
    // One branch for all, within which they come together.
    if (by_fours(of_q, q.stride, e) && by_fours(of_k, k.stride, e) && by_fours(of_v, v.stride, e) &&
        by_fours(of_slope, slope.stride, e) && by_fours(given, out.stride, e)) {
        load<true>(h.queries, of_q, q.stride, e, A(scale));
        load<true>(h.keys, of_k, k.stride, e, A(1));
        load<true>(h.values, of_v, v.stride, e, A(1));
        load_slopes<true>(h, of_slope, slope.stride, given, out.stride, e);
    } else {
        load<false>(h.queries, of_q, q.stride, e, A(scale));
        load<false>(h.keys, of_k, k.stride, e, A(1));
        load<false>(h.values, of_v, v.stride, e, A(1));
        load_slopes<false>(h, of_slope, slope.stride, given, out.stride, e);
    }
    const L* of_lse = scores_of(lse, heads);
    for (u32 i = threadIdx.x; i < N; i += THREADS) h.less[i] = A(widen(of_lse[i * lse.stride.v[2]]));
    __syncthreads();
    Place p = place();
    A weights[TILE][TILE], changes[TILE][TILE];
    products(weights, p, h.queries, h.keys);
    if (has_prev) add(weights, p, scores_of(prev, heads), prev.stride);
    products(changes, p, h.slopes, h.values);
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        A less = h.less[nth(p.row, i)], level = h.levels[nth(p.row, i)];
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            weights[i][j] = exponential(weights[i][j] - less);
            changes[i][j] = weights[i][j] * (changes[i][j] - level);
        }
    }
    if (has_scores) add(changes, p, scores_of(score_slope, heads), score_slope.stride);
    put(h.changes, p, changes);
    __syncthreads();
    if (has_prev) write(scores_of(g_prev, heads), g_prev.stride, p, changes);
    put(h.weights, p, weights);
    weigh_columns(features_of(gk, heads), gk.stride, e, h.queries, h.changes);
    weigh(features_of(gq, heads), gq.stride, e, h.keys, h.changes, [&](u32) { return A(scale); });
    __syncthreads();
    weigh_columns(features_of(gv, heads), gv.stride, e, h.slopes, h.weights);
}
