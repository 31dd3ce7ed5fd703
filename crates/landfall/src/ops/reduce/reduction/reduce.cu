// Reductions of rows, each cut in `segments`: a group of lanes takes one segment of one row. Totals run in W: double, or i64
// for integers, which wrap.

struct Product {
    template <class V> DEVICE static V of(V a, V b) { return product_of(a, b); }
};
struct Total {
    template <class V> DEVICE static V of(V a, V b) { return sum_of(a, b); }
};
template <u32 J> struct JoinOf { typedef Total type; };
template <> struct JoinOf<1> { typedef Max type; };
template <> struct JoinOf<2> { typedef Min type; };
template <> struct JoinOf<3> { typedef Product type; };
typedef JoinOf<u32(JOIN)>::type Join;

// The result over nothing. Of integers that of an extreme is the end of the dtype.
template <class V> DEVICE V nothing() {
    if (JOIN == 3) return V(1);
    if (JOIN == 0) return V(0);
    double end = __longlong_as_double(JOIN == 1 ? 0xFFF0000000000000ll : 0x7FF0000000000000ll);
    if constexpr (V(1) / V(2) == V(0)) return V(narrow<R>(end));
    else return V(end);
}
DEVICE double scaled(double total, double scale) { return total * scale; }
DEVICE i64 scaled(i64 total, double) { return total; }

KERNEL(reduce) {
    __shared__ W shared[THREADS];
    Group g = group_of(lanes, across);
    u64 segment = blockIdx.x % segments, output = blockIdx.x / segments * u64(g.rows) + g.row;
    W total = nothing<W>();
    if (output < outputs) {
        const T* row = x + place_of(output, outputs, rank_x, shape_x, x.stride);
        u64 end = min(reduced, (segment + 1) * length);
        for (u64 first = segment * length + g.lane * N; first < end; first += u64(lanes) * N) {
            A v[N];
            load_unit(v, row, first, end, nothing<A>(), contiguous, rank_row, shape_row, stride_row);
            total = Join::of(total, W(unit_all<Join>(v)));
        }
    }
    total = group_all<Join>(total, g, shared);
    if (g.lane != 0 || output >= outputs) return;
    if (segments == 1) {
        out[place_of(output, outputs, rank_out, shape_out, out.stride)] = narrow<R>(scaled(total, scale));
    } else {
        partial[output * segments + segment] = total;
    }
}

// Units that a lane reads at once: many narrow accesses, or few wide ones.
constexpr u32 AHEAD = ACROSS == 1 ? 2 : 1;

// The same, in the same order, of rows that lie as the columns of a matrix: neighbouring rows are neighbours, a row's
// elements are `pitch` apart. A thread is a lane of ACROSS neighbours, and moves an element of each by one access; lanes
// are `width` threads apart. The next units come while it adds these.
KERNEL(columns) {
    __shared__ W shared[ACROSS * THREADS];
    u32 lane = threadIdx.x / width, t = threadIdx.x;
    u64 segment = blockIdx.x % segments, output = (blockIdx.x / segments * u64(width) + t % width) * ACROSS;
    u64 end = output < outputs ? min(reduced, (segment + 1) * length) : 0, step = u64(lanes) * N;
    const T* column = x + place_of(output < outputs ? output : 0, outputs, rank_x, shape_x, x.stride);
    W total[ACROSS];
#pragma unroll
    for (int j = 0; j < ACROSS; j++) total[j] = nothing<W>();
    Vector<T, ACROSS> next[AHEAD][N];
    // Those from element `first` on; past the end the last one again.
    auto fetch = [&](u64 first) {
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            u64 from = min(first + u * step, end - 1);
            u32 count = u32(min(end - from, u64(N)));
            const T* start = column + from * pitch;
#pragma unroll
            for (u32 i = 0; i < N; i++) next[u][i] = Vector<T, ACROSS>::load(start + min(i, count - 1) * pitch);
        }
    };
    u64 first = segment * length + lane * N;
    if (first < end) fetch(first);
    for (; first < end; first += AHEAD * step) {
        Vector<T, ACROSS> line[AHEAD][N];
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
#pragma unroll
            for (u32 i = 0; i < N; i++) line[u][i] = next[u][i];
        }
        if (first + AHEAD * step < end) fetch(first + AHEAD * step);
#pragma unroll
        for (u32 u = 0; u < AHEAD; u++) {
            u64 from = first + u * step;
            if (from >= end) break;
            u32 count = u32(min(end - from, u64(N)));
#pragma unroll
            for (int j = 0; j < ACROSS; j++) {
                A v[N];
#pragma unroll
                for (u32 i = 0; i < N; i++) v[i] = i < count ? A(widen(line[u][i].v[j])) : nothing<A>();
                total[j] = Join::of(total[j], W(unit_all<Join>(v)));
            }
        }
    }
#pragma unroll
    for (int j = 0; j < ACROSS; j++) shared[j * THREADS + t] = total[j];
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane >= half) continue;
#pragma unroll
        for (int j = 0; j < ACROSS; j++) {
            W* at = shared + j * THREADS + t;
            *at = Join::of(*at, at[half * width]);
        }
    }
    if (lane != 0 || output >= outputs) return;
#pragma unroll
    for (int j = 0; j < ACROSS; j++) {
        W sum = shared[j * THREADS + t];
        if (segments == 1) {
            out[place_of(output + j, outputs, rank_out, shape_out, out.stride)] = narrow<R>(scaled(sum, scale));
        } else {
            partial[(output + j) * segments + segment] = sum;
        }
    }
}

// The segments of each row, a warp a row. A lane reads several before it uses any.
KERNEL(finish) {
    constexpr int TOGETHER = 8;
    u64 output = thread_index() / 32;
    if (output >= outputs) return;
    W total = nothing<W>();
    for (u64 first = threadIdx.x % 32; first < segments; first += 32 * TOGETHER) {
        W v[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            u64 at = first + 32 * i;
            v[i] = at < segments ? partial[output * segments + at] : nothing<W>();
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) total = Join::of(total, v[i]);
    }
    total = warp_all<Join>(total);
    if (threadIdx.x % 32 == 0) {
        out[place_of(output, outputs, rank_out, shape_out, out.stride)] = narrow<R>(scaled(total, scale));
    }
}
