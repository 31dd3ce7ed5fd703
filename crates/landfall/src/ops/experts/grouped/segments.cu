// Which rows each expert has: known on the device alone. (With `scan.cu`.)

// Rows of an expert: those from `start` on hold pairs, those from `last` on none. For number `experts`, the rows behind the
// last expert's.
struct Segment { i64 start, last, end; };

// Counts and offsets, as all threads of a block read them.
struct Segments {
    const View<const I>&counts, &offsets;
    u64 rows;
    u32 experts;
    bool bad;

    // Where offsets are no growing sequence from 0 to at most `rows`, or counts do not fit them, no expert has rows.
    DEVICE void check(const Faults& faults) {
        for (u32 e = threadIdx.x; e < experts; e += THREADS) {
            i64 start = offsets[e * offsets.stride.v[0]], end = offsets[(e + 1) * offsets.stride.v[0]], count = counts[e * counts.stride.v[0]];
            bool from = e > 0 || start == 0, to = end >= start && u64(end) <= rows, fits = count >= 0 && count <= end - start;
            if (from && to && fits) continue;
            bad = true;
            if (!from) flag(faults, experts, start, 1);
            else if (!to) flag(faults, experts + e + 1, end, rows + 1);
            else flag(faults, e, count, u64(end - start) + 1);
        }
        bad = __syncthreads_or(bad);
    }

    DEVICE Segment of(u32 e) const {
        if (e > experts || (bad && e < experts)) return {0, 0, 0};
        i64 start = bad ? 0 : i64(offsets[e * offsets.stride.v[0]]);
        if (e == experts) return {start, start, i64(rows)};
        return {start, start + i64(counts[e * counts.stride.v[0]]), i64(offsets[(e + 1) * offsets.stride.v[0]])};
    }
};
