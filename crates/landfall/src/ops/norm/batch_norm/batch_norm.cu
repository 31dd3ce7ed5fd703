// Batch normalisation. A first launch sums each column in chunks, a second goes over all elements. The sums are of the differences from the column's first element: then a mean far from zero costs no digits.

KERNEL(statistics) {
    Columns c = columns_of(width, frame.length);
    Matrix of_x = matrix_of(frame, x);
    double pivot = c.inside ? double(widen(x.data[place(of_x, 0, c.column)])) : 0.0;
    chunk_sums(c, frame.count, each, partial, [&](u64 r) {
        double d = double(widen(x.data[place(of_x, r, c.column)])) - pivot;
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
    auto read = [&](u64 at) { return A(widen(x.data[place(of_x, at, c.column)])); };
    A v[AHEAD];
    // The first rows come while the sums are added.
    if (r < end) read_ahead(v, c, r, end, read);
    Pair sum = chunks_all(c, chunks, partial);
    if (!c.inside) return;
    double pivot = rows > 0 ? double(widen(x.data[c.column * of_x.step])) : 0.0;
    double apart = sum.a / double(rows), squares = sum.b / double(rows) - apart * apart;
    if (squares < 0.0) squares = 0.0;
    if (blockIdx.y == 0 && c.lane == 0) {
        mean[c.column * mean.stride.v[0]] = narrow<A>(pivot + apart);
        variance[c.column * variance.stride.v[0]] = narrow<A>(squares);
    }
    A centre = A(pivot + apart);
    A scale = A(1.0 / sqrt(squares + eps)) * A(widen(weight[c.column * weight.stride.v[0]]));
    A shift = A(widen(bias[c.column * bias.stride.v[0]]));
    while (r < end) {
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            if (r + u * c.lanes >= end) break;
            y.data[place(of_y, r + u * c.lanes, c.column)] = narrow<T>((v[u] - centre) * scale + shift);
        }
        r += AHEAD * c.lanes;
        if (r < end) read_ahead(v, c, r, end, read);
    }
}
