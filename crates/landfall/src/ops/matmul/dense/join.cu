// Adds up the parts of a product, which lie one after the other, and what is added to it. A thread has VECTOR neighbouring
// elements of the result, WAYS threads far apart share their parts: the order depends on sizes alone.
constexpr u32 THREADS = 256, TEAM = THREADS / u32(WAYS);

KERNEL(join) {
    __shared__ double sums[WAYS > 1 ? VECTOR : 1][WAYS > 1 ? THREADS : 1];
    u32 way = threadIdx.x / TEAM;
    u64 i = (u64(blockIdx.x) * TEAM + threadIdx.x % TEAM) * VECTOR, size = m * n;
    double sum[VECTOR] = {};
    if (i < size) {
#pragma unroll 8
        for (u64 part = way; part < parts; part += WAYS) {
            Several<A, VECTOR> x = Several<A, VECTOR>::load(partial + part * size + i);
#pragma unroll
            for (u32 v = 0; v < VECTOR; v++) sum[v] += double(x.v[v]);
        }
    }
    if (WAYS > 1) {
#pragma unroll
        for (u32 v = 0; v < VECTOR; v++) sums[v][threadIdx.x] = sum[v];
        for (u32 half = THREADS / 2; half >= TEAM; half /= 2) {
            __syncthreads();
            if (threadIdx.x >= half) continue;
#pragma unroll
            for (u32 v = 0; v < VECTOR; v++) sums[v][threadIdx.x] += sums[v][threadIdx.x + half];
        }
        if (way > 0) return;
#pragma unroll
        for (u32 v = 0; v < VECTOR; v++) sum[v] = sums[v][threadIdx.x];
    }
    if (i >= size) return;
    u64 row = i / n, column = i % n;
    Several<R, VECTOR> total;
#pragma unroll
    for (u32 v = 0; v < VECTOR; v++) {
        if (ADDED) sum[v] += double(widen(addend[row * addend_row + (column + v) * addend_column]));
        if (BIASED) sum[v] += double(widen(bias[(column + v) * bias_step]));
        total.v[v] = narrow<R>(sum[v]);
    }
    R* to = out + row * out_row + column * out_column;
    if (VECTOR > 1) total.store(to);
    else *to = total.v[0];
}
