// Rows of elements, shared between the threads of a block. A row belongs to `lanes` threads, a power of two, and a block
// has 256 / lanes rows side by side. Elements go by in units, unit u to lane u % lanes. A unit is joined in the accumulation
// type A, units in double, lanes pairwise: the order depends on sizes alone, not on where elements lie.
// Which threads are a row's lanes does not matter to the result: neighbours where elements of a row are neighbours in
// memory, threads apart where elements of neighbouring rows are. (With `units.cu`.)

constexpr u32 THREADS = 256;

struct Group {
    u32 lanes, rows;   // of the block
    u32 lane, row;     // of this thread
    bool neighbours;   // whether the lanes of a row are
};
DEVICE Group group_of(u32 lanes, u32 across) {
    u32 rows = THREADS / lanes, t = threadIdx.x;
    Group g = {lanes, rows, across ? t / rows : t % lanes, across ? t % rows : t / lanes, !across};
    return g;
}

// Joins the lanes of each row; every lane gets the result. All threads of the block call it together.
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
