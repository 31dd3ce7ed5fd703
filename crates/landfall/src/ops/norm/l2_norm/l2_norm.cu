// L2 normalisation and its gradient. A group of lanes takes a row; a row of at most one unit a lane is read once and
// stays in registers, a longer one is read in each pass.

// The factor of a row.
DEVICE double scale_of(u64 r, const S* scale, const RowFrame& frame, const Dims& stride) {
    return SCALED ? double(widen(scale[start_of(r, frame, stride)])) : 1.0;
}

KERNEL(l2_norm) {
    __shared__ double totals[THREADS];
    Group g = group_of(frame.lanes, frame.across);
    u64 r = u64(blockIdx.x) * g.rows + g.row, end = r < frame.count ? frame.length : 0, step = u64(g.lanes) * N;
    const T* row = x.data + (r < frame.count ? start_of(r, frame, x.stride) : 0);
    A v[N];
    double squares = 0.0;
    for (u64 first = g.lane * N; first < end; first += step) {
        load_row(v, row, first, frame, x);
        A square[N];
#pragma unroll
        for (int i = 0; i < N; i++) square[i] = v[i] * v[i];
        squares += double(unit_all<Sum>(square));
    }
    squares = group_all<Sum>(squares, g, totals);
    if (r >= frame.count) return;
    A factor = A(scale_of(r, scale, frame, scale.stride) / sqrt(squares + eps));
    T* row_y = y.data + start_of(r, frame, y.stride);
    for (u64 first = g.lane * N; first < end; first += step) {
        if (frame.length > step) load_row(v, row, first, frame, x);
#pragma unroll
        for (int i = 0; i < N; i++) v[i] *= factor;
        store_row(v, row_y, first, frame, y);
    }
}

KERNEL(gradient) {
    __shared__ double totals[2][THREADS];
    Group g = group_of(frame.lanes, frame.across);
    u64 r = u64(blockIdx.x) * g.rows + g.row, end = r < frame.count ? frame.length : 0, step = u64(g.lanes) * N;
    const T* row_gy = gy.data + (r < frame.count ? start_of(r, frame, gy.stride) : 0);
    const T* row_x = x.data + (r < frame.count ? start_of(r, frame, x.stride) : 0);
    A v[N], h[N];
    double squares = 0.0, product = 0.0;
    for (u64 first = g.lane * N; first < end; first += step) {
        load_row(v, row_gy, first, frame, gy);
        load_row(h, row_x, first, frame, x);
        A square[N], both[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            square[i] = h[i] * h[i];
            both[i] = v[i] * h[i];
        }
        squares += double(unit_all<Sum>(square));
        product += double(unit_all<Sum>(both));
    }
    group_both<Sum>(squares, product, g, totals);
    squares += eps;
    if (r >= frame.count) return;
    A factor = A(scale_of(r, scale, frame, scale.stride) / sqrt(squares)), along = A(product / squares);
    if (SCALED && g.lane == 0) {
        gscale[start_of(r, frame, gscale.stride)] = narrow<S>(A(product / sqrt(squares)));
    }
    T* row_gx = gx.data + start_of(r, frame, gx.stride);
    for (u64 first = g.lane * N; first < end; first += step) {
        if (frame.length > step) {
            load_row(v, row_gy, first, frame, gy);
            load_row(h, row_x, first, frame, x);
        }
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = factor * (v[i] - h[i] * along);
        store_row(v, row_gx, first, frame, gx);
    }
}
