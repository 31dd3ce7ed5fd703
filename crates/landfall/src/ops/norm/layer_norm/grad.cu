// The gradient of layer normalisation: one launch for the rows and one that adds up sums over them. Those of rows of at most
// a unit a lane are begun with the rows; those of longer ones take a launch of their own.

// A unit of gy * weight and of the normalised x.
DEVICE void load_parts(A (&v)[N], A (&h)[N], const T* row_gy, const RowView<const T>& gy, const T* row_x,
                       const RowView<const T>& x, const RowView<const W>& weight, u64 first, const RowFrame& frame, A centre,
                       A scale) {
    A w[N];
    load_row(v, row_gy, first, frame, gy);
    load_row(h, row_x, first, frame, x, centre);
    load_row(w, weight.data, first, frame, weight);
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i] = v[i] * w[i];
        h[i] = (h[i] - centre) * scale;
    }
}

KERNEL(gradient) {
    __shared__ double totals[2][THREADS];
    Group g = group_of(frame.lanes, frame.across);
    u64 r = u64(blockIdx.x) * g.rows + g.row, end = r < frame.count ? frame.length : 0, step = u64(g.lanes) * N;
    u64 at = r < frame.count ? r : 0;
    const T* row_gy = gy.data + start_of(at, frame, gy.stride);
    const T* row_x = x.data + start_of(at, frame, x.stride);
    A centre = A(mean[start_of(at, frame, mean.stride)]);
    A scale = A(rstd[start_of(at, frame, rstd.stride)]);
    A v[N], h[N];
    double sum = 0.0, product = 0.0;
    for (u64 first = g.lane * N; first < end; first += step) {
        load_parts(v, h, row_gy, gy, row_x, x, weight, first, frame, centre, scale);
        A both[N];
#pragma unroll
        for (int i = 0; i < N; i++) both[i] = v[i] * h[i];
        sum += double(unit_all<Sum>(v));
        product += double(unit_all<Sum>(both));
    }
    group_both<Sum>(sum, product, g, totals);
    // As `gradient_sums` has it, to the last bit.
    double share = 1.0 / double(frame.length);
    sum *= share;
    product *= share;
    if (r >= frame.count) return;
    T* row_gx = gx.data + start_of(r, frame, gx.stride);
    for (u64 first = g.lane * N; first < end; first += step) {
        if (frame.length > step) {
            load_parts(v, h, row_gy, gy, row_x, x, weight, first, frame, centre, scale);
        }
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = scale * (v[i] - A(sum) - h[i] * A(product));
        store_row(v, row_gx, first, frame, gx);
    }
}

// Rows of at most a unit a lane. A block walks `each` groups of them, and its lanes keep the sums of their columns on the
// way; the next rows come while it works on these.
KERNEL(gradient_sums) {
    __shared__ double totals[2][THREADS];
    __shared__ A sums[2][THREADS * N];
    Group g = lanes_of(frame);
    u64 first = g.lane * N, begin = u64(blockIdx.x) * each * g.rows + g.row;
    bool inside = first < frame.length;
    A w[N], slope[N], value[N], centre = A(0), scale = A(0), sum_gy[N], sum_product[N];
    if (inside) read(w, weight.data, first, frame, weight);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (!inside) w[i] = A(0);
        sum_gy[i] = sum_product[i] = A(0);
    }
    auto at = [&](u64 r, const Dims& stride) { return start_at(r, frame, stride); };
    auto fetch = [&](u64 r) {
        if (r < frame.count && inside) {
            read(slope, gy.data + at(r, gy.stride), first, frame, gy);
            centre = A(mean[at(r, mean.stride)]);
            scale = A(rstd[at(r, rstd.stride)]);
            read(value, x.data + at(r, x.stride), first, frame, x, centre);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) slope[i] = value[i] = A(0);
            centre = scale = A(0);
        }
    };
    fetch(begin);
    for (u64 k = 0; k < each; k++) {
        u64 r = begin + k * g.rows;
        A v[N], h[N], both[N], factor = scale;
#pragma unroll
        for (int i = 0; i < N; i++) {
            h[i] = (value[i] - centre) * scale;
            v[i] = slope[i] * w[i];
            both[i] = v[i] * h[i];
            sum_gy[i] += slope[i];
            sum_product[i] = fused(slope[i], h[i], sum_product[i]);
        }
        if (k + 1 < each) fetch(r + g.rows);
        double total = double(unit_all<Sum>(v)), total_product = double(unit_all<Sum>(both));
        group_both<Sum>(total, total_product, g, totals);
        A sum = A(total * share), product = A(total_product * share);
        if (r >= frame.count || !inside) continue;
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = factor * (v[i] - sum - h[i] * product);
        write(v, gx.data + at(r, gx.stride), first, frame, gx);
    }
    u32 columns = g.lanes * N, own = g.row * columns + g.lane * N;
#pragma unroll
    for (int i = 0; i < N; i++) {
        sums[0][own + i] = sum_gy[i];
        sums[1][own + i] = sum_product[i];
    }
    __syncthreads();
    for (u32 column = threadIdx.x; column < frame.length; column += THREADS) {
        double a = 0.0, b = 0.0;
        for (u32 row = 0; row < g.rows; row++) {
            a += double(sums[0][row * columns + column]);
            b += double(sums[1][row * columns + column]);
        }
        reinterpret_cast<double2*>(partial)[blockIdx.x * frame.length + column] = make_double2(a, b);
    }
}

KERNEL(column_sums) {
    Columns c = columns_of(width, frame.length);
    u64 rows = frame.count;
    Matrix of_gy = matrix_of(frame, gy), of_x = matrix_of(frame, x);
    Matrix of_mean = {rows, frame.rank, frame.shape, mean.stride, 0}, of_rstd = {rows, frame.rank, frame.shape, rstd.stride, 0};
    chunk_sums(c, rows, each, partial, [&](u64 r) {
        A g = A(widen(gy.data[place(of_gy, r, c.column)]));
        A h = (A(widen(x.data[place(of_x, r, c.column)])) - A(mean[place(of_mean, r, 0)])) * A(rstd[place(of_rstd, r, 0)]);
        Pair p = {double(g), double(g * h)};
        return p;
    });
}
