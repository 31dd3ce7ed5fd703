// The gradient of layer normalisation of rows that are held: `grad.cu` has the ways for all others, with the same results.

// As many rows at once as a block of THREADS has with a unit a lane, on 1 / HELD of the threads.
constexpr u32 ROWS = THREADS / u32(SINGLE_PASS);

// A block walks `each` groups of rows, and its lanes keep the sums of their columns on the way; the next rows come while it
// works on these.
KERNEL(gradient_sums, __launch_bounds__(THREADS, HELD * sizeof(T) > 4 ? 1 : 2)) {
    __shared__ A sums[ROWS][u32(SINGLE_PASS) * N];
    Units u = {threadIdx.x % ROW_LANES, u32(frame.length)};
    u64 own = threadIdx.x / ROW_LANES, begin = u64(blockIdx.x) * each * ROWS + own;
    Row<W> w;
    Row<T> next_slope, next_value;
    A next_centre = A(0), next_scale = A(0), sum_gy[HELD][N], sum_product[HELD][N];
    auto fetch = [&](u64 r) {
        if (r >= frame.count) return;
        next_slope.load(gy.data + r * gy.stride.v[0], u);
        next_value.load(x.data + r * x.stride.v[0], u);
        next_centre = A(mean[r * mean.stride.v[0]]);
        next_scale = A(rstd[r * rstd.stride.v[0]]);
    };
    fetch(begin);
    w.load(weight.data, u);
#pragma unroll
    for (u32 k = 0; k < HELD; k++) {
#pragma unroll
        for (int i = 0; i < N; i++) sum_gy[k][i] = sum_product[k][i] = A(0);
    }
    for (u64 n = 0; n < each; n++) {
        u64 r = begin + n * ROWS;
        bool valid = r < frame.count;
        Row<T> slope = next_slope, value = next_value;
        A centre = next_centre, scale = valid ? next_scale : A(0);
        if (n + 1 < each) fetch(r + ROWS);
        A v[HELD][N], h[HELD][N];
        double total[HELD], total_product[HELD];
#pragma unroll
        for (u32 k = 0; k < HELD; k++) {
            A both[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                bool here = valid && u.inside(k);
                A g = here ? A(widen(slope.unit[k].v[i])) : A(0);
                h[k][i] = here ? (A(widen(value.unit[k].v[i])) - centre) * scale : A(0);
                v[k][i] = here ? g * A(widen(w.unit[k].v[i])) : A(0);
                both[i] = v[k][i] * h[k][i];
                sum_gy[k][i] += g;
                sum_product[k][i] = fused(g, h[k][i], sum_product[k][i]);
            }
            total[k] = double(unit_all<Sum>(v[k]));
            total_product[k] = double(unit_all<Sum>(both));
        }
        A sum = A(row_all<Sum>(total) * share), product = A(row_all<Sum>(total_product) * share);
        if (!valid) continue;
        T* row_gx = gx.data + r * gx.stride.v[0];
#pragma unroll
        for (u32 k = 0; k < HELD; k++) {
            if (!u.inside(k)) continue;
#pragma unroll
            for (int i = 0; i < N; i++) v[k][i] = scale * (v[k][i] - sum - h[k][i] * product);
            store_whole(v[k], row_gx + u.first(k));
        }
    }
    for (u32 which = 0; which < 2; which++) {
        __syncthreads();
#pragma unroll
        for (u32 k = 0; k < HELD; k++) {
#pragma unroll
            for (int i = 0; i < N; i++) sums[own][u.first(k) + i] = which == 0 ? sum_gy[k][i] : sum_product[k][i];
        }
        __syncthreads();
        for (u32 column = threadIdx.x; column < frame.length; column += THREADS / HELD) {
            double a = 0.0;
            for (u32 row = 0; row < ROWS; row++) a += double(sums[row][column]);
            partial[2 * (blockIdx.x * frame.length + column) + which] = a;
        }
    }
}
