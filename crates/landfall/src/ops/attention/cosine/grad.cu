constexpr u32 THREADS = 256;  // of `finish`
constexpr u32 WARPS = (((N + R - 1) / R * L) + 31) / 32;
struct Pair { A weight, change; };

// With u a row of length 1 and g the slope of it: what is left of g beside u is the slope of the row before, but for its factor.
DEVICE void beside(A (&g)[4], const Quad& x, A inverse) {
    A u[4], along = A(0);
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        u[k] = A(widen(x.v[k])) * inverse;
        along = fused(g[k], u[k], along);
    }
    along = lanes_all<Sum>(along, L);
#pragma unroll
    for (u32 k = 0; k < 4; k++) g[k] -= u[k] * along;
}
KERNEL(gradient) {
    __shared__ __align__(16) T queries[N][WIDTH], keys[N][WIDTH], values[N][WIDTH], slopes[N][WIDTH];
    __shared__ Pair pairs[N][N];
    __shared__ A inverse[N], sums[WARPS];
    Place p = place(heads);
    const T* x = qkv + p.b * qkv.stride.v[0] + p.head * qkv.stride.v[3];
    const T* x_out = out + p.b * out.stride.v[0] + p.head * out.stride.v[2];
    const T* x_slope = slope + p.b * slope.stride.v[0] + p.head * slope.stride.v[2];
    Quad q[R], k[R], v[R], g[R], o[R];
    if (by_fours(qkv, qkv.stride, 4, e) && by_fours(out, out.stride, 3, e) && by_fours(slope, slope.stride, 3, e)) {
        load_all<true>(q, k, v, p, x, qkv.stride, e);
        load<true>(g, p, x_slope, slope.stride.v[1], slope.stride.v[3], e);
        load<true>(o, p, x_out, out.stride.v[1], out.stride.v[3], e);
    } else {
        load_all<false>(q, k, v, p, x, qkv.stride, e);
        load<false>(g, p, x_slope, slope.stride.v[1], slope.stride.v[3], e);
        load<false>(o, p, x_out, out.stride.v[1], out.stride.v[3], e);
    }
    A factor = A(widen(temperature[p.head * temperature.stride.v[0]])), less[R];
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        u32 row = min(p.row + r, N - 1);
        less[r] = A(widen(lse[p.b * lse.stride.v[0] + p.head * lse.stride.v[1] + row * lse.stride.v[2]]));
    }
    keep_rows(queries, p, q);
    keep_rows(keys, p, k);
    keep_rows(values, p, v);
    keep_rows(slopes, p, g);
    A level[R], inverse_q[R], inverse_k[R];
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        level[r] = lanes_all<Sum>(dot(g[r], o[r]), L);
        inverse_q[r] = inverse_length(q[r], eps);
        inverse_k[r] = inverse_length(k[r], eps);
        if (p.lane == 0 && p.row + r < N) inverse[p.row + r] = inverse_k[r];
    }
    __syncthreads();
    A scores[R][TIMES], changes[R][TIMES], turned = A(0);
    products(scores, p, q, keys);
    products(changes, p, g, values);
#pragma unroll
    for (u32 r = 0; r < R; r++) {
#pragma unroll
        for (u32 time = 0; time < TIMES; time++) {
            u32 key = key_of(p, time);
            bool there = key < N && p.row + r < N;
            A of_key = inverse[min(key, N - 1)], cosine = scores[r][time] * inverse_q[r] * of_key;
            A weight = exponential(factor * cosine - less[r]), change = weight * (changes[r][time] - level[r]);
            // Several lanes may have one pair.
            if (there && p.lane < C) {
                pairs[p.row + r][key] = {weight, change * factor * inverse_q[r]};
                turned = fused(change, cosine, turned);
            }
            changes[r][time] = change * of_key;
        }
    }
    turned = warp_all<Sum>(turned);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = turned;
    __syncthreads();
    if (threadIdx.x == 0) {
        A sum = sums[0];
        for (u32 warp = 1; warp < WARPS; warp++) sum += sums[warp];
        partial[blockIdx.x] = sum;
    }
    A gq[R][4] = {}, gk[R][4] = {}, gv[R][4] = {};
#pragma unroll
    for (u32 time = 0; time < TIMES; time++) {
        // Two at a time: with more, fewer blocks fit on a multiprocessor.
#pragma unroll 2
        for (u32 j = 0; j < C && time * C + j < N; j++) {
            u32 other = time * C + j;
            Quad of_k = Quad::load(&keys[other][p.c]), of_q = Quad::load(&queries[other][p.c]);
            Quad of_g = Quad::load(&slopes[other][p.c]);
#pragma unroll
            for (u32 r = 0; r < R; r++) {
                Pair both = pairs[other][min(p.row + r, N - 1)];
                add(gq[r], __shfl_sync(ALL, changes[r][time], j, L), of_k);
                add(gk[r], both.change, of_q);
                add(gv[r], both.weight, of_g);
            }
        }
    }
    A of_gq[R], one[R];
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        beside(gq[r], q[r], inverse_q[r]);
        beside(gk[r], k[r], inverse_k[r]);
        of_gq[r] = factor * inverse_q[r];
        one[r] = A(1);
    }
    T* to = gqkv + p.b * gqkv.stride.v[0] + p.head * gqkv.stride.v[3];
    u64 row = gqkv.stride.v[1], part = gqkv.stride.v[2], step = gqkv.stride.v[4];
    if (by_fours(gqkv, gqkv.stride, 4, e)) {
        store<true>(to, p, row, step, e, gq, of_gq);
        store<true>(to + part, p, row, step, e, gk, inverse_k);
        store<true>(to + 2 * part, p, row, step, e, gv, one);
    } else {
        store<false>(to, p, row, step, e, gq, of_gq);
        store<false>(to + part, p, row, step, e, gk, inverse_k);
        store<false>(to + 2 * part, p, row, step, e, gv, one);
    }
}
// The temperature's gradient: sums over the batch, a block a head.
KERNEL(finish) {
    __shared__ double shared[THREADS / 32];
    double sum = 0.0;
    for (u64 b = threadIdx.x; b < batch; b += THREADS) sum += double(partial[b * gridDim.x + blockIdx.x]);
    sum = block_all<Sum>(sum, 0.0, shared);
    if (threadIdx.x == 0) g_temperature[blockIdx.x * g_temperature.stride.v[0]] = narrow<S>(sum);
}
