// Rows of exponentials: softmax, cross-entropy and its gradient. A group of lanes takes a row. A row of at most one unit
// a lane, or of KEPT, is read once and stays in registers; a longer one is read in each pass, which also keeps 16-bit results
// from being rounded twice.

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE A lowest() { return A(__int_as_float(0xFF800000)); }

// The exponentials of a unit, relative to the row's largest element.
DEVICE void relative(A (&v)[N], A top) {
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = exponential(v[i] - top);
}

// The label is apart, because the sum less the label's own exponential would cancel where the label is likely.
struct Sums {
    A top;
    double own, others;
};
constexpr u64 NO_LABEL = ~0ull;

// The largest element of a row and the sums of its exponentials. A row that is kept leaves those in `kept`. All threads
// of the block call it together; those without a row take no part.
template <bool LABELLED>
DEVICE Sums sums_of(A (&kept)[KEPT][N], const T* row, u64 r, const RowFrame& frame, const RowView<const T>& x, u64 label, const Group& g,
                    A (&tops)[THREADS], double (&totals)[THREADS]) {
    u64 end = r < frame.count ? frame.length : 0, step = u64(g.lanes) * N;
    Sums s = {lowest(), 0.0, 0.0};
    each_unit(g, end, [&](u64 first, u32 k) {
        read(kept[k], row, first, frame, x, lowest());
        s.top = Max::of(s.top, unit_all<Max>(kept[k]));
    });
    s.top = group_all<Max>(s.top, g, tops);
    each_unit(g, end, [&](u64 first, u32 k) {
        A(&v)[N] = kept[k];
        if (!SINGLE_PASS && frame.length > step) read(v, row, first, frame, x, lowest());
        relative(v, s.top);
        if (LABELLED) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                if (first + i != label) continue;
                s.own = double(v[i]);
                v[i] = A(0);
            }
        }
        s.others += double(unit_all<Sum>(v));
    });
    s.others = group_all<Sum>(s.others, g, totals);
    if (LABELLED) s.own = group_all<Sum>(s.own, g, totals);
    return s;
}

// Row r of scale * (softmax(x) - onehot(label)), `scale` times the cotangent if there is one. It may lie where x does: a
// lane stores what it alone loads.
template <bool LABELLED>
DEVICE void quotients(const RowFrame& frame, const RowView<const T>& x, const RowView<T>& out, u64 r, u64 label,
                      const T* cotangent, double scale, const Group& g) {
    __shared__ A tops[THREADS];
    __shared__ double totals[THREADS];
    const T* row = x.data + (r < frame.count ? start_at(r, frame, x.stride) : 0);
    A kept[KEPT][N];
    Sums s = sums_of<LABELLED>(kept, row, r, frame, x, label, g, tops, totals);
    if (r >= frame.count) return;
    double factor = (LABELLED ? double(widen(*cotangent)) * scale : scale) / (s.own + s.others);
    T* row_out = out.data + start_at(r, frame, out.stride);
    u64 step = u64(g.lanes) * N;
    each_unit(g, frame.length, [&](u64 first, u32 k) {
        A(&v)[N] = kept[k];
        if (!SINGLE_PASS && frame.length > step) {
            read(v, row, first, frame, x, lowest());
            relative(v, s.top);
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            v[i] *= A(factor);
            if (LABELLED && first + i == label) v[i] = A(-s.others * factor);
        }
        write(v, row_out, first, frame, out);
    });
}

KERNEL(softmax) {
    Group g = lanes_of(frame);
    quotients<false>(frame, x, out, u64(blockIdx.x) * g.rows + g.row, NO_LABEL, 0, 1.0, g);
}

// The label of row r, clamped; one lane reports it where it is out of range.
DEVICE u64 label_of(const i64* labels, u64 place, u64 r, u64 classes, const Group& g, const Faults& faults) {
    i64 given = labels[place];
    u64 label = given < 0 ? 0 : min(u64(given), classes - 1);
    if (g.lane == 0 && i64(label) != given) flag(faults, r, given, classes);
    return label;
}

// The sum of the rows' losses of each block; of a block alone it is the result.
KERNEL(cross_entropy) {
    __shared__ A tops[THREADS];
    __shared__ double totals[THREADS];
    Group g = lanes_of(frame);
    double total = 0.0;
    for (u64 start = u64(blockIdx.x) * g.rows; start < frame.count; start += u64(gridDim.x) * g.rows) {
        u64 r = start + g.row, label = NO_LABEL;
        const T* row = x.data;
        if (r < frame.count) {
            row += start_at(r, frame, x.stride);
            label = label_of(labels, start_at(r, frame, labels.stride), r, frame.length, g, faults);
        }
        A kept[KEPT][N];
        Sums s = sums_of<true>(kept, row, r, frame, x, label, g, tops, totals);
        if (r >= frame.count || g.lane != 0) continue;
        double below = double(s.top) - double(widen(row[label * x.stride_row.v[0]]));
        // Of the label's own exponential, 1 is taken off before the others are added: where it is the largest, they
        // alone are left.
        total += below + log1p(s.own - 1.0 + s.others);
    }
    // All threads as one row, in an order that does not depend on which of them a row's lanes are.
    Group all = {THREADS, 1, g.lane * g.rows + g.row, 0, false};
    total = group_all<Sum>(total, all, totals);
    if (threadIdx.x != 0) return;
    if (gridDim.x == 1) *out = narrow<T>(total * scale);
    else partial[blockIdx.x] = total;
}

KERNEL(cross_entropy_grad) {
    Group g = lanes_of(frame);
    u64 r = u64(blockIdx.x) * g.rows + g.row, label = NO_LABEL;
    if (r < frame.count) label = label_of(labels, start_at(r, frame, labels.stride), r, frame.length, g, faults);
    quotients<true>(frame, x, out, r, label, cotangent, scale, g);
}
