// First a thread has a key and goes over the queries, then a query and goes over the keys: no sum is shared, so none needs
// atomics. What is read of a head's scores is read before the gradient of the previous ones is written, which may lie there.
KERNEL(gradient) {
    __shared__ Row queries[THREADS], keys[THREADS], values[THREADS], slopes[THREADS];
    __shared__ A less[THREADS], levels[THREADS];
    Place at = place_of(all, heads, n);
    u32 t = threadIdx.x;
    if (at.inside) {
        load_row(queries[t], features_of(q, at), q.stride.v[3], e, A(scale));
        load_row(keys[t], features_of(k, at), k.stride.v[3], e, A(1));
        load_row(values[t], features_of(v, at), v.stride.v[3], e, A(1));
        load_row(slopes[t], features_of(slope, at), slope.stride.v[3], e, A(1));
        less[t] = A(widen(scores_of(lse, at)[at.row * lse.stride.v[2]]));
        Row given;
        load_row(given, features_of(out, at), out.stride.v[3], e, A(1));
        double level = 0.0;
#pragma unroll
        for (u32 c = 0; c < E; c++) level = fused(double(given.v[c]), double(slopes[t].v[c]), level);
        levels[t] = A(level);
    }
    __syncthreads();
    const T* before = scores_of(prev, at);
    const T* after = scores_of(score_slope, at);
    if (at.inside) {
        Row key = keys[t], value = values[t], key_sums, value_sums;
        clear(key_sums);
        clear(value_sums);
        for (u32 i = 0; i < n; i++) {
            u32 s = at.base + i;
            A score = dot(key, queries[s]);
            if (has_prev) score += A(widen(before[i * prev.stride.v[2] + at.row * prev.stride.v[3]]));
            A weight = exponential(score - less[s]);
            A change = weight * (dot(value, slopes[s]) - levels[s]);
            if (has_scores) change += A(widen(after[i * score_slope.stride.v[2] + at.row * score_slope.stride.v[3]]));
            add(value_sums, weight, slopes[s]);
            add(key_sums, change, queries[s]);
        }
        store_row(key_sums, features_of(gk, at), gk.stride.v[3], e, A(1));
        store_row(value_sums, features_of(gv, at), gv.stride.v[3], e, A(1));
    }
    __syncthreads();
    if (!at.inside) return;
    T* g_before = scores_of(g_prev, at) + at.row * g_prev.stride.v[2];
    Row query = queries[t], g = slopes[t], sums;
    A own_less = less[t], own_level = levels[t];
    clear(sums);
    for (u32 j = 0; j < n; j++) {
        u32 s = at.base + j;
        A score = dot(query, keys[s]);
        if (has_prev) score += A(widen(before[at.row * prev.stride.v[2] + j * prev.stride.v[3]]));
        A change = exponential(score - own_less) * (dot(g, values[s]) - own_level);
        if (has_scores) change += A(widen(after[at.row * score_slope.stride.v[2] + j * score_slope.stride.v[3]]));
        if (has_prev) g_before[j * g_prev.stride.v[3]] = narrow<T>(change);
        add(sums, change, keys[s]);
    }
    store_row(sums, features_of(gq, at), gq.stride.v[3], e, A(scale));
}
