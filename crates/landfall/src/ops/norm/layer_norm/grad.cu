// The gradient of layer normalisation: one launch for the rows and one that adds up sums over them. Those of rows of at most
// a unit a lane are begun with the rows; those of longer ones take a launch of their own.

// A product that no sum takes over: a sum of one such term is then the term itself, and their difference zero.
DEVICE float rounded_product(float a, float b) { return __fmul_rn(a, b); }
DEVICE double rounded_product(double a, double b) { return __dmul_rn(a, b); }

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
    group_both<Sum>(sum, product, g, totals);
    sum /= double(length);
    product /= double(length);
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

// Rows of at most a unit a lane. A block walks `each` groups of them, and its lanes keep the sums of their columns on the
// way; the next rows come while it works on these.
KERNEL(gradient_sums) {
    __shared__ double totals[THREADS];
    __shared__ A sums[2][THREADS * N];
    Group g = lanes_of(lanes, across);
    u64 first = g.lane * N, begin = u64(blockIdx.x) * each * g.rows + g.row;
    bool inside = first < length;
    A w[N], slope[N], value[N], centre = A(0), scale = A(0), sum_gy[N], sum_product[N];
    if (inside) read(w, weight, first, length, A(0), gapless_weight, shape_row, stride_weight);
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (!inside) w[i] = A(0);
        sum_gy[i] = sum_product[i] = A(0);
    }
    auto at = [&](u64 r, const Dims& stride) { return start_at(r, rows, rank, shape, stride); };
    auto fetch = [&](u64 r) {
        if (r < rows && inside) {
            read(slope, gy + at(r, stride_gy), first, length, A(0), gapless_gy, shape_row, stride_row_gy);
            centre = A(mean[at(r, stride_mean)]);
            scale = A(rstd[at(r, stride_rstd)]);
            read(value, x + at(r, stride_x), first, length, centre, gapless_x, shape_row, stride_row_x);
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
            v[i] = rounded_product(slope[i], w[i]);
            both[i] = v[i] * h[i];
            sum_gy[i] += slope[i];
            sum_product[i] += slope[i] * h[i];
        }
        if (k + 1 < each) fetch(r + g.rows);
        double total = double(unit_all<Sum>(v)), total_product = double(unit_all<Sum>(both));
        group_both<Sum>(total, total_product, g, totals);
        A sum = A(total * share), product = A(total_product * share);
        if (r >= rows || !inside) continue;
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = factor * (v[i] - sum - h[i] * product);
        write(v, gx + at(r, stride_gx), first, length, gapless_gx, shape_row, stride_row_gx);
    }
    u32 columns = g.lanes * N, own = g.row * columns + g.lane * N;
#pragma unroll
    for (int i = 0; i < N; i++) {
        sums[0][own + i] = sum_gy[i];
        sums[1][own + i] = sum_product[i];
    }
    __syncthreads();
    for (u32 column = threadIdx.x; column < length; column += THREADS) {
        double a = 0.0, b = 0.0;
        for (u32 row = 0; row < g.rows; row++) {
            a += double(sums[0][row * columns + column]);
            b += double(sums[1][row * columns + column]);
        }
        reinterpret_cast<double2*>(partial)[blockIdx.x * length + column] = make_double2(a, b);
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
