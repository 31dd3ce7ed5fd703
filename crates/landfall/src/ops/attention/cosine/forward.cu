KERNEL(attention) {
    __shared__ __align__(16) T keys[N][WIDTH], values[N][WIDTH];
    __shared__ A inverse[N];
    Place p = place(heads);
    const T* x = qkv + p.b * qkv.stride.v[0] + p.head * qkv.stride.v[3];
    Quad q[R], k[R], v[R];
    if (by_fours(qkv, qkv.stride, 4, e)) {
        load_all<true>(q, k, v, p, x, qkv.stride, e);
    } else {
        load_all<false>(q, k, v, p, x, qkv.stride, e);
    }
    A factor = A(widen(temperature[p.head * temperature.stride.v[0]])), scale[R];
    keep_rows(keys, p, k);
    keep_rows(values, p, v);
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        scale[r] = factor * inverse_length(q[r], eps);
        A own = inverse_length(k[r], eps);
        if (p.lane == 0 && p.row + r < N) inverse[p.row + r] = own;
    }
    __syncthreads();
    A weights[R][TIMES], total[R];
    products(weights, p, q, keys);
#pragma unroll
    for (u32 r = 0; r < R; r++) {
        A top = -infinity();
#pragma unroll
        for (u32 time = 0; time < TIMES; time++) {
            u32 key = key_of(p, time);
            weights[r][time] = key < N ? weights[r][time] * (scale[r] * inverse[key]) : -infinity();
            top = Max::of(top, weights[r][time]);
        }
        top = lanes_all<Max>(top, C);
        total[r] = A(0);
#pragma unroll
        for (u32 time = 0; time < TIMES; time++) {
            weights[r][time] = exponential(weights[r][time] - top);
            total[r] += weights[r][time];
        }
        total[r] = lanes_all<Sum>(total[r], C);
        if (p.lane == 0 && p.row + r < N) {
            lse[p.b * lse.stride.v[0] + p.head * lse.stride.v[1] + (p.row + r) * lse.stride.v[2]] =
                top + logarithm(total[r]);
        }
    }
    A sums[R][4] = {};
#pragma unroll
    for (u32 time = 0; time < TIMES; time++) {
#pragma unroll
        for (u32 j = 0; j < C && time * C + j < N; j++) {
            Quad other = Quad::load(&values[time * C + j][p.c]);
#pragma unroll
            for (u32 r = 0; r < R; r++) add(sums[r], __shfl_sync(ALL, weights[r][time], j, L), other);
        }
    }
    A share[R];
#pragma unroll
    for (u32 r = 0; r < R; r++) share[r] = A(1) / total[r];
    T* to = out + p.b * out.stride.v[0] + p.head * out.stride.v[2];
    if (by_fours(out, out.stride, 3, e)) {
        store<true>(to, p, out.stride.v[1], out.stride.v[3], e, sums, share);
    } else {
        store<false>(to, p, out.stride.v[1], out.stride.v[3], e, sums, share);
    }
}
