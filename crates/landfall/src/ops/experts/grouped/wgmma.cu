// A tile of a product of 16-bit floats by the tensor cores of Hopper: 128 x 256 elements, summed in f32. One warpgroup copies
// slabs of both factors into a ring of STAGES; two others multiply them, 64 x 256 each, straight from shared memory.
// A_ALONG and B_ALONG say whether a factor's inner axis is the contiguous one. (With `hopper.cu`.)
constexpr u32 TILE_ROWS = 128, TILE_COLUMNS = 256, LEFT = TILE_ROWS * LINE, STAGE = LEFT + TILE_COLUMNS * LINE;

// One factor: the tile's indices of its outer axis, of which `outers` are inside, and the axis that is summed over.
struct Factor {
    const T* from;
    u64 outer, inner, outers;
};

// This thread's chunks of a slab: 16 bytes each to shared memory while other work goes on, zeros where they are not inside.
template <bool ALONG, u32 OUTERS> DEVICE void fetch(u32 to, const Factor& f, u64 inner, u64 end) {
    u32 thread = threadIdx.x % GROUP;
#pragma unroll
    for (u32 i = 0; i < OUTERS * SLAB / CHUNK / GROUP; i++) {
        u32 t = thread + i * GROUP, chunk = t % 8, line = t / 8;
        // Lines of one panel are inner indices.
        u64 o = ALONG ? line : line / SLAB * 64 + chunk * CHUNK, p = inner + (ALONG ? chunk * CHUNK : line % SLAB);
        bool inside = o < f.outers && p < end;
        const T* from = inside ? f.from + o * f.outer + p * f.inner : f.from;
        copy_16(to + line * LINE + (chunk ^ line % 8) * 16, from, inside);
    }
}

struct Tile {
    float sum[128];  // of fragments of 8 columns: two rows, eight apart, of two columns each

    DEVICE static u32 group() { return threadIdx.x / GROUP; }

    DEVICE void multiply(const Factor& a, const Factor& b, u64 begin, u64 end) {
        __shared__ u64 filled[STAGES], emptied[STAGES];
        u32 slabs = shared_base();
        if (threadIdx.x == 0) {
            for (u32 s = 0; s < STAGES; s++) {
                barrier_init(shared_address(filled + s), GROUP);
                barrier_init(shared_address(emptied + s), 2 * GROUP);
            }
        }
        __syncthreads();
        u64 count = (end - begin + SLAB - 1) / SLAB;
        if (group() == 0) {
            for (u64 slab = 0; slab < count; slab++) {
                u32 s = slab % STAGES, at = slabs + s * STAGE;
                if (slab >= STAGES) barrier_wait(shared_address(emptied + s), (slab / STAGES - 1) % 2);
                fetch<A_ALONG, TILE_ROWS>(at, a, begin + slab * SLAB, end);
                fetch<B_ALONG, TILE_COLUMNS>(at + LEFT, b, begin + slab * SLAB, end);
                barrier_arrive_copied(shared_address(filled + s));
            }
            return;
        }
#pragma unroll
        for (u32 v = 0; v < 128; v++) sum[v] = 0.0f;
        // 64 rows are half of the lines of the left factor, or one of its two panels: 8,192 bytes either way.
        u32 left = (group() - 1) * 64 * LINE;
        for (u64 slab = 0; slab < count; slab++) {
            u32 s = slab % STAGES, at = slabs + s * STAGE;
            barrier_wait(shared_address(filled + s), slab / STAGES % 2);
            fence_copies();
            multiply_begin();
            u64 first = descriptor(at + left), second = descriptor(at + LEFT);
#pragma unroll
            for (u32 p = 0; p < SLAB / 16; p++)
                multiply_add<A_ALONG, B_ALONG>(sum, first + p * INNER_16<A_ALONG> / 16, second + p * INNER_16<B_ALONG> / 16, T());
            multiply_commit();
            // All but the last have been done: their slab may be overwritten.
            multiply_wait<1>();
            if (slab > 0) barrier_arrive(shared_address(emptied + (slab - 1) % STAGES));
        }
        multiply_wait<0>();
    }

    // Gives each pair of sums with its row and first column.
    template <class F> DEVICE void each(F take) const {
        if (group() == 0) return;
        u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        u32 row = (group() - 1) * 64 + warp * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
        for (u32 j = 0; j < 32; j++) {
            take(row, column + 8 * j, sum[4 * j], sum[4 * j + 1]);
            take(row + 8, column + 8 * j, sum[4 * j + 2], sum[4 * j + 3]);
        }
    }
};
