// The gradient of layer normalisation: one launch for the rows, two for the sums over them.

// A unit of gy * weight and of the normalised x.
DEVICE void load_parts(A (&v)[N], A (&h)[N], const T* row_gy, const Rows& of_gy, const T* row_x, const Rows& of_x,
                       const W* weight, u32 gapless_weight, const Dims& stride_weight, u64 first, A centre, A scale) {
    A w[N];
    load_unit(v, row_gy, first, of_gy.length, A(0), of_gy.gapless, 1, of_gy.shape_row, of_gy.stride_row);
    load_unit(h, row_x, first, of_x.length, centre, of_x.gapless, 1, of_x.shape_row, of_x.stride_row);
    load_unit(w, weight, first, of_x.length, A(0), gapless_weight, 1, of_x.shape_row, stride_weight);
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i] *= w[i];
        h[i] = (h[i] - centre) * scale;
    }
}

KERNEL(gradient) {
    __shared__ double totals[THREADS];
    Group g = group_of(lanes, across);
    Rows of_gy = {rows, length, rank, gapless_gy, shape, stride_gy, shape_row, stride_row_gy};
    Rows of_x = {rows, length, rank, gapless_x, shape, stride_x, shape_row, stride_row_x};
    Rows of_gx = {rows, length, rank, gapless_gx, shape, stride_gx, shape_row, stride_row_gx};
    u64 r = u64(blockIdx.x) * g.rows + g.row, end = r < rows ? length : 0, step = u64(g.lanes) * N;
    u64 at = r < rows ? r : 0;
    const T* row_gy = gy + start_of(at, of_gy);
    const T* row_x = x + start_of(at, of_x);
    A centre = A(mean[place_of(at, rows, rank, shape, stride_mean)]);
    A scale = A(rstd[place_of(at, rows, rank, shape, stride_rstd)]);
    A v[N], h[N];
    double sum = 0.0, product = 0.0;
    for (u64 first = g.lane * N; first < end; first += step) {
        load_parts(v, h, row_gy, of_gy, row_x, of_x, weight, gapless_weight, stride_weight, first, centre, scale);
        A both[N];
#pragma unroll
        for (int i = 0; i < N; i++) both[i] = v[i] * h[i];
        sum += double(unit_all<Sum>(v));
        product += double(unit_all<Sum>(both));
    }
    sum = group_all<Sum>(sum, g, totals) / double(length);
    product = group_all<Sum>(product, g, totals) / double(length);
    if (r >= rows) return;
    T* row_gx = gx + start_of(r, of_gx);
    for (u64 first = g.lane * N; first < end; first += step) {
        if (length > step) {
            load_parts(v, h, row_gy, of_gy, row_x, of_x, weight, gapless_weight, stride_weight, first, centre, scale);
        }
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = scale * (v[i] - A(sum) - h[i] * A(product));
        store_unit(v, row_gx, first, length, of_gx.gapless, 1, shape_row, stride_row_gx);
    }
}

KERNEL(column_sums) {
    Columns c = columns_of(width, length);
    Matrix of_gy = {rows, rank, shape, stride_gy, step_gy}, of_x = {rows, rank, shape, stride_x, step_x};
    Matrix of_mean = {rows, rank, shape, stride_mean, 0}, of_rstd = {rows, rank, shape, stride_rstd, 0};
    chunk_sums(c, rows, each, partial, [&](u64 r) {
        A g = A(widen(gy[place(of_gy, r, c.column)]));
        A h = (A(widen(x[place(of_x, r, c.column)])) - A(mean[place(of_mean, r, 0)])) * A(rstd[place(of_rstd, r, 0)]);
        Pair p = {double(g), double(g * h)};
        return p;
    });
}

KERNEL(finish) {
    Columns c = columns_of(width, length);
    Pair sum = chunks_all(c, chunks, partial);
    if (!c.inside || c.lane != 0) return;
    gbias[c.column * step_gbias] = narrow<W>(sum.a);
    gweight[c.column * step_gweight] = narrow<W>(sum.b);
}
