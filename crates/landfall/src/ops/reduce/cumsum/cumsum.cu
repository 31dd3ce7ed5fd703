// LANES threads, a warp or the block, have a row. A thread adds EACH elements, then the sums of the threads below it and of all
// steps before. Totals run in W: double, or i64 for integers, which wraps.

constexpr u32 EACH = 4, WARPS = u32(LANES) / 32;

// The sum of `x` over the lanes below this one, and over all.
struct Scanned { W below, all; };
DEVICE Scanned scanned(W x, W* sums) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % WARPS;
    W sum = x;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
        W lower = __shfl_up_sync(0xFFFFFFFFu, sum, d);
        if (lane >= d) sum = sum_of(sum, lower);
    }
    W before = __shfl_up_sync(0xFFFFFFFFu, sum, 1), all = __shfl_sync(0xFFFFFFFFu, sum, 31);
    Scanned result = {lane == 0 ? W(0) : before, all};
    if (WARPS == 1) return result;
    if (lane == 0) sums[warp] = all;
    __syncthreads();
    W below = W(0);
    result.all = W(0);
#pragma unroll
    for (u32 w = 0; w < WARPS; w++) {
        if (w == warp) below = result.all;
        result.all = sum_of(result.all, sums[w]);
    }
    result.below = sum_of(below, result.below);
    __syncthreads();
    return result;
}

KERNEL(cumsum) {
    __shared__ W sums[WARPS];
    u32 row = u32(thread_index() / LANES), lane = threadIdx.x % u32(LANES);
    // A block that has one row has it whole.
    if (row >= rows) return;
    const T* from = x + offset_of<u32>(row, rank, shape, x_stride);
    R* to = out + offset_of<u32>(row, rank, shape, out_stride);
    W carried = W(0);
    for (u64 first = 0; first < n; first += EACH * u32(LANES)) {
        W v[EACH], own = W(0);
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            u64 k = first + lane * EACH + i;
            if (k < n) own = sum_of(own, W(widen(from[(reverse ? n - 1 - k : k) * step])));
            v[i] = own;
        }
        Scanned s = scanned(own, sums);
        W below = sum_of(carried, s.below);
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            u64 k = first + lane * EACH + i;
            if (k < n) to[(reverse ? n - 1 - k : k) * step_out] = narrow<R>(sum_of(below, v[i]));
        }
        carried = sum_of(carried, s.all);
    }
}
