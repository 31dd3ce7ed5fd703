// A tile of a product of 16-bit floats by tensor cores: 128 x 128 elements, a warp 64 x 32 of them in fragments of 16 x 8,
// summed in f32. Slabs of both factors come by asynchronous copies of 16 bytes, STAGES - 1 of them ahead of the one that is
// multiplied. A_ALONG and B_ALONG say whether a factor's inner axis is the contiguous one; its slab lies in shared memory as
// in device memory, contiguous axis innermost, and fragments are turned as they are read. 16-byte chunks of a row are
// exchanged by the row's number, so that the eight rows that a fragment's part is read from lie in different banks.
constexpr u32 TILE = 128, TILE_ROWS = TILE, TILE_COLUMNS = TILE, SLAB = 32, STAGES = 3, CHUNK = 8;
typedef float A;

// One factor: TILE indices of its outer axis, of which `outers` are inside, and the axis that is summed over.
struct Factor {
    const T* from;
    u64 outer, inner, outers;
};

// Where the chunk lies in a slab: of `row`, whose chunks are along the contiguous axis.
template <bool ALONG> DEVICE u32 chunk_at(u32 row, u32 chunk) {
    return ALONG ? row * SLAB + (chunk ^ (row / 2 % 4)) * CHUNK : row * TILE + (chunk ^ (row % 8)) * CHUNK;
}

template <bool ALONG> DEVICE void fetch(T* to, const Factor& f, u64 inner, u64 end) {
#pragma unroll
    for (u32 i = 0; i < TILE * SLAB / CHUNK / THREADS; i++) {
        u32 t = threadIdx.x + i * THREADS, chunks = (ALONG ? SLAB : TILE) / CHUNK, row = t / chunks, chunk = t % chunks;
        u64 o = ALONG ? row : chunk * CHUNK, p = inner + (ALONG ? chunk * CHUNK : row);
        bool inside = o < f.outers && p < end;
        copy_ahead(to + chunk_at<ALONG>(row, chunk), inside ? f.from + o * f.outer + p * f.inner : f.from, inside);
    }
}

// Four 8 x 8 parts of a slab: this lane's part starts at outer index `o` and inner index `p`.
template <bool ALONG> DEVICE void fragment(u32 (&x)[4], const T* slab, u32 o, u32 p) {
    u32 line = threadIdx.x % 8;
    const T* row = slab + (ALONG ? chunk_at<ALONG>(o + line, p / CHUNK) : chunk_at<ALONG>(p + line, o / CHUNK));
    if (ALONG) load_matrices(x, row);
    else load_transposed(x, row);
}

struct Tile {
    float sum[4][4][4];  // of 16 x 8 fragments by row and column

    DEVICE void multiply(const Factor& a, const Factor& b, u64 begin, u64 end) {
        __shared__ __align__(16) T slabs[STAGES][2][TILE * SLAB];
        u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 4 * 64, column = warp % 4 * 32;
        u32 part = lane / 8;
        u64 count = (end - begin + SLAB - 1) / SLAB;
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 j = 0; j < 4; j++)
#pragma unroll
                for (u32 v = 0; v < 4; v++) sum[i][j][v] = 0.0f;
        auto ahead = [&](u64 slab) {
            if (slab < count) {
                fetch<A_ALONG>(slabs[slab % STAGES][0], a, begin + slab * SLAB, end);
                fetch<B_ALONG>(slabs[slab % STAGES][1], b, begin + slab * SLAB, end);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        };
#pragma unroll
        for (u32 s = 0; s < STAGES - 1; s++) ahead(s);
        for (u64 slab = 0; slab < count; slab++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            // This slab is there for all threads, and all have done with the one that is overwritten next.
            __syncthreads();
            ahead(slab + STAGES - 1);
            const T* left = slabs[slab % STAGES][0];
            const T* right = slabs[slab % STAGES][1];
#pragma unroll
            for (u32 p = 0; p < SLAB; p += 16) {
                u32 l[4][4], r[2][4];
#pragma unroll
                for (u32 i = 0; i < 4; i++) fragment<A_ALONG>(l[i], left, row + 16 * i + part % 2 * 8, p + part / 2 * 8);
#pragma unroll
                for (u32 j = 0; j < 2; j++) fragment<B_ALONG>(r[j], right, column + 16 * j + part / 2 * 8, p + part % 2 * 8);
#pragma unroll
                for (u32 i = 0; i < 4; i++)
#pragma unroll
                    for (u32 j = 0; j < 4; j++)
                        multiply_add(sum[i][j], l[i], r[j / 2][j % 2 * 2], r[j / 2][j % 2 * 2 + 1], T());
            }
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    }

    // Gives each pair of sums with its row and first column.
    template <class F> DEVICE void each(F take) const {
        u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        u32 row = warp / 4 * 64 + lane / 4, column = warp % 4 * 32 + lane % 4 * 2;
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                take(row + 16 * i, column + 8 * j, sum[i][j][0], sum[i][j][1]);
                take(row + 16 * i + 8, column + 8 * j, sum[i][j][2], sum[i][j][3]);
            }
    }
};
