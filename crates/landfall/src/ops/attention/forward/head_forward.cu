KERNEL(attention) {
    __shared__ __align__(16) A queries[N][PITCH], keys[N][PITCH], values[N][PITCH];
    __shared__ A weights[N][N + 1], inverse[N];
    load(queries, features_of(q, heads), q.stride, e, A(scale));
    load(keys, features_of(k, heads), k.stride, e, A(1));
    load(values, features_of(v, heads), v.stride, e, A(1));
    __syncthreads();
    const T* before = scores_of(prev, heads);
    T* after = scores_of(emitted, heads);
    for (u32 p = threadIdx.x; p < N * N; p += THREADS) {
        u32 i = p / N, j = p % N;
        A score = dot(queries[i], keys[j]);
        if (has_prev) score += A(widen(before[i * prev.stride.v[2] + j * prev.stride.v[3]]));
        if (has_scores) after[i * emitted.stride.v[2] + j * emitted.stride.v[3]] = narrow<T>(score);
        weights[i][j] = score;
    }
    __syncthreads();
    A* levels = scores_of(lse, heads);
    for (u32 i = threadIdx.x; i < N; i += THREADS) {
        A top = -infinity(), total = A(0);
#pragma unroll 4
        for (u32 j = 0; j < N; j++) top = Max::of(top, weights[i][j]);
        // While all scores are minus infinity there is nothing to be relative to.
        A base = top == -infinity() ? A(0) : top;
#pragma unroll 4
        for (u32 j = 0; j < N; j++) {
            A weight = exponential(weights[i][j] - base);
            weights[i][j] = weight;
            total += weight;
        }
        // A row of minus infinity alone has no weights.
        if (total == A(0)) total = infinity() - infinity();
        inverse[i] = A(1) / total;
        levels[i * lse.stride.v[2]] = A(double(top) + log(double(total)));
    }
    __syncthreads();
    weigh(
        features_of(out, heads), out.stride, e, values, [&](u32 i, u32 j) { return weights[i][j]; },
        [&](u32 i) { return inverse[i]; });
}
