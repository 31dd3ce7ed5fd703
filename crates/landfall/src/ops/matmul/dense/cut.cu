// Products with a small result and a long inner axis, which is cut into parts: a weight's gradient. A block has one part
// and a tile of ROWS x COLUMNS of the result, which follow the result's sizes. Its threads are groups that share the
// part's inner indices; a thread of a group has 4 x 8 elements. Both factors come by way of shared memory, SLAB inner
// indices at a time. Sums run in the accumulation type, in chains of CHAIN that are added up in turn: long chains of f32
// lose digits. The groups are added pairwise, the parts by `join`: the order depends on sizes alone.
constexpr u32 THREADS = 256, HIGH = 4, HALF = 4, SLAB = sizeof(A) == 8 ? 16 : 32, CHAIN = 256;
constexpr u32 ACROSS = u32(COLUMNS) / (2 * HALF), TEAM = ACROSS * u32(ROWS) / HIGH, TEAMS = THREADS / TEAM;
constexpr u32 EACH = HIGH * 2 * HALF;
// A row of shared memory is longer by four elements: teams read neighbouring rows at once.
constexpr u32 LEFT = u32(ROWS) + 4, RIGHT = u32(COLUMNS) + 4;
constexpr u32 FACTORS = SLAB * (LEFT + RIGHT), SUMS = TEAMS > 1 ? THREADS / 2 * EACH : 0;

// One operand's way to shared memory: SIZE indices of its `outer` axis, SLAB of the one that is summed over.
template <u32 SIZE> struct Walk {
    static constexpr u32 COUNT = SIZE * SLAB / THREADS;
    const T* from;
    u64 outer, outers, outer_step, inner_step;
    bool along;  // whether neighbouring threads walk the inner axis
    A held[COUNT];

    DEVICE void fetch(u64 inner, u64 end) {
        u32 t = threadIdx.x;
        u64 o = outer + (along ? t / SLAB : t % SIZE), i = inner + (along ? t % SLAB : t / SIZE);
        const T* at = from + o * outer_step + i * inner_step;
        u32 over = along ? THREADS / SLAB : 0, on = along ? 0 : THREADS / SIZE;
        u64 hop = over * outer_step + on * inner_step;
#pragma unroll
        for (u32 u = 0; u < COUNT; u++) {
            bool inside = o + u * over < outers && i + u * on < end;
            held[u] = inside ? A(widen(at[u * hop])) : A(0);
        }
    }
    DEVICE void put(A* to, u32 row) const {
        u32 t = threadIdx.x;
#pragma unroll
        for (u32 u = 0; u < COUNT; u++) {
            if (along) to[t % SLAB * row + t / SLAB + u * (THREADS / SLAB)] = held[u];
            else to[(t / SIZE + u * (THREADS / SIZE)) * row + t % SIZE] = held[u];
        }
    }
};

KERNEL(part) {
    __shared__ __align__(16) A memory[FACTORS > SUMS ? FACTORS : SUMS];
    A* left = memory;
    A* right = memory + SLAB * LEFT;
    u64 tiles_n = (n + COLUMNS - 1) / COLUMNS;
    u64 column = blockIdx.x % tiles_n * COLUMNS, row = blockIdx.x / tiles_n * ROWS;
    u32 team = threadIdx.x / TEAM, member = threadIdx.x % TEAM, x = member % ACROSS * HALF, y = member / ACROSS * HIGH;
    u64 begin = blockIdx.y * each, end = min(begin + each, k);
    Walk<u32(ROWS)> of_lhs = {lhs, row, m, lhs_row, lhs_column, lhs_column == 1 && lhs_row != 1};
    Walk<u32(COLUMNS)> of_rhs = {rhs, column, n, rhs_column, rhs_row, rhs_row == 1 && rhs_column != 1};
    A sum[HIGH][2 * HALF] = {}, total[HIGH][2 * HALF] = {};
    of_lhs.fetch(begin, end);
    of_rhs.fetch(begin, end);
    for (u64 inner = begin; inner < end; inner += SLAB) {
        of_lhs.put(left, LEFT);
        of_rhs.put(right, RIGHT);
        __syncthreads();
        if (inner + SLAB < end) {
            of_lhs.fetch(inner + SLAB, end);
            of_rhs.fetch(inner + SLAB, end);
        }
#pragma unroll 4
        for (u32 p = team; p < SLAB; p += TEAMS) {
            Several<A, HIGH> l = Several<A, HIGH>::load(left + p * LEFT + y);
            Several<A, HALF> r[2];
#pragma unroll
            for (u32 h = 0; h < 2; h++) r[h] = Several<A, HALF>::load(right + p * RIGHT + h * u32(COLUMNS / 2) + x);
#pragma unroll
            for (u32 i = 0; i < HIGH; i++)
#pragma unroll
                for (u32 j = 0; j < 2 * HALF; j++) sum[i][j] = fused(l.v[i], r[j / HALF].v[j % HALF], sum[i][j]);
        }
        __syncthreads();
        if (inner + SLAB < end && (inner + SLAB - begin) % CHAIN != 0) continue;
#pragma unroll
        for (u32 i = 0; i < HIGH; i++)
#pragma unroll
            for (u32 j = 0; j < 2 * HALF; j++) {
                total[i][j] += sum[i][j];
                sum[i][j] = 0;
            }
    }
    // Upper teams hand their sums down; neighbouring threads have neighbouring places.
#pragma unroll
    for (u32 half = TEAMS / 2; half > 0; half /= 2) {
        u32 place = member + team % half * TEAM;
        if (team >= half && team < 2 * half) {
#pragma unroll
            for (u32 e = 0; e < EACH; e++) memory[e * (half * TEAM) + place] = total[e / (2 * HALF)][e % (2 * HALF)];
        }
        __syncthreads();
        if (team < half) {
#pragma unroll
            for (u32 e = 0; e < EACH; e++) total[e / (2 * HALF)][e % (2 * HALF)] += memory[e * (half * TEAM) + place];
        }
        __syncthreads();
    }
    if (team > 0) return;
#pragma unroll
    for (u32 i = 0; i < HIGH; i++) {
#pragma unroll
        for (u32 j = 0; j < 2 * HALF; j++) {
            u64 at_row = row + y + i, at_column = column + j / HALF * u32(COLUMNS / 2) + x + j % HALF;
            if (at_row < m && at_column < n) partial[(blockIdx.y * m + at_row) * n + at_column] = total[i][j];
        }
    }
}
