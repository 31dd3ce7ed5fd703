// Sums over the threads of a block of THREADS.
constexpr u32 THREADS = 256;

// The sum of `x` over the threads below this one, and over all.
struct Scanned { i64 below, all; };
DEVICE Scanned scanned(i64 x, i64* sums) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    i64 sum = x;
#pragma unroll
    for (u32 d = 1; d < 32; d *= 2) {
        i64 lower = __shfl_up_sync(0xFFFFFFFFu, sum, d);
        if (lane >= d) sum += lower;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    Scanned result = {sum - x, 0};
#pragma unroll
    for (u32 w = 0; w < THREADS / 32; w++) {
        if (w < warp) result.below += sums[w];
        result.all += sums[w];
    }
    __syncthreads();
    return result;
}
