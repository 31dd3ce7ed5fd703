// Batch normalisation. A first launch sums each column in chunks, a second goes over all elements. The sums are of the
// differences from the column's first element: then a mean far from zero costs no digits.

// The sums of this block's chunk.
DEVICE void statistics_of(const Strips& c, const RowFrame& frame, const RowView<const T>& x, u64 each, double* partial) {
    Matrix of_x = matrix_of(frame, x);
    auto fetch = [&](u64 r) { return part_of(x.data, of_x, r, c.column); };
    S pivot[STRIP_COLUMNS];
    Part first;
    if (c.inside) first = fetch(0);
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) pivot[i] = c.inside ? S(widen(first.v[i])) : S(0);
    strip_sums<Part>(c, frame.count, each, frame.length, partial, fetch, [&](S(&a)[STRIP_COLUMNS], S(&b)[STRIP_COLUMNS], const Part& row) {
#pragma unroll
        for (u32 i = 0; i < STRIP_COLUMNS; i++) {
            S d = S(widen(row.v[i])) - pivot[i];
            a[i] += d;
            b[i] = fused(d, d, b[i]);
        }
    });
}

KERNEL(statistics) { statistics_of(strips_of(width, frame.length), frame, x, each, partial); }

// Each block adds the chunks of its columns for itself: they are few, and another launch would take longer. Where a block has all
// rows, it makes their sums too.
KERNEL(normalise) {
    Strips c = strips_of(width, frame.length);
    if (ONE_CHUNK) {
        statistics_of(c, frame, x, each, partial);
        __syncthreads();
    }
    Matrix of_x = matrix_of(frame, x), of_y = matrix_of(frame, y);
    u64 rows = frame.count, from = blockIdx.y * each, end = c.inside ? min(from + each, rows) : 0;
    auto fetch = [&](u64 r) { return part_of(x.data, of_x, r, c.column); };
    Part next[TOGETHER], first;
    // The first rows come while the sums are added.
    fetch_rows(next, c, from + c.lane, end, fetch);
    if (c.inside && rows > 0) first = fetch(0);
    Pair sums[STRIP_COLUMNS];
    strip_totals(sums, c, columns_of(width, frame.length), chunks, partial);
    if (!c.inside) return;
    A centre[STRIP_COLUMNS], scale[STRIP_COLUMNS], shift[STRIP_COLUMNS];
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) {
        u64 column = c.column + i;
        double pivot = rows > 0 ? double(widen(first.v[i])) : 0.0;
        double apart = sums[i].a / double(rows), squares = sums[i].b / double(rows) - apart * apart;
        if (squares < 0.0) squares = 0.0;
        if (blockIdx.y == 0 && c.lane == 0) {
            mean[column * mean.stride.v[0]] = narrow<A>(pivot + apart);
            variance[column * variance.stride.v[0]] = narrow<A>(squares);
        }
        centre[i] = A(pivot + apart);
        scale[i] = A(1.0 / sqrt(squares + eps)) * A(widen(weight[column * weight.stride.v[0]]));
        shift[i] = A(widen(bias[column * bias.stride.v[0]]));
    }
    auto use = [&](u64 r, const Part& row) {
        Part out;
#pragma unroll
        for (u32 i = 0; i < STRIP_COLUMNS; i++) {
            out.v[i] = narrow<T>((A(widen(row.v[i])) - centre[i]) * scale[i] + shift[i]);
        }
        put_part(out, y.data, of_y, r, c.column);
    };
    walk(next, c, from + c.lane, end, fetch, use, [] {});
}
