// The gradient of batch normalisation: as forward, sums of each column in chunks, then all elements.

// The parts of a row.
struct Both { Part g, x; };

// The sums of this block's chunk.
DEVICE void sums_of(const Strips& c, const RowFrame& frame, const RowView<const T>& gy, const RowView<const T>& x,
                    const View<const M>& mean, const View<const V>& variance, double eps, u64 each, double* partial) {
    Matrix of_gy = matrix_of(frame, gy), of_x = matrix_of(frame, x);
    S centre[STRIP_COLUMNS], rstd[STRIP_COLUMNS];
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) {
        u64 column = c.column + i;
        centre[i] = c.inside ? S(mean[column * mean.stride.v[0]]) : S(0);
        rstd[i] = c.inside ? S(1.0 / sqrt(double(variance[column * variance.stride.v[0]]) + eps)) : S(0);
    }
    auto fetch = [&](u64 r) {
        Both both = {part_of(gy.data, of_gy, r, c.column), part_of(x.data, of_x, r, c.column)};
        return both;
    };
    strip_sums<Both>(c, frame.count, each, frame.length, partial, fetch, [&](S(&a)[STRIP_COLUMNS], S(&b)[STRIP_COLUMNS], const Both& row) {
#pragma unroll
        for (u32 i = 0; i < STRIP_COLUMNS; i++) {
            S g = S(widen(row.g.v[i])), h = (S(widen(row.x.v[i])) - centre[i]) * rstd[i];
            a[i] += g;
            b[i] = fused(g, h, b[i]);
        }
    });
}

KERNEL(gradient_sums) { sums_of(strips_of(width, frame.length), frame, gy, x, mean, variance, eps, each, partial); }

// Where a block has all rows, it makes their sums too.
KERNEL(gradient) {
    Strips c = strips_of(width, frame.length);
    if (ONE_CHUNK) {
        sums_of(c, frame, gy, x, mean, variance, eps, each, partial);
        __syncthreads();
    }
    Matrix of_gy = matrix_of(frame, gy), of_x = matrix_of(frame, x), of_gx = matrix_of(frame, gx);
    u64 rows = frame.count, from = blockIdx.y * each, end = c.inside ? min(from + each, rows) : 0;
    auto fetch = [&](u64 r) {
        Both both = {part_of(gy.data, of_gy, r, c.column), part_of(x.data, of_x, r, c.column)};
        return both;
    };
    Both next[TOGETHER];
    // The first rows come while the sums are added.
    fetch_rows(next, c, from + c.lane, end, fetch);
    Pair sums[STRIP_COLUMNS];
    strip_totals(sums, c, columns_of(width, frame.length), chunks, partial);
    if (!c.inside) return;
    A centre[STRIP_COLUMNS], rstd[STRIP_COLUMNS], scale[STRIP_COLUMNS], bias_part[STRIP_COLUMNS], weight_part[STRIP_COLUMNS];
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) {
        u64 column = c.column + i;
        if (blockIdx.y == 0 && c.lane == 0) {
            gbias[column * gbias.stride.v[0]] = narrow<W>(sums[i].a);
            gweight[column * gweight.stride.v[0]] = narrow<W>(sums[i].b);
        }
        centre[i] = A(mean[column * mean.stride.v[0]]);
        rstd[i] = A(1.0 / sqrt(double(variance[column * variance.stride.v[0]]) + eps));
        scale[i] = A(widen(weight[column * weight.stride.v[0]])) * rstd[i];
        bias_part[i] = A(sums[i].a / double(rows));
        weight_part[i] = A(sums[i].b / double(rows));
    }
    auto use = [&](u64 r, const Both& row) {
        Part out;
#pragma unroll
        for (u32 i = 0; i < STRIP_COLUMNS; i++) {
            A h = (A(widen(row.x.v[i])) - centre[i]) * rstd[i];
            out.v[i] = narrow<T>(scale[i] * (A(widen(row.g.v[i])) - bias_part[i] - h * weight_part[i]));
        }
        put_part(out, gx.data, of_gx, r, c.column);
    };
    walk(next, c, from + c.lane, end, fetch, use, [] {});
}
