// Gradients of attention. `levels` makes what both others need of each query; `columns` has a thread a key, `rows` a
// thread a query, and both make the scores again, tile by tile: no sum is shared between blocks, so none needs atomics.
// `rows` runs last: its gradient of the previous scores may lie on what `columns` reads.

// rowsum(g * out) of each query, in f64.
KERNEL(levels) {
    u64 index = thread_index();
    if (index >= count) return;
    u64 i = index % n, head = index / n % heads, b = index / n / heads;
    const T* from = out + b * out.stride.v[0] + i * out.stride.v[1] + head * out.stride.v[2];
    const T* g = slope + b * slope.stride.v[0] + i * slope.stride.v[1] + head * slope.stride.v[2];
    double sum = 0.0;
    for (u64 c = 0; c < e; c++) sum = fused(double(widen(from[c * out.stride.v[3]])), double(widen(g[c * slope.stride.v[3]])), sum);
    level[index] = A(sum);
}

KERNEL(columns) {
    __shared__ __align__(16) A queries[TILE][C], slopes[TILE][C];
    __shared__ A tile[TILE][ROWS], products[TILE][ROWS];
    __shared__ A less[TILE], levels[TILE];
    Place at = place_of(heads, n);
    u32 own = at.first + threadIdx.x, lane = threadIdx.x;
    const T* q_head = features_of(q, at);
    const T* k_head = features_of(k, at);
    const T* v_head = features_of(v, at);
    const T* g_head = features_of(slope, at);
    const L* lse_head = scores_of(lse, at);
    const A* level_head = level + (u64(at.b) * heads + at.head) * n;
    A key[C], value[C], key_sums[C], value_sums[C];
    for (u32 col = 0; col < e; col += C) {
        clear(key_sums);
        clear(value_sums);
        for (u32 from = 0; from < n; from += TILE) {
            u32 count = min(TILE, n - from);
            __syncthreads();
            for (u32 i = lane; i < count; i += blockDim.x) {
                less[i] = A(widen(lse_head[u64(from + i) * lse.stride.v[2]]));
                levels[i] = level_head[from + i];
            }
            // A thread reads its own column of both tiles only.
            const T* prev_head = scores_of(prev, at);
            for (u32 i = 0; i < count; i++) {
                bool inside = has_prev && own < n;
                tile[i][lane] =
                    inside ? A(widen(prev_head[u64(from + i) * prev.stride.v[2] + u64(own) * prev.stride.v[3]])) : A(0);
                products[i][lane] = A(0);
            }
            for (u32 part = 0; part < e; part += C) {
                if (e > C || from == 0) {
                    load_row(key, queries, k_head, k.stride, at.first, n, part, e, A(1));
                    load_row(value, queries, v_head, v.stride, at.first, n, part, e, A(1));
                }
                __syncthreads();
                load_lines(queries, q_head, q.stride, from, n, part, e, A(scale));
                load_lines(slopes, g_head, slope.stride, from, n, part, e, A(1));
                __syncthreads();
                for (u32 i = 0; i < count; i++) {
                    tile[i][lane] += dot(key, queries[i]);
                    products[i][lane] += dot(value, slopes[i]);
                }
            }
            if (e > C) {
                __syncthreads();
                load_lines(queries, q_head, q.stride, from, n, col, e, A(scale));
                load_lines(slopes, g_head, slope.stride, from, n, col, e, A(1));
                __syncthreads();
            }
            const T* g_scores = scores_of(score_slope, at);
            for (u32 i = 0; i < count; i++) {
                A weight = exponential(tile[i][lane] - less[i]);
                A change = weight * (products[i][lane] - levels[i]);
                if (has_scores && own < n) {
                    change += A(widen(g_scores[u64(from + i) * score_slope.stride.v[2] + u64(own) * score_slope.stride.v[3]]));
                }
                add(value_sums, weight, slopes[i]);
                add(key_sums, change, queries[i]);
            }
        }
        if (own >= n) continue;
        T* gk_to = features_of(gk, at) + u64(own) * gk.stride.v[1];
        T* gv_to = features_of(gv, at) + u64(own) * gv.stride.v[1];
#pragma unroll
        for (u32 c = 0; c < C; c++) {
            if (col + c < e) {
                gk_to[u64(col + c) * gk.stride.v[3]] = narrow<T>(key_sums[c]);
                gv_to[u64(col + c) * gv.stride.v[3]] = narrow<T>(value_sums[c]);
            }
        }
    }
}

KERNEL(rows) {
    __shared__ __align__(16) A keys[TILE][C], values[TILE][C];
    __shared__ A tile[ROWS][PITCH], products[ROWS][PITCH];
    Place at = place_of(heads, n);
    u32 own = at.first + threadIdx.x, lane = threadIdx.x;
    const T* q_head = features_of(q, at);
    const T* k_head = features_of(k, at);
    const T* v_head = features_of(v, at);
    const T* g_head = features_of(slope, at);
    A less = A(0), own_level = A(0);
    if (own < n) {
        less = A(widen(scores_of(lse, at)[u64(own) * lse.stride.v[2]]));
        own_level = level[(u64(at.b) * heads + at.head) * n + own];
    }
    A query[C], g[C], sums[C];
    for (u32 col = 0; col < e; col += C) {
        clear(sums);
        for (u32 from = 0; from < n; from += TILE) {
            u32 count = min(TILE, n - from);
            __syncthreads();
            if (has_prev) load_scores(tile, scores_of(prev, at), prev.stride, at.first, from, n);
            __syncthreads();
            for (u32 j = 0; j < TILE; j++) {
                if (!has_prev) tile[lane][j] = A(0);
                products[lane][j] = A(0);
            }
            for (u32 part = 0; part < e; part += C) {
                if (e > C || from == 0) {
                    load_row(query, keys, q_head, q.stride, at.first, n, part, e, A(scale));
                    load_row(g, keys, g_head, slope.stride, at.first, n, part, e, A(1));
                }
                __syncthreads();
                load_lines(keys, k_head, k.stride, from, n, part, e, A(1));
                load_lines(values, v_head, v.stride, from, n, part, e, A(1));
                __syncthreads();
                for (u32 j = 0; j < count; j++) {
                    tile[lane][j] += dot(query, keys[j]);
                    products[lane][j] += dot(g, values[j]);
                }
            }
            for (u32 j = 0; j < count; j++) {
                tile[lane][j] = exponential(tile[lane][j] - less) * (products[lane][j] - own_level);
            }
            if (has_scores) {
                __syncthreads();
                load_scores(products, scores_of(score_slope, at), score_slope.stride, at.first, from, n);
                __syncthreads();
                for (u32 j = 0; j < count; j++) tile[lane][j] += products[lane][j];
            }
            // Once every pass that reads what it may lie on has read it.
            if (has_prev && col + C >= e) {
                __syncthreads();
                store_scores(tile, scores_of(g_prev, at), g_prev.stride, at.first, from, n);
            }
            if (e > C) {
                __syncthreads();
                load_lines(keys, k_head, k.stride, from, n, col, e, A(1));
                __syncthreads();
            }
            for (u32 j = 0; j < count; j++) add(sums, tile[lane][j], keys[j]);
        }
        if (own >= n) continue;
        T* to = features_of(gq, at) + u64(own) * gq.stride.v[1];
#pragma unroll
        for (u32 c = 0; c < C; c++) {
            if (col + c < e) to[u64(col + c) * gq.stride.v[3]] = narrow<T>(sums[c] * A(scale));
        }
    }
}
