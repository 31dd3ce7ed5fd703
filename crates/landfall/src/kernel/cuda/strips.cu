// Rows of a matrix, of which a thread takes STRIP adjacent columns, by one access where WHOLE is set. A block has `width`
// adjacent columns and THREADS * STRIP / width lanes, both powers of two; lane l of chunk c takes every lanes-th row of the
// chunk from row l on. Sums of TOGETHER rows run in S, totals in double, lanes are added pairwise: the order depends on
// sizes only. (With `columns.cu`.)

// As exact as the elements are: those of 16 bits have few digits.
template <int BYTES> struct SumOf { typedef double type; };
template <> struct SumOf<2> { typedef A type; };
typedef SumOf<sizeof(T)>::type S;
constexpr u32 STRIP_COLUMNS = u32(STRIP);
// Rows that a lane loads before it uses any; the next ones come while it works on these.
constexpr u32 TOGETHER = 4;

struct Strips {
    u32 across, lanes, lane;
    u64 column;  // the first of this thread
    bool inside;
};
DEVICE Strips strips_of(u32 width, u64 count) {
    u32 across = width / STRIP_COLUMNS;
    u64 column = u64(blockIdx.x) * width + threadIdx.x % across * STRIP_COLUMNS;
    return {across, THREADS / across, threadIdx.x / across, column, column < count};
}

// A row's part of a strip.
typedef Vector<T, int(STRIP)> Part;
template <class E> DEVICE Part part_of(const E* data, const Matrix& m, u64 row, u64 column) {
    if (WHOLE) return Part::load(data + row * m.stride.v[0] + column);
    Part part;
    data += place(m, row, column);
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) part.v[i] = data[i * m.step];
    return part;
}
DEVICE void put_part(const Part& part, T* data, const Matrix& m, u64 row, u64 column) {
    if (WHOLE) {
        part.store(data + row * m.stride.v[0] + column);
        return;
    }
    data += place(m, row, column);
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) data[i * m.step] = part.v[i];
}

// The rows from `r` on that come before `end`.
template <class Row, class Fetch>
DEVICE void fetch_rows(Row (&rows)[TOGETHER], const Strips& c, u64 r, u64 end, Fetch fetch) {
#pragma unroll
    for (u32 u = 0; u < TOGETHER; u++) {
        if (r + u * c.lanes < end) rows[u] = fetch(r + u * c.lanes);
    }
}

// Gives the rows from `r` on, of which the first are in `next`, to `use(row number, row)`; after each TOGETHER of them
// comes `pause()`.
template <class Row, class Fetch, class Use, class Pause>
DEVICE void walk(Row (&next)[TOGETHER], const Strips& c, u64 r, u64 end, Fetch fetch, Use use, Pause pause) {
    for (; r < end; r += TOGETHER * c.lanes) {
        Row now[TOGETHER];
#pragma unroll
        for (u32 u = 0; u < TOGETHER; u++) now[u] = next[u];
        fetch_rows(next, c, r + TOGETHER * c.lanes, end, fetch);
#pragma unroll
        for (u32 u = 0; u < TOGETHER; u++) {
            if (r + u * c.lanes < end) use(r + u * c.lanes, now[u]);
        }
        pause();
    }
}

// The two sums of each column over the rows of this block's chunk: `add(a, b, row)` adds a row's terms.
template <class Row, class Fetch, class Add>
DEVICE void strip_sums(const Strips& c, u64 rows, u64 each, u64 count, double* partial, Fetch fetch, Add add) {
    __shared__ double shared[STRIP_COLUMNS][THREADS];
    u64 from = blockIdx.y * each, end = c.inside ? min(from + each, rows) : 0;
    double total[2][STRIP_COLUMNS];
    S some[2][STRIP_COLUMNS];
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) {
        total[0][i] = total[1][i] = 0.0;
        some[0][i] = some[1][i] = S(0);
    }
    Row next[TOGETHER];
    fetch_rows(next, c, from + c.lane, end, fetch);
    auto use = [&](u64, const Row& row) { add(some[0], some[1], row); };
    auto pause = [&] {
#pragma unroll
        for (u32 i = 0; i < STRIP_COLUMNS; i++) {
            total[0][i] += double(some[0][i]);
            total[1][i] += double(some[1][i]);
            some[0][i] = some[1][i] = S(0);
        }
    };
    walk(next, c, from + c.lane, end, fetch, use, pause);
    u32 t = threadIdx.x;
    for (u32 which = 0; which < 2; which++) {
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < STRIP_COLUMNS; i++) shared[i][t] = total[which][i];
        for (u32 half = THREADS / 2; half >= c.across; half /= 2) {
            __syncthreads();
            if (t >= half) continue;
#pragma unroll
            for (u32 i = 0; i < STRIP_COLUMNS; i++) shared[i][t] += shared[i][t + half];
        }
        if (!c.inside || c.lane != 0) continue;
#pragma unroll
        for (u32 i = 0; i < STRIP_COLUMNS; i++) {
            partial[2 * (blockIdx.y * count + c.column + i) + which] = shared[i][t];
        }
    }
}

// The sums over all chunks of the columns of this thread: `of` is `columns_of` the same columns, which has as many
// threads for each.
DEVICE void strip_totals(Pair (&sums)[STRIP_COLUMNS], const Strips& c, const Columns& of, u64 chunks, const double* partial) {
    __shared__ Pair shared[THREADS];
    Pair sum = chunks_all(of, chunks, partial);
    if (threadIdx.x < of.width) shared[threadIdx.x] = sum;
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < STRIP_COLUMNS; i++) sums[i] = shared[threadIdx.x % c.across * STRIP_COLUMNS + i];
}
