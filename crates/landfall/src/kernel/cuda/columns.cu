// Sums over the rows of each column, two at once. A thread has ACROSS adjacent columns; a block is `width` threads wide, a
// power of two, and has THREADS / width lanes; lane l of chunk c takes every (THREADS / width)-th row of the chunk from row l on. Totals run in double,
// lanes are added pairwise, chunks by another launch in the same order, which depends on sizes only. (With `group.cu`.)

struct Pair { double a, b; };

constexpr u32 EACH = u32(ACROSS);

struct Columns {
    u32 width, lanes, lane;
    u64 count, column;  // in total, the first of this thread
    bool inside;
};
DEVICE Columns columns_of(u32 width, u64 count) {
    u64 column = (u64(blockIdx.x) * width + threadIdx.x % width) * EACH;
    Columns c = {width, THREADS / width, threadIdx.x / width, count, column, column < count};
    return c;
}

// Adds the lanes of each column; every lane gets the result. All threads of the block call it together.
DEVICE void lanes_all(Pair (&x)[EACH], const Columns& c) {
    __shared__ Pair shared[THREADS];
    u32 t = threadIdx.x;
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        __syncthreads();
        shared[t] = x[j];
        for (u32 half = THREADS / 2; half >= c.width; half /= 2) {
            __syncthreads();
            if (t < half) {
                shared[t].a += shared[t + half].a;
                shared[t].b += shared[t + half].b;
            }
        }
        __syncthreads();
        x[j] = shared[t % c.width];
    }
}

// Rows that a lane loads before it uses any.
constexpr u32 AHEAD = 8;

// Those from row `r` on; past `end`, row `r` again.
template <class V, class Read> DEVICE void read_ahead(V (&v)[AHEAD], const Columns& c, u64 r, u64 end, Read read) {
#pragma unroll
    for (u32 u = 0; u < AHEAD; u++) {
        u64 at = r + u * c.lanes;
        v[u] = read(at < end ? at : r);
    }
}

// The sums of `term(read(row), j)`, of column j of the thread, over the rows of this block's chunk.
template <class Read, class Term>
DEVICE void chunk_sums(const Columns& c, u64 rows, u64 each, double* partial, Read read, Term term) {
    u64 from = blockIdx.y * each, end = min(from + each, rows);
    Pair sum[EACH] = {};
    for (u64 r = from + c.lane; c.inside && r < end; r += AHEAD * c.lanes) {
        decltype(read(r)) x[AHEAD];
        read_ahead(x, c, r, end, read);
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            if (r + u * c.lanes >= end) break;
#pragma unroll
            for (u32 j = 0; j < EACH; j++) {
                Pair p = term(x[u], j);
                sum[j].a += p.a;
                sum[j].b += p.b;
            }
        }
    }
    lanes_all(sum, c);
    if (!c.inside || c.lane != 0) return;
#pragma unroll
    for (u32 j = 0; j < EACH; j++) {
        partial[2 * (blockIdx.y * c.count + c.column + j)] = sum[j].a;
        partial[2 * (blockIdx.y * c.count + c.column + j) + 1] = sum[j].b;
    }
}

// The sums over all chunks; every lane gets the result.
DEVICE void chunks_all(Pair (&sum)[EACH], const Columns& c, u64 chunks, const double* partial) {
#pragma unroll
    for (u32 j = 0; j < EACH; j++) sum[j].a = sum[j].b = 0.0;
    for (u64 k = c.lane; c.inside && k < chunks; k += AHEAD * c.lanes) {
#pragma unroll
        for (u32 j = 0; j < EACH; j++) {
            double2 x[AHEAD];
            read_ahead(x, c, k, chunks, [&](u64 at) {
                return reinterpret_cast<const double2*>(partial)[at * c.count + c.column + j];
            });
#pragma unroll
            for (u32 u = 0; u < AHEAD; u++) {
                if (k + u * c.lanes >= chunks) break;
                sum[j].a += x[u].x;
                sum[j].b += x[u].y;
            }
        }
    }
    lanes_all(sum, c);
}

// A matrix with any row layout.
struct Matrix {
    u64 rows;
    u32 rank;
    const Dims& shape;
    const Dims& stride;
    u64 step;  // column stride
};
template <class E> DEVICE Matrix matrix_of(const RowFrame& frame, const RowView<E>& x) {
    return {frame.count, frame.rank, frame.shape, x.stride, x.stride_row.v[0]};
}
DEVICE u64 place(const Matrix& m, u64 row, u64 column) {
    return (m.rank == 1 ? row * m.stride.v[0] : offset_of<u64>(row, m.rank, m.shape, m.stride)) + column * m.step;
}

// Of one row, the columns of a thread: by one access where `along` says that they are adjacent and aligned.
template <class E> DEVICE Vector<E, EACH> load_columns(const E* x, const Matrix& m, u64 row, u64 column, u32 along) {
    const E* at = x + place(m, row, column);
    if (along) return Vector<E, EACH>::load(at);
    Vector<E, EACH> all;
#pragma unroll
    for (u32 j = 0; j < EACH; j++) all.v[j] = at[j * m.step];
    return all;
}
template <class E>
DEVICE void store_columns(const Vector<E, EACH>& all, E* to, const Matrix& m, u64 row, u64 column, u32 along) {
    E* at = to + place(m, row, column);
    if (along) return all.store(at);
#pragma unroll
    for (u32 j = 0; j < EACH; j++) at[j * m.step] = all.v[j];
}
