// Products of 16-bit floats whose whole right factor lies in a block's shared memory, beside ROWS rows of the left one. A warp
// takes 16 rows of the result, 16 columns at a time. Sums run over the inner axis in order, in f32: a row's result does not depend
// on the other rows. (With `fragments.cu` and `lines.cu`.)
constexpr u32 K = u32(INNER), N = u32(COLUMNS), ROWS = 32;
constexpr u32 DEPTH = (K + 15) / 16 * 16, WIDTH = (N + 15) / 16 * 16;  // what is beyond K and N is zero
// The right factor's lines are its columns where these are contiguous (ALONG), else its rows.
constexpr u32 LINES = ALONG ? WIDTH : DEPTH, LINE = ALONG ? DEPTH : WIDTH, PITCH = LINE + REST, LEFT_PITCH = DEPTH + REST;
// Warps that share the same rows, and pieces of 16 columns of each.
constexpr u32 WARPS = THREADS / 32 / (ROWS / 16), PIECES = WIDTH / 16, EACH = (PIECES + WARPS - 1) / WARPS;
// Steps of the inner axis whose fragments are loaded before they are multiplied: as many as registers allow.
constexpr u32 AHEAD = EACH > 2 ? 2 : 4;

KERNEL(product) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert((LINES * PITCH + ROWS * LEFT_PITCH) * sizeof(T) + WIDTH * sizeof(float) == SHARED, "what a launch gives");
    T *right = reinterpret_cast<T*>(dynamic), *left = right + LINES * PITCH;
    float* biases = reinterpret_cast<float*>(left + ROWS * LEFT_PITCH);
    u64 row = u64(blockIdx.x) * ROWS, rest = m - row;
    if (ALONG) fetch<RIGHT_EIGHT, LINES, LINE>(right, rhs, N, K, rhs_column, rhs_row);
    else fetch<RIGHT_EIGHT, LINES, LINE>(right, rhs, K, N, rhs_row, rhs_column);
    fetch<LEFT_EIGHT, ROWS, DEPTH>(left, lhs + row * lhs_row, rest, K, lhs_row, lhs_column);
    if (BIASED) {
        for (u32 c = threadIdx.x; c < WIDTH; c += THREADS) biases[c] = c < N ? widen(bias[c * bias_step]) : 0.0f;
    }
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, strip = warp / WARPS * 16, piece = warp % WARPS;
    // Of each piece a lane has two neighbours in two halves of eight columns, of a row and of the one eight further.
    u32 own = strip + lane / 4, column = piece * 16 + lane % 4 * 2;
    float added[EACH][2][4];
    if (ADDED) {
        // It comes while the factors do.
        const R* at = addend + (row + own) * addend_row;
#pragma unroll
        for (u32 v = 0; v < EACH * 8; v++) {
            u32 c = column + v / 8 * WARPS * 16 + v / 4 % 2 * 8 + v % 2, down = v / 2 % 2 * 8;
            added[v / 8][v / 4 % 2][v % 4] = own + down < rest && c < N ? widen(at[down * addend_row + c * addend_column]) : 0.0f;
        }
    }
    await_copies();
    __syncthreads();
    float total[EACH][2][4] = {};
#pragma unroll
    for (u32 k = 0; k < DEPTH; k += 16 * AHEAD) {
        u32 a[AHEAD][4], b[EACH][AHEAD][4];
#pragma unroll
        for (u32 s = 0; s < AHEAD; s++) {
            if (k + s * 16 < DEPTH) load_matrices(a[s], left + (strip + lane % 16) * LEFT_PITCH + k + s * 16 + lane / 16 * 8);
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u32 from = (piece + e * WARPS) * 16;
            // The last warps may have fewer pieces: what they would read lies beyond the factor.
            if (from >= WIDTH) continue;
#pragma unroll
            for (u32 s = 0; s < AHEAD; s++) {
                u32 inner = k + s * 16;
                if (inner >= DEPTH) continue;
                if (ALONG) load_matrices(b[e][s], right + (from + lane / 16 * 8 + lane % 8) * PITCH + inner + lane / 8 % 2 * 8);
                else load_transposed(b[e][s], right + (inner + lane % 16) * PITCH + from + lane / 16 * 8);
            }
        }
#pragma unroll
        for (u32 s = 0; s < AHEAD; s++) {
#pragma unroll
            for (u32 e = 0; e < EACH; e++) {
                if (k + s * 16 >= DEPTH || (piece + e * WARPS) * 16 >= WIDTH) continue;
                multiply_add(total[e][0], a[s], b[e][s][0], b[e][s][1], T());
                multiply_add(total[e][1], a[s], b[e][s][2], b[e][s][3], T());
            }
        }
    }
    R* to = out + (row + own) * out_row;
#pragma unroll
    for (u32 v = 0; v < EACH * 8; v += 2) {
        u32 c = column + v / 8 * WARPS * 16 + v / 4 % 2 * 8, down = v / 2 % 2 * 8;
        if (own + down >= rest || c >= N) continue;
        Vector<R, 2> result;
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            float x = total[v / 8][v / 4 % 2][v % 4 + i];
            if (ADDED) x += added[v / 8][v / 4 % 2][v % 4 + i];
            if (BIASED) x += biases[c + i];
            result.v[i] = narrow<R>(x);
        }
        R* at = to + down * out_row + c * out_column;
        if (PAIRS) {
            result.store(at);
        } else {
            at[0] = result.v[0];
            if (c + 1 < N) at[out_column] = result.v[1];
        }
    }
}
