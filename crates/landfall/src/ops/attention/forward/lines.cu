// Rows of features on tensor cores: lines of shared memory, strips of sixteen of them as factors, and sums of products. Sums
// run in f32. (With `fragments.cu`.)

constexpr u32 E = u32(FEATURES);
constexpr u32 CHUNKS = E <= 8 ? 1 : (E + 15) / 16 * 2;          // of eight features; beyond the last are zeros
constexpr u32 WIDTH = CHUNKS == 1 ? 8 : 16, STEPS = CHUNKS * 8 / WIDTH;  // features that one instruction multiplies
// An odd number of chunks, so that the eight rows of a matrix lie in different banks.
constexpr u32 PITCH = (CHUNKS | 1) * 8;

typedef T Line[PITCH];  // the features of a token
typedef Several<T, 8> Chunk;

// Scores by which weights are powers of two.
constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;
DEVICE float infinity() { return __int_as_float(0x7F800000); }
DEVICE float exponential2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Elements that an access to features may take: 8, 4 or 1.
template <class X> DEVICE u32 width_of(const X* x, const Dims& s) {
    u64 apart = s.v[0] | s.v[1] | s.v[2] | reinterpret_cast<u64>(x) / sizeof(T);
    return s.v[3] != 1 ? 1 : E % 8 == 0 && apart % 8 == 0 ? 8 : E % 4 == 0 && apart % 4 == 0 ? 4 : 1;
}
DEVICE Chunk chunk_of(const T* x, u64 step, u32 c, u32 width) {
    if (width == 8) return Chunk::load(x + c);
    Chunk chunk;
#pragma unroll
    for (u32 k = 0; k < 8; k++) chunk.v[k] = c + k < E ? x[(c + k) * step] : narrow<T>(0.0f);
    return chunk;
}
// A chunk of a token's features into its line; what is not inside becomes zeros.
DEVICE void fetch_chunk(T* line, const T* from, const Dims& s, u32 c, u32 width, bool inside) {
    if (width == 8) {
        copy_ahead(line + c, from + (c < E ? c : 0), inside && c < E);
    } else if (width == 4) {
        copy_half_ahead(line + c, from + (c < E ? c : 0), inside && c < E);
        copy_half_ahead(line + c + 4, from + (c + 4 < E ? c + 4 : 0), inside && c + 4 < E);
    } else {
        Chunk chunk;
#pragma unroll
        for (u32 k = 0; k < 8; k++) chunk.v[k] = inside && c + k < E ? from[(c + k) * s.v[3]] : narrow<T>(0.0f);
        chunk.store(line + c);
    }
}
// And back, where it is inside.
DEVICE void write_chunk(T* to, const T* line, const Dims& s, u32 c, u32 width) {
    Chunk chunk = Chunk::load(line + c);
    if (width == 8) {
        chunk.store_whole(to + c);
        return;
    }
#pragma unroll
    for (u32 k = 0; k < 8; k++) {
        if (c + k < E) to[(c + k) * s.v[3]] = chunk.v[k];
    }
}

// A warp's place: its head in the block, its first strip of sixteen rows, and what this lane has of a 16 x 8 part.
struct Warp { u32 slot, strip, row, column; };

// A row of a 16 x 16 part of x for this lane, as the four matrices of a left factor lie in it: rows, then columns.
template <u32 P> DEVICE const T* left_row(const T (*x)[P], u32 row, u32 column) {
    u32 lane = threadIdx.x % 32;
    return x[row + lane % 16] + column + lane / 16 * 8;
}
// As the four matrices of two right factors lie in it: columns, then rows.
template <u32 P> DEVICE const T* right_row(const T (*x)[P], u32 row, u32 column) {
    u32 lane = threadIdx.x % 32;
    return x[row + lane / 16 * 8 + lane % 8] + column + lane / 8 % 2 * 8;
}

// Sixteen lines as a left factor: their features are summed over.
struct Strip {
    u32 part[STEPS][WIDTH / 4];
    DEVICE void load(const Line* lines, u32 from) {
#pragma unroll
        for (u32 step = 0; step < STEPS; step++) {
            if (WIDTH == 8) load_matrices(part[step], lines[from + threadIdx.x % 16]);
            else load_matrices(part[step], left_row(lines, from, step * 16));
        }
    }
    // Sums of products with sixteen other lines, by eight.
    DEVICE void products(float (&sums)[2][4], const Line* lines, u32 from) const {
#pragma unroll
        for (u32 v = 0; v < 8; v++) sums[v / 4][v % 4] = 0.0f;
#pragma unroll
        for (u32 step = 0; step < STEPS; step++) multiply(sums, part[step], lines, from, step);
    }
    DEVICE static void multiply(float (&sums)[2][4], const u32 (&a)[4], const Line* lines, u32 from, u32 step) {
        u32 b[4];
        load_matrices(b, right_row(lines, from, step * 16));
        multiply_add(sums[0], a, b[0], b[1], T());
        multiply_add(sums[1], a, b[2], b[3], T());
    }
    DEVICE static void multiply(float (&sums)[2][4], const u32 (&a)[2], const Line* lines, u32 from, u32) {
        u32 b[2];
        load_matrices(b, lines[from + threadIdx.x % 16]);
        multiply_add(sums[0], a, b[0], T());
        multiply_add(sums[1], a, b[1], T());
    }
};

// Sixteen rows of a result, eight features at a time.
struct Rows {
    float sum[CHUNKS][4];
    DEVICE Rows() {
#pragma unroll
        for (u32 c = 0; c < CHUNKS * 4; c++) sum[c / 4][c % 4] = 0.0f;
    }
    // Adds sixteen lines, each times its weight for a row.
    DEVICE void add(const u32 (&weights)[4], const Line* lines, u32 from) {
        if (CHUNKS == 1) {
            u32 b[2];
            load_transposed(b, lines[from + threadIdx.x % 16]);
            multiply_add(sum[0], weights, b[0], b[1], T());
            return;
        }
#pragma unroll
        for (u32 c = 0; c < CHUNKS; c += 2) {
            u32 b[4];
            load_transposed(b, left_row(lines, from, c * 8));
            multiply_add(sum[c], weights, b[0], b[1], T());
            multiply_add(sum[(c + 1) % CHUNKS], weights, b[2], b[3], T());
        }
    }
    // The rows, times a factor for the upper and one for the lower eight. They may lie where the warp has read its own lines:
    // all lanes have read before one writes.
    DEVICE void put(Line* to, u32 from, const Warp& w, float upper, float lower) const {
        __syncwarp();
#pragma unroll
        for (u32 c = 0; c < CHUNKS; c++) {
            *reinterpret_cast<u32*>(to[from + w.row] + c * 8 + w.column) = pair_of<T>(sum[c][0] * upper, sum[c][1] * upper);
            *reinterpret_cast<u32*>(to[from + w.row + 8] + c * 8 + w.column) = pair_of<T>(sum[c][2] * lower, sum[c][3] * lower);
        }
    }
};

// Two parts of 16 x 8 sums as a left factor, rounded.
DEVICE void rounded(u32 (&to)[4], const float (&x)[2][4]) {
#pragma unroll
    for (u32 v = 0; v < 4; v++) to[v] = pair_of<T>(x[v / 2][v % 2 * 2], x[v / 2][v % 2 * 2 + 1]);
}
