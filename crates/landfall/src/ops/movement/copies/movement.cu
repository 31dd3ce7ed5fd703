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
// 32 by 32 through shared memory, so that both sides move whole lines; the extra column keeps banks apart.
KERNEL(exchange) {
    typedef Word<sizeof(T)>::type W;
    __shared__ W tile[32][33];
    u32 tiles_col = u32((cols + 31) / 32), tiles_row = u32((rows + 31) / 32);
    u64 block = blockIdx.x;
    u64 col = block % tiles_col * 32, row = block / tiles_col % tiles_row * 32;
    u64 outer = block / tiles_col / tiles_row;
    const W* from = reinterpret_cast<const W*>(x) + offset_of<u64>(outer, rank, shape, stride_x);
    W* to = reinterpret_cast<W*>(out) + offset_of<u64>(outer, rank, shape, stride_out);
    u32 lane = threadIdx.x % 32, line = threadIdx.x / 32;
    for (u32 i = line; i < 32; i += 8) {
        if (col + i < cols && row + lane < rows) tile[i][lane] = from[(col + i) * stride_col + row + lane];
    }
    __syncthreads();
    for (u32 i = line; i < 32; i += 8) {
        if (row + i < rows && col + lane < cols) to[(row + i) * stride_row + col + lane] = tile[lane][i];
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
