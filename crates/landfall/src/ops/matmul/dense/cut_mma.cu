// Parts of products of 16-bit floats with a small result and a long inner axis. A block has one part and a tile of ROWS x COLUMNS
// of the result; DEPTH inner indices of both factors lie in shared memory, a line for each. A warp has 16 x 32 elements; warps
// beyond those of a tile are teams that share the inner axis. Sums run in f32, DEPTH inner indices at a time; the teams are added
// pairwise, the parts by `join`: the order depends on sizes alone. (With `fragments.cu` and `lines.cu`.)
constexpr u32 HIGH = u32(ROWS), WIDE = u32(COLUMNS), SLAB = u32(DEPTH), STEP = 16;
constexpr u32 ACROSS = WIDE / 32, PLACES = HIGH / 16 * ACROSS, TEAMS = THREADS / 32 / PLACES;
constexpr u32 LEFT_PITCH = HIGH + REST, RIGHT_PITCH = WIDE + REST;

KERNEL(part) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert(SLAB * (LEFT_PITCH + RIGHT_PITCH) * sizeof(T) == SHARED, "what a launch gives");
    static_assert(TEAMS == 1 || THREADS / 2 * 16 * sizeof(float) <= SHARED, "room for the sums of half the teams");
    T *left = reinterpret_cast<T*>(dynamic), *right = left + SLAB * LEFT_PITCH;
    u64 tiles_n = (n + WIDE - 1) / WIDE;
    u64 column = blockIdx.x % tiles_n * WIDE, row = blockIdx.x / tiles_n * HIGH;
    u64 begin = blockIdx.y * each, end = min(begin + each, k);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, team = warp / PLACES, place = warp % PLACES;
    u32 strip = place / ACROSS * 16, piece = place % ACROSS * 32;
    float total[4][4] = {};
    for (u64 inner = begin; inner < end; inner += SLAB) {
        if (inner > begin) __syncthreads();
        fetch<LEFT_EIGHT, SLAB, HIGH>(left, lhs + inner * lhs_column + row * lhs_row, end - inner, u32(m - row), lhs_column, lhs_row);
        fetch<RIGHT_EIGHT, SLAB, WIDE>(right, rhs + inner * rhs_row + column * rhs_column, end - inner, u32(n - column), rhs_row, rhs_column);
        await_copies();
        __syncthreads();
        float sum[4][4] = {};
#pragma unroll 4
        for (u32 s = team * STEP; s < SLAB; s += TEAMS * STEP) {
            u32 a[4], b[2][4];
            load_transposed(a, left + (s + lane / 16 * 8 + lane % 8) * LEFT_PITCH + strip + lane / 8 % 2 * 8);
#pragma unroll
            for (u32 h = 0; h < 2; h++) {
                load_transposed(b[h], right + (s + lane % 16) * RIGHT_PITCH + piece + h * 16 + lane / 16 * 8);
            }
#pragma unroll
            for (u32 h = 0; h < 2; h++) {
                multiply_add(sum[2 * h], a, b[h][0], b[h][1], T());
                multiply_add(sum[2 * h + 1], a, b[h][2], b[h][3], T());
            }
        }
#pragma unroll
        for (u32 v = 0; v < 16; v++) total[v / 4][v % 4] += sum[v / 4][v % 4];
    }
    // Upper teams hand their sums down.
    float* sums = reinterpret_cast<float*>(dynamic);
#pragma unroll
    for (u32 half = TEAMS / 2; half > 0; half /= 2) {
        u32 member = (team % half * PLACES + place) * 32 + lane;
        __syncthreads();
        if (team >= half && team < 2 * half) {
#pragma unroll
            for (u32 v = 0; v < 16; v++) sums[v * (THREADS / 2) + member] = total[v / 4][v % 4];
        }
        __syncthreads();
        if (team < half) {
#pragma unroll
            for (u32 v = 0; v < 16; v++) total[v / 4][v % 4] += sums[v * (THREADS / 2) + member];
        }
    }
    if (team > 0) return;
    u64 own = row + strip + lane / 4, from = column + piece + lane % 4 * 2;
#pragma unroll
    for (u32 v = 0; v < 16; v += 2) {
        u64 r = own + v / 2 % 2 * 8, c = from + v / 4 * 8;
        if (r >= m || c >= n) continue;
        float* at = partial + (blockIdx.y * m + r) * n + c;
        float first = total[v / 4][v % 4], second = total[v / 4][v % 4 + 1];
        if (PAIRS) {
            *reinterpret_cast<float2*>(at) = make_float2(first, second);
        } else {
            at[0] = first;
            if (c + 1 < n) at[1] = second;
        }
    }
}
