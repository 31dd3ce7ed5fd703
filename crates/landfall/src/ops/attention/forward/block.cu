// Attention of heads of middle size: a block has one head, whose queries, keys and values lie whole in shared memory. 16 by 16
// threads make each product, as many rows and columns each as that takes, in registers: what is read of shared memory serves
// a tile of them. No result is shared by two threads, so none needs atomics, and every sum runs in a fixed order.

constexpr u32 SIDE = 16, THREADS = SIDE * SIDE;
constexpr u32 TILE = (N + SIDE - 1) / SIDE;  // rows of a thread, and columns of scores, each SIDE from the next
constexpr u32 LINES = (N + 3) / 4 * 4;       // beyond the last token are zeros
constexpr u32 QUADS = E / 4, ROUNDS = (QUADS + SIDE - 1) / SIDE;  // in which a row's threads take its features
// An odd number of fours, which puts the same four of eight neighbouring rows into different banks.
constexpr u32 PITCH = (QUADS | 1) * 4, SQUARE = (LINES / 4 | 1) * 4;

typedef Several<T, 4> Given;
typedef Several<A, 4> Quad;
typedef A Line[PITCH];     // the features of a token
typedef A Scores[SQUARE];  // those of a query

// Where a thread stands in a product: a warp has four rows and eight columns. Two neighbouring lanes share a column, so that
// sixteen lanes read the fours of two rows, or of eight columns, in one pass over the banks.
struct Place { u32 row, column; };
DEVICE Place place() {
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Place p = {warp / 2 % 4 * 4 + lane / 16 * 2 + lane % 2, warp % 2 * 8 + lane / 2 % 8};
    return p;
}
// Where it stands where it moves rows: its lanes are neighbours of one row.
DEVICE Place line() {
    Place p = {threadIdx.x / SIDE, threadIdx.x % SIDE};
    return p;
}
// Whether a thread has number i of so many things, each SIDE from the next. Mostly the compiler knows, and then a loop over
// them has no branches, between which loads would wait for each other.
template <u32 COUNT> DEVICE bool has(u32 first, u32 i) { return (i + 1) * SIDE <= COUNT || first + i * SIDE < COUNT; }
// Number i of a thread's tokens: the last one of all where it has fewer.
DEVICE u32 nth(u32 first, u32 i) {
    u32 at = first + i * SIDE;
    return (i + 1) * SIDE <= N ? at : min(at, N - 1);
}

// Over the SIDE lanes that share a row.
template <class F, class X> DEVICE X line_all(X x) {
#pragma unroll
    for (u32 lane = SIDE / 2; lane > 0; lane /= 2) x = F::of(x, __shfl_xor_sync(0xFFFFFFFFu, x, lane));
    return x;
}

// Four features of a thread's rows.
template <bool FOURS> DEVICE void fetch(Given (&to)[TILE], const T* x, const Dims& s, u32 row, u32 c, u32 e) {
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        const T* from = x + u64(nth(row, i)) * s.v[1];
        if (FOURS) {
            to[i] = Given::load(from + c);
            continue;
        }
#pragma unroll
        for (u32 k = 0; k < 4; k++) to[i].v[k] = c + k < e ? from[u64(c + k) * s.v[3]] : narrow<T>(A(0));
    }
}
DEVICE void put(Line* to, const Given (&from)[TILE], u32 row, u32 c, A factor) {
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        Quad part;
#pragma unroll
        for (u32 k = 0; k < 4; k++) part.v[k] = has<N>(row, i) ? A(widen(from[i].v[k])) * factor : A(0);
        if (has<LINES>(row, i)) part.store(&to[row + i * SIDE][c]);
    }
}
template <bool FOURS> DEVICE void load(Line* to, const T* x, const Dims& s, u32 e, A factor) {
    Place p = line();
    for (u32 m = 0; m < ROUNDS; m++) {
        if (!has<QUADS>(p.column, m)) break;
        u32 c = (p.column + m * SIDE) * 4;
        Given parts[TILE];
        fetch<FOURS>(parts, x, s, p.row, c, e);
        put(to, parts, p.row, c, factor);
    }
}

