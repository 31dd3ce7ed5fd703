// The gradient of batch normalisation: as forward, sums of each column in chunks, then all elements.

struct Both { Vector<T, EACH> g, x; };

KERNEL(gradient_sums) {
    Columns c = columns_of(width, frame.length);
    Matrix of_gy = matrix_of(frame, gy), of_x = matrix_of(frame, x);
    double centre[EACH], rstd[EACH];
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        u64 column = c.column + j;
        centre[j] = c.inside ? double(mean[column * mean.stride.v[0]]) : 0.0;
        rstd[j] = c.inside ? 1.0 / sqrt(double(variance[column * variance.stride.v[0]]) + eps) : 0.0;
    }
    auto read = [&](u64 r) {
        Both both = {load_columns(gy.data, of_gy, r, c.column, along), load_columns(x.data, of_x, r, c.column, along)};
        return both;
    };
    chunk_sums(c, frame.count, each, partial, read, [&](const Both& both, u32 j) {
        double g = double(widen(both.g.v[j])), h = (double(widen(both.x.v[j])) - centre[j]) * rstd[j];
        Pair p = {g, g * h};
        return p;
    });
}

KERNEL(gradient) {
    Columns c = columns_of(width, frame.length);
    Matrix of_gy = matrix_of(frame, gy), of_x = matrix_of(frame, x), of_gx = matrix_of(frame, gx);
    u64 rows = frame.count;
    u64 from = blockIdx.y * each, end = c.inside ? min(from + each, rows) : 0, r = from + c.lane;
    auto read = [&](u64 at) {
        Both both = {load_columns(gy.data, of_gy, at, c.column, along), load_columns(x.data, of_x, at, c.column, along)};
        return both;
    };
    Both v[AHEAD];
    // The first rows come while the sums are added.
    if (r < end) read_ahead(v, c, r, end, read);
    Pair sum[EACH];
    chunks_all(sum, c, chunks, partial);
    if (!c.inside) return;
    A centre[EACH], rstd[EACH], scale[EACH], bias_part[EACH], weight_part[EACH];
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        u64 column = c.column + j;
        if (blockIdx.y == 0 && c.lane == 0) {
            gbias[column * gbias.stride.v[0]] = narrow<W>(sum[j].a);
            gweight[column * gweight.stride.v[0]] = narrow<W>(sum[j].b);
        }
        centre[j] = A(mean[column * mean.stride.v[0]]);
        rstd[j] = A(1.0 / sqrt(double(variance[column * variance.stride.v[0]]) + eps));
        scale[j] = A(widen(weight[column * weight.stride.v[0]])) * rstd[j];
        bias_part[j] = A(sum[j].a / double(rows));
        weight_part[j] = A(sum[j].b / double(rows));
    }
    while (r < end) {
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            if (r + u * c.lanes >= end) break;
            Vector<T, EACH> result;
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                A h = (A(widen(v[u].x.v[j])) - centre[j]) * rstd[j];
                result.v[j] = narrow<T>(scale[j] * (A(widen(v[u].g.v[j])) - bias_part[j] - h * weight_part[j]));
            }
            store_columns(result, gx.data, of_gx, r + u * c.lanes, c.column, along);
        }
        r += AHEAD * c.lanes;
        if (r < end) read_ahead(v, c, r, end, read);
    }
}
