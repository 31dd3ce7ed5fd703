// Rows of elements, shared between the threads of a block. A row belongs to `lanes` threads, a power of two, and a
// block has 256 / lanes rows. Unit u of a row goes to lane u % lanes. A unit is reduced in the accumulation type A,
// units in double, lanes pairwise: the order depends on sizes only, not on layouts. The mapping of lanes to threads
// does not affect the result: adjacent threads if elements of a row are adjacent in memory, strided threads if elements
// of adjacent rows are. (With `units.cu`.)

constexpr u32 THREADS = 256;

struct Group {
    u32 lanes, rows;   // of the block
    u32 lane, row;     // of this thread
    bool neighbours;   // whether the lanes of a row are adjacent threads
};
// Lanes are a power of two: no division.
DEVICE Group group_of(u32 lanes, u32 across) {
    u32 shift = 31 - __clz(int(lanes)), of_row = 31 - __clz(int(THREADS)) - shift, rows = 1u << of_row, t = threadIdx.x;
    Group g = {lanes, rows, across ? t >> of_row : t & (lanes - 1), across ? t & (rows - 1) : t >> shift, !across};
    return g;
}

// Reduces the threads whose numbers differ from `t` in multiples of a warp, up to `apart`. Every thread of them gets the
// same result: the operations of F commute.
template <class F, class V> DEVICE V of_warps(const V (&shared)[THREADS], u32 t, u32 apart) {
    if (apart == 32) return F::of(shared[t], shared[t ^ 32]);
    if (apart == 64) {
        return F::of(F::of(shared[t], shared[t ^ 64]), F::of(shared[t ^ 32], shared[t ^ 96]));
    }
    V near = F::of(F::of(shared[t], shared[t ^ 128]), F::of(shared[t ^ 64], shared[t ^ 192]));
    V far = F::of(F::of(shared[t ^ 32], shared[t ^ 160]), F::of(shared[t ^ 96], shared[t ^ 224]));
    return F::of(near, far);
}

// Reduces the lanes of each row; every lane gets the result. All threads of the block call it together. The order is the
// same in each way: lanes half of a row apart first, neighbours last.
template <class F, class V> DEVICE V group_all(V x, const Group& g, V (&shared)[THREADS]) {
    if (g.neighbours) {
        if (g.lanes > 32) {
            __syncthreads();
            shared[threadIdx.x] = x;
            __syncthreads();
            x = of_warps<F>(shared, threadIdx.x, g.lanes / 2);
        }
        for (u32 apart = min(g.lanes / 2, 16u); apart > 0; apart /= 2) x = F::of(x, __shfl_xor_sync(0xFFFFFFFFu, x, apart));
        return x;
    }
    __syncthreads();
    shared[g.lane * g.rows + g.row] = x;
    for (u32 half = THREADS / 2; half >= g.rows; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] = F::of(shared[threadIdx.x], shared[threadIdx.x + half]);
    }
    __syncthreads();
    return shared[g.row];
}

// Reduces two values at once, each in the order of `group_all`: the latency of both is that of one.
template <class F, class V> DEVICE void group_both(V& x, V& y, const Group& g, V (&shared)[2][THREADS]) {
    if (!g.neighbours) {
        x = group_all<F>(x, g, shared[0]);
        y = group_all<F>(y, g, shared[1]);
        return;
    }
    if (g.lanes > 32) {
        __syncthreads();
        shared[0][threadIdx.x] = x;
        shared[1][threadIdx.x] = y;
        __syncthreads();
        x = of_warps<F>(shared[0], threadIdx.x, g.lanes / 2);
        y = of_warps<F>(shared[1], threadIdx.x, g.lanes / 2);
    }
    for (u32 apart = min(g.lanes / 2, 16u); apart > 0; apart /= 2) {
        V other = __shfl_xor_sync(0xFFFFFFFFu, x, apart);
        y = F::of(y, __shfl_xor_sync(0xFFFFFFFFu, y, apart));
        x = F::of(x, other);
    }
}