// Products of a thread's rows of one with its rows of the other.
DEVICE void products(A (&sums)[TILE][TILE], const Place& p, const Line* a, const Line* b) {
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
#pragma unroll
        for (u32 j = 0; j < TILE; j++) sums[i][j] = A(0);
    }
#pragma unroll 2
    for (u32 c = 0; c < E; c += 4) {
        Quad x[TILE];
#pragma unroll
        for (u32 i = 0; i < TILE; i++) x[i] = Quad::load(&a[nth(p.row, i)][c]);
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            Quad y = Quad::load(&b[nth(p.column, j)][c]);
#pragma unroll
            for (u32 i = 0; i < TILE; i++) {
#pragma unroll
                for (u32 k = 0; k < 4; k++) sums[i][j] = fused(x[i].v[k], y.v[k], sums[i][j]);
            }
        }
    }
}
// Adds to a thread's scores what lies in memory.
DEVICE void add(A (&to)[TILE][TILE], const Place& p, const T* x, const Dims& s) {
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            if (!has<N>(p.row, i) || !has<N>(p.column, j)) continue;
            to[i][j] += A(widen(x[nth(p.row, i) * s.v[2] + nth(p.column, j) * s.v[3]]));
        }
    }
}
DEVICE void write(T* to, const Dims& s, const Place& p, const A (&x)[TILE][TILE]) {
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            if (!has<N>(p.row, i) || !has<N>(p.column, j)) continue;
            to[nth(p.row, i) * s.v[2] + nth(p.column, j) * s.v[3]] = narrow<T>(x[i][j]);
        }
    }
}
// Puts them where all threads read them. Beyond the last key are zeros.
DEVICE void put(Scores* to, const Place& p, const A (&x)[TILE][TILE]) {
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            if (!has<N>(p.row, i) || !has<LINES>(p.column, j)) continue;
            to[p.row + i * SIDE][p.column + j * SIDE] = has<N>(p.column, j) ? x[i][j] : A(0);
        }
    }
}

DEVICE void store(T* to, const Dims& s, u32 row, u32 c, u32 e, bool fours, const A (&x)[4], A factor) {
    T* at = to + u64(row) * s.v[1];
    Given rounded;
#pragma unroll
    for (u32 k = 0; k < 4; k++) rounded.v[k] = narrow<T>(x[k] * factor);
    if (fours) {
        rounded.store_whole(at + c);
        return;
    }
#pragma unroll
    for (u32 k = 0; k < 4; k++) {
        if (c + k < e) at[u64(c + k) * s.v[3]] = rounded.v[k];
    }
}
// Row i of the result is the sum of all lines, line j times `weights[i][j]`, times `factor(i)`.
template <class F>
DEVICE void weigh(T* to, const Dims& s, u32 e, const Line* lines, const Scores* weights, const F& factor) {
    Place p = place();
    bool fours = by_fours(to, s, e);
    for (u32 m = 0; m < ROUNDS; m++) {
        if (!has<QUADS>(p.column, m)) break;
        u32 c = (p.column + m * SIDE) * 4;
        A sums[TILE][4] = {};
#pragma unroll 2
        for (u32 j = 0; j < LINES; j += 4) {
            Quad x[4];
#pragma unroll
            for (u32 k = 0; k < 4; k++) x[k] = Quad::load(&lines[j + k][c]);
#pragma unroll
            for (u32 i = 0; i < TILE; i++) {
                Quad own = Quad::load(&weights[nth(p.row, i)][j]);
#pragma unroll
                for (u32 k = 0; k < 4; k++) {
#pragma unroll
                    for (u32 f = 0; f < 4; f++) sums[i][f] = fused(own.v[k], x[k].v[f], sums[i][f]);
                }
            }
        }
#pragma unroll
        for (u32 i = 0; i < TILE; i++) {
            u32 row = nth(p.row, i);
            if (has<N>(p.row, i)) store(to, s, row, c, e, fours, sums[i], factor(row));
        }
    }
}
