// The gradient of batch normalisation: as forward, sums of each column in chunks, then all elements.

KERNEL(gradient_sums) {
    Columns c = columns_of(width, frame.length);
    Matrix of_gy = matrix_of(frame, gy), of_x = matrix_of(frame, x);
    double centre = c.inside ? double(mean[c.column * mean.stride.v[0]]) : 0.0;
    double rstd = c.inside ? 1.0 / sqrt(double(variance[c.column * variance.stride.v[0]]) + eps) : 0.0;
    chunk_sums(c, frame.count, each, partial, [&](u64 r) {
        double g = double(widen(gy.data[place(of_gy, r, c.column)]));
        double h = (double(widen(x.data[place(of_x, r, c.column)])) - centre) * rstd;
        Pair p = {g, g * h};
        return p;
    });
}

KERNEL(gradient) {
    Columns c = columns_of(width, frame.length);
    Matrix of_gy = matrix_of(frame, gy), of_x = matrix_of(frame, x), of_gx = matrix_of(frame, gx);
    u64 rows = frame.count;
    u64 from = blockIdx.y * each, end = c.inside ? min(from + each, rows) : 0, r = from + c.lane;
    auto read_g = [&](u64 at) { return A(widen(gy.data[place(of_gy, at, c.column)])); };
    auto read_x = [&](u64 at) { return A(widen(x.data[place(of_x, at, c.column)])); };
    A g[AHEAD], v[AHEAD];
    // The first rows come while the sums are added.
    if (r < end) {
        read_ahead(g, c, r, end, read_g);
        read_ahead(v, c, r, end, read_x);
    }
    Pair sum = chunks_all(c, chunks, partial);
    if (!c.inside) return;
    if (blockIdx.y == 0 && c.lane == 0) {
        gbias[c.column * gbias.stride.v[0]] = narrow<W>(sum.a);
        gweight[c.column * gweight.stride.v[0]] = narrow<W>(sum.b);
    }
    A centre = A(mean[c.column * mean.stride.v[0]]);
    A rstd = A(1.0 / sqrt(double(variance[c.column * variance.stride.v[0]]) + eps));
    A scale = A(widen(weight[c.column * weight.stride.v[0]])) * rstd;
    A bias_part = A(sum.a / double(rows)), weight_part = A(sum.b / double(rows));
    while (r < end) {
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            u64 at = r + u * c.lanes;
            if (at >= end) break;
            A h = (v[u] - centre) * rstd;
            gx.data[place(of_gx, at, c.column)] = narrow<T>(scale * (g[u] - bias_part - h * weight_part));
        }
        r += AHEAD * c.lanes;
        if (r >= end) break;
        read_ahead(g, c, r, end, read_g);
        read_ahead(v, c, r, end, read_x);
    }
}
