// A tile of a product, of operands of any dtype that lie in any way: 64 x 64 elements, a thread 4 x 4 of them, in pairs of
// neighbouring columns. Sums run over the inner axis in order, in chains of CHAIN that are added up in turn: long chains
// of f32 lose digits.
constexpr u32 TILE = 64, TILE_ROWS = TILE, TILE_COLUMNS = TILE, SLAB = 16, EACH = 4, CHAIN = 256;
typedef typename Accumulate<T>::type A;

// One factor: TILE indices of its outer axis, of which `outers` are inside, and the axis that is summed over.
struct Factor {
    const T* from;
    u64 outer, inner, outers;
};

struct Tile {
    A sum[EACH][EACH];

    // Neighbouring threads walk the axis whose elements are neighbours.
    DEVICE static void load(A (*to)[TILE + 1], const Factor& f, u64 inner, u64 end) {
        bool along = f.inner == 1;
#pragma unroll
        for (u32 i = 0; i < TILE * SLAB / THREADS; i++) {
            u32 t = threadIdx.x + i * THREADS, o = along ? t / SLAB : t % TILE, p = along ? t % SLAB : t / TILE;
            bool inside = o < f.outers && inner + p < end;
            to[p][o] = inside ? A(widen(f.from[o * f.outer + (inner + p) * f.inner])) : A(0);
        }
    }

    DEVICE void multiply(const Factor& a, const Factor& b, u64 begin, u64 end) {
        __shared__ A left[SLAB][TILE + 1], right[SLAB][TILE + 1];
        u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
        A chain[EACH][EACH] = {};
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
#pragma unroll
            for (u32 j = 0; j < EACH; j++) sum[i][j] = 0;
        for (u64 inner = begin; inner < end; inner += SLAB) {
            load(left, a, inner, end);
            load(right, b, inner, end);
            __syncthreads();
#pragma unroll
            for (u32 p = 0; p < SLAB; p++) {
                A l[EACH], r[EACH];
#pragma unroll
                for (u32 i = 0; i < EACH; i++) l[i] = left[p][y + 16 * i];
#pragma unroll
                for (u32 j = 0; j < EACH; j++) r[j] = right[p][2 * x + 32 * (j / 2) + j % 2];
#pragma unroll
                for (u32 i = 0; i < EACH; i++)
#pragma unroll
                    for (u32 j = 0; j < EACH; j++) chain[i][j] = fused(l[i], r[j], chain[i][j]);
            }
            __syncthreads();
            if (inner + SLAB < end && (inner + SLAB - begin) % CHAIN != 0) continue;
#pragma unroll
            for (u32 i = 0; i < EACH; i++)
#pragma unroll
                for (u32 j = 0; j < EACH; j++) {
                    sum[i][j] += chain[i][j];
                    chain[i][j] = 0;
                }
        }
    }

    // Gives each pair of sums with its row and first column.
    template <class F> DEVICE void each(F take) const {
        u32 x = threadIdx.x % 16, y = threadIdx.x / 16;
#pragma unroll
        for (u32 i = 0; i < EACH; i++)
#pragma unroll
            for (u32 j = 0; j < EACH; j += 2) take(y + 16 * i, 2 * x + 16 * j, sum[i][j], sum[i][j + 1]);
    }
};
