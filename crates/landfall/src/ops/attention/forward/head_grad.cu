// What is read of a head's scores is read before the gradient of the previous ones is written, which may lie there.
KERNEL(gradient) {
    __shared__ __align__(16) A queries[N][PITCH], keys[N][PITCH], values[N][PITCH], slopes[N][PITCH];
    __shared__ A weights[N][N + 1], changes[N][N + 1], less[N], levels[N];
    load(queries, features_of(q, heads), q.stride, e, A(scale));
    load(keys, features_of(k, heads), k.stride, e, A(1));
    load(values, features_of(v, heads), v.stride, e, A(1));
    load(slopes, features_of(slope, heads), slope.stride, e, A(1));
    const L* lse_head = scores_of(lse, heads);
    for (u32 i = threadIdx.x; i < N; i += THREADS) less[i] = A(widen(lse_head[i * lse.stride.v[2]]));
    __syncthreads();
    // rowsum(slope * out) of each query, in f64: a warp a query.
    const T* given = features_of(out, heads);
    u32 lane = threadIdx.x % 32;
    for (u32 i = threadIdx.x / 32; i < N; i += THREADS / 32) {
        double level = 0.0;
        for (u32 c = lane; c < e; c += 32) {
            level = fused(double(widen(given[u64(i) * out.stride.v[1] + u64(c) * out.stride.v[3]])), double(slopes[i][c]), level);
        }
        level = warp_all<Sum>(level);
        if (lane == 0) levels[i] = A(level);
    }
    __syncthreads();
    const T* before = scores_of(prev, heads);
    const T* after = scores_of(score_slope, heads);
    for (u32 p = threadIdx.x; p < N * N; p += THREADS) {
        u32 i = p / N, j = p % N;
        A score = dot(queries[i], keys[j]);
        if (has_prev) score += A(widen(before[i * prev.stride.v[2] + j * prev.stride.v[3]]));
        A weight = exponential(score - less[i]);
        A change = weight * (dot(slopes[i], values[j]) - levels[i]);
        if (has_scores) change += A(widen(after[i * score_slope.stride.v[2] + j * score_slope.stride.v[3]]));
        weights[i][j] = weight;
        changes[i][j] = change;
    }
    __syncthreads();
    if (has_prev) {
        T* to = scores_of(g_prev, heads);
        for (u32 p = threadIdx.x; p < N * N; p += THREADS) {
            u32 i = p / N, j = p % N;
            to[i * g_prev.stride.v[2] + j * g_prev.stride.v[3]] = narrow<T>(changes[i][j]);
        }
    }
    auto one = [](u32) { return A(1); };
    weigh(
        features_of(gk, heads), gk.stride, e, queries, [&](u32 j, u32 i) { return changes[i][j]; }, one);
    weigh(
        features_of(gv, heads), gv.stride, e, slopes, [&](u32 j, u32 i) { return weights[i][j]; }, one);
    weigh(
        features_of(gq, heads), gq.stride, e, keys, [&](u32 i, u32 j) { return changes[i][j]; },
        [&](u32) { return A(scale); });
}
