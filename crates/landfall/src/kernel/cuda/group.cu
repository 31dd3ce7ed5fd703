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

// Reduces the lanes of each row; every lane gets the result. All threads of the block call it together.
template <class F, class V> DEVICE V group_all(V x, const Group& g, V (&shared)[THREADS]) {
    if (g.neighbours && g.lanes <= 32) {
        for (u32 apart = g.lanes / 2; apart > 0; apart /= 2) x = F::of(x, __shfl_xor_sync(0xFFFFFFFFu, x, apart));
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
template <class F, class V> DEVICE void group_both(V& x, V& y, const Group& g, V (&shared)[THREADS]) {
    if (g.neighbours && g.lanes <= 32) {
        for (u32 apart = g.lanes / 2; apart > 0; apart /= 2) {
            V other = __shfl_xor_sync(0xFFFFFFFFu, x, apart);
            y = F::of(y, __shfl_xor_sync(0xFFFFFFFFu, y, apart));
            x = F::of(x, other);
        }
        return;
    }
    x = group_all<F>(x, g, shared);
    y = group_all<F>(y, g, shared);
}
