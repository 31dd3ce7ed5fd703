// Batch normalisation. A first launch sums each column in chunks, a second goes over all elements. The sums are of the differences from the column's first element: then a mean far from zero costs no digits.

KERNEL(statistics) {
    Columns c = columns_of(width, frame.length);
    Matrix of_x = matrix_of(frame, x);
    double pivot[EACH];
#pragma unroll
    for (u32 j = 0; j < EACH; j++) pivot[j] = c.inside ? double(widen(x.data[place(of_x, 0, c.column + j)])) : 0.0;
    chunk_sums(
        c, frame.count, each, partial, [&](u64 r) { return load_columns(x.data, of_x, r, c.column, along); },
        [&](const Vector<T, EACH>& v, u32 j) {
            double d = double(widen(v.v[j])) - pivot[j];
            Pair p = {d, d * d};
            return p;
        });
}

// Each block adds the chunks of its columns for itself: they are few, and another launch would take longer.
KERNEL(normalise) {
    Columns c = columns_of(width, frame.length);
    Matrix of_x = matrix_of(frame, x), of_y = matrix_of(frame, y);
    u64 rows = frame.count;
    u64 from = blockIdx.y * each, end = c.inside ? min(from + each, rows) : 0, r = from + c.lane;
    auto read = [&](u64 at) { return load_columns(x.data, of_x, at, c.column, along); };
    Vector<T, EACH> v[AHEAD];
    // The first rows come while the sums are added.
    if (r < end) read_ahead(v, c, r, end, read);
    Pair sum[EACH];
    chunks_all(sum, c, chunks, partial);
    if (!c.inside) return;
    A centre[EACH], scale[EACH], shift[EACH];
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        u64 column = c.column + j;
        double pivot = rows > 0 ? double(widen(x.data[column * of_x.step])) : 0.0;
        double apart = sum[j].a / double(rows), squares = sum[j].b / double(rows) - apart * apart;
        if (squares < 0.0) squares = 0.0;
        if (blockIdx.y == 0 && c.lane == 0) {
            mean[column * mean.stride.v[0]] = narrow<A>(pivot + apart);
            variance[column * variance.stride.v[0]] = narrow<A>(squares);
        }
        centre[j] = A(pivot + apart);
        scale[j] = A(1.0 / sqrt(squares + eps)) * A(widen(weight[column * weight.stride.v[0]]));
        shift[j] = A(widen(bias[column * bias.stride.v[0]]));
    }
    while (r < end) {
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            if (r + u * c.lanes >= end) break;
            Vector<T, EACH> result;
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                result.v[j] = narrow<T>((A(widen(v[u].v[j])) - centre[j]) * scale[j] + shift[j]);
            }
            store_columns(result, y.data, of_y, r + u * c.lanes, c.column, along);
        }
        r += AHEAD * c.lanes;
        if (r < end) read_ahead(v, c, r, end, read);
    }
}
