// Rows of a token, or of a chunk, are moved in units of V elements by `lanes` threads: a power of two up to a warp, with
// several teams in a block, or a whole block of full warps. Rows are numbered in 64 bits. (With `cells.cu`.)

typedef Vector<T, V> Unit;
typedef typename Accumulate<T>::type A;

struct Team {
    u32 lanes, lane;
    u64 index;  // of the token or row
};
DEVICE Team team_of(u32 lanes, u64 block) {
    Team team = {lanes, threadIdx.x % lanes, block * (blockDim.x / lanes) + threadIdx.x / lanes};
    return team;
}

// Unit c of a row whose elements lie `step` apart.
DEVICE Unit fetch(const T* row, u64 c, u64 step) {
    if (WHOLE) return Unit::load(row + c * V);
    Unit unit;
#pragma unroll
    for (u32 v = 0; v < V; v++) unit.v[v] = row[(c * V + v) * step];
    return unit;
}
DEVICE void put(const Unit& unit, T* row, u64 c, u64 step) {
    if (WHOLE) return unit.store(row + c * V);
#pragma unroll
    for (u32 v = 0; v < V; v++) row[(c * V + v) * step] = unit.v[v];
}

// As `put`, for rows that are larger together than an L2: they may leave it first. A permutation of 8 rows a token is 3 %
// faster for it.
DEVICE void put_last(const Unit& unit, T* row, u64 c, u64 step) {
    if (WHOLE) return __stcs(reinterpret_cast<typename Unit::W*>(row + c * V), unit.word);
    put(unit, row, c, step);
}

DEVICE Unit nothing() { return Unit::splat(narrow<T>(A(0))); }

// Zeros in row r, which has a thread, where no token has it; and in those of the warp's other threads, which lie side by side.
DEVICE void clear_rows(const I* source, u64 stride_source, T* y, u64 stride_y, u64 step_y, u64 r, u64 rows, u64 units) {
    u32 lane = threadIdx.x % 32, open = __ballot_sync(0xFFFFFFFFu, r < rows && source[r * stride_source] < 0);
    while (open != 0) {
        T* to = y + (r - lane + __ffs(open) - 1) * stride_y;
        open &= open - 1;
        for (u64 c = lane; c < units; c += 32) put(nothing(), to, c, step_y);
    }
}
