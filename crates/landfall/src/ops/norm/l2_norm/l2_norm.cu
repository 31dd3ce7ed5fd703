// L2 normalisation and its gradient. A group of lanes takes a row; a row of at most one unit a lane is read once and
// stays in registers, a longer one is read in each pass.

// The factor of a row.
DEVICE double scale_of(u64 r, const S* scale, const Rows& of_x, const Dims& stride) {
    return SCALED ? double(widen(scale[place_of(r, of_x.count, of_x.rank, of_x.shape, stride)])) : 1.0;
}

KERNEL(l2_norm) {
    __shared__ double totals[THREADS];
    Group g = group_of(lanes, across);
    Rows of_x = {rows, length, rank, gapless_x, shape, stride_x, shape_row, stride_row_x};
    Rows of_y = {rows, length, rank, gapless_y, shape, stride_y, shape_row, stride_row_y};
    u64 r = u64(blockIdx.x) * g.rows + g.row, end = r < rows ? length : 0, step = u64(g.lanes) * N;
    const T* row = x + (r < rows ? start_of(r, of_x) : 0);
    A v[N];
    double squares = 0.0;
    for (u64 first = g.lane * N; first < end; first += step) {
        load_row(v, row, first, of_x);
        A square[N];
#pragma unroll
        for (int i = 0; i < N; i++) square[i] = v[i] * v[i];
        squares += double(unit_all<Sum>(square));
    }
    squares = group_all<Sum>(squares, g, totals);
    if (r >= rows) return;
    A factor = A(scale_of(r, scale, of_x, stride_scale) / sqrt(squares + eps));
    T* row_y = y + start_of(r, of_y);
    for (u64 first = g.lane * N; first < end; first += step) {
        if (length > step) load_row(v, row, first, of_x);
#pragma unroll
        for (int i = 0; i < N; i++) v[i] *= factor;
        store_unit(v, row_y, first, length, of_y.gapless, 1, shape_row, stride_row_y);
    }
}

KERNEL(gradient) {
    __shared__ double totals[THREADS];
    Group g = group_of(lanes, across);
    Rows of_gy = {rows, length, rank, gapless_gy, shape, stride_gy, shape_row, stride_row_gy};
    Rows of_x = {rows, length, rank, gapless_x, shape, stride_x, shape_row, stride_row_x};
    Rows of_gx = {rows, length, rank, gapless_gx, shape, stride_gx, shape_row, stride_row_gx};
    u64 r = u64(blockIdx.x) * g.rows + g.row, end = r < rows ? length : 0, step = u64(g.lanes) * N;
    const T* row_gy = gy + (r < rows ? start_of(r, of_gy) : 0);
    const T* row_x = x + (r < rows ? start_of(r, of_x) : 0);
    A v[N], h[N];
    double squares = 0.0, product = 0.0;
    for (u64 first = g.lane * N; first < end; first += step) {
        load_row(v, row_gy, first, of_gy);
        load_row(h, row_x, first, of_x);
        A square[N], both[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            square[i] = h[i] * h[i];
            both[i] = v[i] * h[i];
        }
        squares += double(unit_all<Sum>(square));
        product += double(unit_all<Sum>(both));
    }
    squares = group_all<Sum>(squares, g, totals) + eps;
    product = group_all<Sum>(product, g, totals);
    if (r >= rows) return;
    A factor = A(scale_of(r, scale, of_x, stride_scale) / sqrt(squares)), along = A(product / squares);
    if (SCALED && g.lane == 0) {
        gscale[place_of(r, rows, rank, shape, stride_gscale)] = narrow<S>(A(product / sqrt(squares)));
    }
    T* row_gx = gx + start_of(r, of_gx);
    for (u64 first = g.lane * N; first < end; first += step) {
        if (length > step) {
            load_row(v, row_gy, first, of_gy);
            load_row(h, row_x, first, of_x);
        }
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = factor * (v[i] - h[i] * along);
        store_unit(v, row_gx, first, length, of_gx.gapless, 1, shape_row, stride_row_gx);
    }
}
