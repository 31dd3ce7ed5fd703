// What depends on where a thread is in its launch: compiled anew for each kernel that is a part of a segment.

// This thread's index in a one-dimensional grid.
DEVICE u64 thread_index() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }

// Sums and extrema over a block, in a fixed order. Every thread gets the result. `shared` holds one value for each warp; the
// block is a multiple of 32 threads.
template <class F, class A> DEVICE A block_all(A x, A identity, A* shared) {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = warp_all<F>(x);
    if (warps == 1) return x;
    __syncthreads();
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    return warp_all<F>(lane < warps ? shared[lane] : identity);
}
