// Sums over the rows of each column, two at once. A block has `width` adjacent columns, a power of two, and THREADS /
// width lanes; lane l of chunk c takes every (THREADS / width)-th row of the chunk from row l on. Totals run in double,
// lanes are added pairwise, chunks by another launch in the same order, which depends on sizes only. (With `group.cu`.)

struct Pair { double a, b; };

struct Columns {
    u32 width, lanes, lane;
    u64 count, column;  // in total, of this thread
    bool inside;
};
DEVICE Columns columns_of(u32 width, u64 count) {
    u64 column = u64(blockIdx.x) * width + threadIdx.x % width;
    Columns c = {width, THREADS / width, threadIdx.x / width, count, column, column < count};
    return c;
}

// Adds the lanes of each column; every lane gets the result. All threads of the block call it together.
DEVICE Pair lanes_all(Pair x, const Columns& c) {
    __shared__ Pair shared[THREADS];
    u32 t = threadIdx.x;
    shared[t] = x;
    for (u32 half = THREADS / 2; half >= c.width; half /= 2) {
        __syncthreads();
        if (t < half) {
            shared[t].a += shared[t + half].a;
            shared[t].b += shared[t + half].b;
        }
    }
    __syncthreads();
    return shared[t % c.width];
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

// The sums of `term(row)` over the rows of this block's chunk.
template <class Term> DEVICE void chunk_sums(const Columns& c, u64 rows, u64 each, double* partial, Term term) {
    u64 from = blockIdx.y * each, end = min(from + each, rows);
    Pair sum = {0.0, 0.0};
    for (u64 r = from + c.lane; c.inside && r < end; r += AHEAD * c.lanes) {
        Pair x[AHEAD];
        read_ahead(x, c, r, end, term);
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            if (r + u * c.lanes >= end) break;
            sum.a += x[u].a;
            sum.b += x[u].b;
        }
    }
    sum = lanes_all(sum, c);
    if (!c.inside || c.lane != 0) return;
    partial[2 * (blockIdx.y * c.count + c.column)] = sum.a;
    partial[2 * (blockIdx.y * c.count + c.column) + 1] = sum.b;
}

// The sums over all chunks; every lane gets the result.
DEVICE Pair chunks_all(const Columns& c, u64 chunks, const double* partial) {
    Pair sum = {0.0, 0.0};
    for (u64 k = c.lane; c.inside && k < chunks; k += AHEAD * c.lanes) {
        Pair x[AHEAD];
        read_ahead(x, c, k, chunks, [&](u64 at) {
            double2 both = reinterpret_cast<const double2*>(partial)[at * c.count + c.column];
            Pair p = {both.x, both.y};
            return p;
        });
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            if (k + u * c.lanes >= chunks) break;
            sum.a += x[u].a;
            sum.b += x[u].b;
        }
    }
    return lanes_all(sum, c);
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
