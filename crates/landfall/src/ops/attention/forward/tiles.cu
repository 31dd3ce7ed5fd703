// Attention without a matrix of scores in memory. A block takes the rows (or, for the gradients of keys and values, the
// columns) of one head, one a thread; keys and features go by in tiles, through shared memory. A thread holds CHUNK
// features of its row in registers: heads with more take several passes, which make the scores again.
//
// Rows of scores that lie in memory are read and written by whole lines, through the tile; a block alone has its rows.

constexpr u32 C = u32(CHUNK);
constexpr u32 ROWS = 64;                         // rows or columns of a block, at most
constexpr u32 TILE = sizeof(A) == 8 ? 16 : 32;   // keys or queries that go by at once
constexpr u32 PITCH = TILE + 1;                  // keeps the rows of a tile in different banks

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE A infinity() { return A(__int_as_float(0x7F800000)); }

// What a block works on: a batch entry, a head and the first of its rows.
struct Place { u32 b, head, first; };
DEVICE Place place_of(u32 heads, u32 n) {
    u32 parts = (n + blockDim.x - 1) / blockDim.x;
    u32 head = blockIdx.x / parts;
    Place p = {head / heads, head % heads, blockIdx.x % parts * blockDim.x};
    return p;
}
// The first element of one head: [b, ., head, .] of features, [b, head, ., .] of scores.
template <class E> DEVICE E* features_of(const View<E>& x, const Place& p) {
    return x.data + u64(p.b) * x.stride.v[0] + u64(p.head) * x.stride.v[2];
}
template <class E> DEVICE E* scores_of(const View<E>& x, const Place& p) {
    return x.data + u64(p.b) * x.stride.v[0] + u64(p.head) * x.stride.v[1];
}

// Lines of C features from `col` on, of tokens `from` on: 0 beyond the last token or feature.
template <class E>
DEVICE void load_lines(A (*lines)[C], const E* x, const Dims& stride, u32 from, u32 n, u32 col, u32 e, A factor) {
    for (u32 i = threadIdx.x; i < TILE * C; i += blockDim.x) {
        u32 line = i / C, c = i % C;
        bool inside = from + line < n && col + c < e;
        lines[line][c] = inside ? A(widen(x[u64(from + line) * stride.v[1] + u64(col + c) * stride.v[3]])) * factor : A(0);
    }
}
// C features of the thread's own token, in registers. They come by way of shared lines, so that memory is read by whole
// lines; the block calls this together.
template <class E>
DEVICE void load_row(A (&row)[C], A (*lines)[C], const E* x, const Dims& stride, u32 first, u32 n, u32 col, u32 e,
                     A factor) {
    for (u32 from = 0; from < blockDim.x; from += TILE) {
        __syncthreads();
        load_lines(lines, x, stride, first + from, n, col, e, factor);
        __syncthreads();
        if (threadIdx.x / TILE != from / TILE) continue;
#pragma unroll
        for (u32 c = 0; c < C; c++) row[c] = lines[threadIdx.x % TILE][c];
    }
}
DEVICE A dot(const A (&row)[C], const A* line) {
    A sum = A(0);
#pragma unroll
    for (u32 c = 0; c < C; c++) sum = fused(row[c], line[c], sum);
    return sum;
}
DEVICE void add(A (&row)[C], A weight, const A* line) {
#pragma unroll
    for (u32 c = 0; c < C; c++) row[c] = fused(weight, line[c], row[c]);
}
DEVICE void clear(A (&row)[C]) {
#pragma unroll
    for (u32 c = 0; c < C; c++) row[c] = A(0);
}

// Moves the block's rows of scores of keys `from` on between memory and a tile.
DEVICE void load_scores(A (*tile)[PITCH], const T* x, const Dims& stride, u32 first, u32 from, u32 n) {
    for (u32 i = threadIdx.x; i < blockDim.x * TILE; i += blockDim.x) {
        u32 row = i / TILE, j = i % TILE;
        bool inside = first + row < n && from + j < n;
        tile[row][j] = inside ? A(widen(x[u64(first + row) * stride.v[2] + u64(from + j) * stride.v[3]])) : A(0);
    }
}
DEVICE void store_scores(A (*tile)[PITCH], T* x, const Dims& stride, u32 first, u32 from, u32 n) {
    for (u32 i = threadIdx.x; i < blockDim.x * TILE; i += blockDim.x) {
        u32 row = i / TILE, j = i % TILE;
        if (first + row < n && from + j < n) {
            x[u64(first + row) * stride.v[2] + u64(from + j) * stride.v[3]] = narrow<T>(tile[row][j]);
        }
    }
}

