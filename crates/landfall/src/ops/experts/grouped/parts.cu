// The parts that experts' rows are cut into for `swap_ab.cu`: pairs in parts of almost the same size, whole units of UNIT rows
// and at most MOST, the last with the pad rows of its last unit; other rows without a pair in parts whose products nobody
// takes. (With `segments.cu`.)
constexpr u32 BAND = 8;

// Of a part: its expert (x), its first row (y), its rows and those of them that hold pairs (lower and upper half of z), its
// place in a band of neighbours and their number (of w).
DEVICE i32 halves(i64 low, i64 high) { return i32(low | high << 16); }
DEVICE int4 part_of(u32 e, i64 row, i64 end, i64 last, i32 band) {
    int4 part;
    part.x = i32(e);
    part.y = i32(row);
    part.z = halves(end - row, last > row ? min(end, last) - row : 0);
    part.w = band;
    return part;
}

// `queue`: the number of parts, and that of tiles drawn so far.
KERNEL(parts) {
    __shared__ i64 sums[THREADS / 32];
    Segments all = {counts, offsets, rows, experts, false};
    all.check(faults);
    i64 before = 0;
    for (u32 base = 0; base <= experts; base += THREADS) {
        u32 e = base + threadIdx.x;
        Segment segment = all.of(e);
        i64 units = (segment.last - segment.start + UNIT - 1) / UNIT, count = (units * UNIT + MOST - 1) / MOST;
        i64 behind = min(segment.start + units * i64(UNIT), segment.end), rest = (segment.end - behind + MOST - 1) / MOST;
        Scanned scan = scanned(count + rest, sums);
        int4* to = reinterpret_cast<int4*>(list) + before + scan.below;
        for (i64 i = 0; i < count; i++) {
            i64 row = segment.start + units * i / count * UNIT, next = segment.start + units * (i + 1) / count * UNIT;
            i64 band = i / BAND * BAND;
            to[i] = part_of(e, row, min(next, segment.end), segment.last, halves(i - band, min(count - band, i64(BAND))));
        }
        for (i64 i = 0; i < rest; i++) {
            i64 row = behind + i * MOST;
            to[count + i] = part_of(e, row, min(row + i64(MOST), segment.end), segment.last, halves(0, 1));
        }
        before += scan.all;
    }
    if (threadIdx.x == 0) {
        queue[0] = i32(before);
        queue[1] = 0;
    }
}
