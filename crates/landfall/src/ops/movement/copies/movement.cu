// Kernels that move elements of any type T without looking at them.

// A unit is VECTOR neighbouring elements, which one access moves.
DEVICE void move(const Transfer<T>& copy) {
    u64 index = thread_index(), n = copy.units;
    if (index >= n) return;
    typedef Vector<T, VECTOR> V;
    bool small = n <= 0xFFFFFFFFull;
    auto place = [&](const Dims& stride) {
        return small ? offset_of<u32>(u32(index), copy.rank, copy.shape, stride)
                     : offset_of<u64>(index, copy.rank, copy.shape, stride);
    };
    u64 from = place(copy.stride_x), to = place(copy.stride_out);
    V::load(copy.x + from * VECTOR).store(copy.out + to * VECTOR);
}

KERNEL(copy) { move(only); }

// Up to four copies in one launch.
KERNEL(copies) {
    switch (blockIdx.y) {
        case 0: return move(first);
        case 1: return move(second);
        case 2: return move(third);
        default: return move(fourth);
    }
}

// The last two axes lie exchanged in x: `cols` elements of the last axis are `stride_col` apart there, and those of the
// axis before are neighbours; in out it is the other way round, with rows `stride_row` apart. A block moves a tile of
// EDGE by EDGE through shared memory, so that both sides move whole lines. Elements of 16 bits move in PAIRS where both sides
// are aligned for it. The extra columns keep banks apart.
DEVICE u32 joined(u16 low, u16 high) { return u32(low) | u32(high) << 16; }
// Other elements are not moved in pairs.
template <class W> DEVICE u32 joined(const W&, const W&) { return 0; }

KERNEL(exchange) {
    typedef Word<sizeof(T)>::type W;
    typedef Word<sizeof(T) * (PAIRS ? 2 : 1)>::type Both;
    constexpr u32 WIDE = PAIRS ? 2 : 1, LINES = 8, STEPS = EDGE / LINES, PARTS = EDGE / 32 / WIDE;
    __shared__ __align__(8) W tile[EDGE][EDGE + WIDE];
    u32 tiles_col = u32((cols + EDGE - 1) / EDGE), tiles_row = u32((rows + EDGE - 1) / EDGE);
    u64 block = blockIdx.x;
    u64 col = block % tiles_col * EDGE, row = block / tiles_col % tiles_row * EDGE;
    u64 outer = block / tiles_col / tiles_row;
    const W* from = reinterpret_cast<const W*>(x) + offset_of<u64>(outer, rank, shape, stride_x);
    W* to = reinterpret_cast<W*>(out) + offset_of<u64>(outer, rank, shape, stride_out);
    u32 lane = threadIdx.x % 32 * WIDE, line = threadIdx.x / 32;
    Both held[STEPS][PARTS];
    // All of a thread's loads are on their way before the first one is needed.
#pragma unroll
    for (u32 s = 0; s < STEPS; s++) {
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) {
            u32 i = line + s * LINES, k = lane + p * 32 * WIDE;
            if (col + i < cols && row + k < rows) {
                held[s][p] = *reinterpret_cast<const Both*>(from + (col + i) * stride_col + row + k);
            }
        }
    }
#pragma unroll
    for (u32 s = 0; s < STEPS; s++) {
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) {
            *reinterpret_cast<Both*>(&tile[line + s * LINES][lane + p * 32 * WIDE]) = held[s][p];
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 s = 0; s < STEPS; s++) {
#pragma unroll
        for (u32 p = 0; p < PARTS; p++) {
            u32 i = line + s * LINES, k = lane + p * 32 * WIDE;
            if (row + i >= rows || col + k >= cols) continue;
            W* at = to + (row + i) * stride_row + col + k;
            if (PAIRS) *reinterpret_cast<u32*>(at) = joined(tile[k][i], tile[k + WIDE - 1][i]);
            else *at = tile[k][i];
        }
    }
}

// Zeros, each byte.
KERNEL(clear) {
    u64 index = thread_index();
    if (index >= n) return;
    out[offset_of<u64>(index, rank, shape, out.stride)] = T();
}

// Zeros in up to 32 gaps of fewer than 16 elements: each word holds where a gap starts, times 16, plus its length.
KERNEL(clear_gaps) {
    u32 gap = threadIdx.x / 16, at = threadIdx.x % 16;
    const Dims& words = gap < 8 ? gaps0 : gap < 16 ? gaps1 : gap < 24 ? gaps2 : gaps3;
    u64 word = words.v[gap % 8];
    if (at < word % 16) out[word / 16 + at] = T();
}
