// Layer normalisation and its gradient. A group of lanes takes a row; a row of at most one unit a lane is read once and
// stays in registers, as does one of KEPT; a longer one is read in each pass.

KERNEL(layer_norm) {
    __shared__ double totals[2][THREADS];
    Group g = lanes_of(frame);
    u64 r = u64(blockIdx.x) * g.rows + g.row, end = r < frame.count ? frame.length : 0, step = u64(g.lanes) * N;
    auto at = [&](const Dims& stride) { return start_at(r, frame, stride); };
    const T* row = x.data + (r < frame.count ? at(x.stride) : 0);
    A kept[KEPT][N], w[N], b[N];
    auto read_affine = [&](u64 first) {
        read(w, weight.data, first, frame, weight);
        read(b, bias.data, first, frame, bias);
    };
    bool again = !SINGLE_PASS && frame.length > step, short_row = SINGLE_PASS ? KEPT == 1 : frame.length <= step;
    // Of a short row they come while it is summed.
    if (short_row && g.lane * N < end) read_affine(g.lane * N);
    double total = 0.0;
    each_unit(g, end, [&](u64 first, u32 k) {
        read(kept[k], row, first, frame, x);
        total += double(unit_all<Sum>(kept[k]));
    });
    total = group_all<Sum>(total, g, totals[0]);
    // The mean is rounded: what rounding left out is the mean of the differences from it.
    A centre = A(total * share);
    double rest = 0.0, squares = 0.0;
    each_unit(g, end, [&](u64 first, u32 k) {
        A(&v)[N] = kept[k];
        if (again) read(v, row, first, frame, x);
        A square[N];
        u32 count = SINGLE_PASS ? N : u32(min(end - first, u64(N)));
#pragma unroll
        for (u32 i = 0; i < N; i++) {
            v[i] = i < count ? v[i] - centre : A(0);
            square[i] = v[i] * v[i];
        }
        rest += double(unit_all<Sum>(v));
        squares += double(unit_all<Sum>(square));
    });
    group_both<Sum>(rest, squares, g, totals);
    rest *= share;
    squares = squares * share - rest * rest;
    if (r >= frame.count) return;
    double scale = rsqrt((squares < 0.0 ? 0.0 : squares) + eps);
    if (g.lane == 0) {
        mean[at(mean.stride)] = centre;
        rstd[at(rstd.stride)] = narrow<A>(scale);
    }
    A factor = A(scale), left = A(rest);
    T* row_y = y.data + at(y.stride);
    each_unit(g, end, [&](u64 first, u32 k) {
        A(&v)[N] = kept[k];
        if (again) {
            read(v, row, first, frame, x);
#pragma unroll
            for (int i = 0; i < N; i++) v[i] -= centre;
        }
        if (!short_row) read_affine(first);
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = (v[i] - left) * factor * w[i] + b[i];
        write(v, row_y, first, frame, y);
    });
}
