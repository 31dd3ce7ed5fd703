// Layer normalisation of rows that are held: `layer_norm.cu` has the ways for all others, with the same results.

KERNEL(layer_norm) {
    Units u = {threadIdx.x % ROW_LANES, u32(frame.length)};
    constexpr u32 ROWS = THREADS / ROW_LANES;
    u64 start = u64(blockIdx.x) * ROWS, step = u64(gridDim.x) * ROWS, own = threadIdx.x / ROW_LANES;
    Row<W> w, b;
    Row<T> next;
    auto fetch = [&](u64 r) {
        if (r < frame.count) next.load(x.data + r * x.stride.v[0], u);
    };
    fetch(start + own);
    w.load(weight.data, u);
    b.load(bias.data, u);
    for (; start < frame.count; start += step) {
        u64 r = start + own;
        Row<T> now = next;
        fetch(r + step);
        A v[HELD][N];
        double total[HELD], rest[HELD], squares[HELD];
#pragma unroll
        for (u32 k = 0; k < HELD; k++) {
            now.widened(v[k], k, u);
            total[k] = double(unit_all<Sum>(v[k]));
        }
        // The mean is rounded: what rounding left out is the mean of the differences from it.
        A centre = A(row_all<Sum>(total) * share);
#pragma unroll
        for (u32 k = 0; k < HELD; k++) {
            A square[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                v[k][i] = u.inside(k) ? v[k][i] - centre : A(0);
                square[i] = v[k][i] * v[k][i];
            }
            rest[k] = double(unit_all<Sum>(v[k]));
            squares[k] = double(unit_all<Sum>(square));
        }
        double off = row_all<Sum>(rest) * share, spread = row_all<Sum>(squares) * share - off * off;
        if (r >= frame.count) continue;
        double scale = rsqrt((spread < 0.0 ? 0.0 : spread) + eps);
        if (u.lane == 0) {
            mean[r * mean.stride.v[0]] = centre;
            rstd[r * rstd.stride.v[0]] = narrow<A>(scale);
        }
        A factor = A(scale), left = A(off);
        T* row_y = y.data + r * y.stride.v[0];
#pragma unroll
        for (u32 k = 0; k < HELD; k++) {
            if (!u.inside(k)) continue;
#pragma unroll
            for (int i = 0; i < N; i++) {
                v[k][i] = (v[k][i] - left) * factor * A(widen(w.unit[k].v[i])) + A(widen(b.unit[k].v[i]));
            }
            store_whole(v[k], row_y + u.first(k));
        }
    }
}
