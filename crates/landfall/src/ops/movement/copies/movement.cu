// Kernels that move elements of any type T without looking at them.

// An element here is VECTOR elements side by side, which one access moves; shapes and strides count those.
DEVICE void move(const T* x, T* out, u64 n, u32 rank, const Dims& shape, const Dims& stride_x, const Dims& stride_out) {
    u64 index = thread_index();
    if (index >= n) return;
    typedef Vector<T, VECTOR> V;
    bool small = n <= 0xFFFFFFFFull;
    u64 from = small ? offset_of<u32>(u32(index), rank, shape, stride_x) : offset_of<u64>(index, rank, shape, stride_x);
    u64 to = small ? offset_of<u32>(u32(index), rank, shape, stride_out) : offset_of<u64>(index, rank, shape, stride_out);
    V::load(x + from * VECTOR).store(out + to * VECTOR);
}

KERNEL(copy) { move(x, out, n, rank, shape, stride_x, stride_out); }

// Up to four copies side by side.
KERNEL(copies) {
    switch (blockIdx.y) {
#define COPY(i) return move(x##i, out##i, n##i, rank##i, shape##i, stride_x##i, stride_out##i)
        case 0: COPY(0);
        case 1: COPY(1);
        case 2: COPY(2);
        default: COPY(3);
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
    out[offset_of<u64>(index, rank, shape, stride_out)] = T();
}

// Zeros in up to 32 gaps of fewer than 16 elements: each word holds where a gap starts, times 16, plus its length.
KERNEL(clear_gaps) {
    u32 gap = threadIdx.x / 16, at = threadIdx.x % 16;
    const Dims& words = gap < 8 ? gaps0 : gap < 16 ? gaps1 : gap < 24 ? gaps2 : gaps3;
    u64 word = words.v[gap % 8];
    if (at < word % 16) out[word / 16 + at] = T();
}
