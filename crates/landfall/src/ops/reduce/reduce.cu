// Sums and maxima over rows, each cut in `segments`: a group of lanes takes one segment of one row.

template <bool M> struct JoinOf { typedef Sum type; };
template <> struct JoinOf<true> { typedef Max type; };
typedef JoinOf<IS_MAX != 0>::type Join;
DEVICE double nothing() { return IS_MAX ? __longlong_as_double(0xFFF0000000000000ll) : 0.0; }

KERNEL(reduce) {
    __shared__ double shared[THREADS];
    Group g = group_of(lanes, across);
    u64 segment = blockIdx.x % segments, output = blockIdx.x / segments * u64(g.rows) + g.row;
    double total = nothing();
    if (output < outputs) {
        const T* row = x + place_of(output, outputs, rank_x, shape_x, stride_x);
        u64 end = min(reduced, (segment + 1) * length);
        for (u64 first = segment * length + g.lane * N; first < end; first += u64(lanes) * N) {
            A v[N];
            load_unit(v, row, first, end, A(nothing()), gapless, rank_row, shape_row, stride_row);
            total = Join::of(total, double(unit_all<Join>(v)));
        }
    }
    total = group_all<Join>(total, g, shared);
    if (g.lane != 0 || output >= outputs) return;
    if (segments == 1) {
        out[place_of(output, outputs, rank_out, shape_out, stride_out)] = narrow<T>(total * scale);
    } else {
        partial[output * segments + segment] = total;
    }
}

// The segments of each row, a warp a row.
KERNEL(finish) {
    u64 output = thread_index() / 32;
    if (output >= outputs) return;
    double total = nothing();
    for (u64 i = threadIdx.x % 32; i < segments; i += 32) total = Join::of(total, partial[output * segments + i]);
    total = warp_all<Join>(total);
    if (threadIdx.x % 32 == 0) {
        out[place_of(output, outputs, rank_out, shape_out, stride_out)] = narrow<T>(total * scale);
    }
}
