// A team a row: it goes to the row that the map names, or comes from there. (With `rows.cu`.)

// Units under way in a thread.
constexpr u32 U = 4;

KERNEL(sort_chunks) {
    Team team = team_of(lanes, blockIdx.x);
    u64 r = team.index;
    if (r >= rows) return;
    i64 other = checked(d[r * d.stride.v[0]], rows, faults, r, team.lane == 0);
    if (!INVERSE && other < 0) return;
    u64 from = INVERSE ? u64(other) : r, to = INVERSE ? r : u64(other);
    if (PROBS && team.lane == 0) {
        py[to * py.stride.v[0]] = other < 0 ? narrow<P>(typename Accumulate<P>::type(0)) : p[from * p.stride.v[0]];
    }
    for (u64 c = team.lane; c < units; c += U * lanes) {
        Unit unit[U];
#pragma unroll
        for (u32 u = 0; u < U; u++) {
            u64 at = c + u * lanes;
            unit[u] = other >= 0 && at < units
                          ? fetch(x + from * x.stride.v[0], at, x.stride.v[1])
                          : nothing();
        }
#pragma unroll
        for (u32 u = 0; u < U; u++) {
            u64 at = c + u * lanes;
            if (at < units) put(unit[u], y + to * y.stride.v[0], at, y.stride.v[1]);
        }
    }
}
