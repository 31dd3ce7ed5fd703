// A team a token: its row is read once and written to the rows of all its pairs. The first `clear` blocks write zeros in
// the rows that no token has. (With `cells.cu`, `rows.cu` and `pair.cu`.)

// Units under way in a thread, and rows looked up together.
constexpr u32 U = 2, PAIRS = 2;

KERNEL(permute) {
    auto read = [&](Unit (&unit)[U], const T* from, u64 c) {
#pragma unroll
        for (u32 u = 0; u < U; u++) {
            u64 at = c + u * lanes;
            unit[u] = at < units ? fetch(from, at, x.stride.v[1]) : nothing();
        }
    };
    if (blockIdx.x < clear) {
        u64 r = thread_index();
        clear_rows(source, source.stride.v[0], y, y.stride.v[0], y.stride.v[1], r, rows, units);
        clear_prob(source, source.stride.v[0], py, py.stride.v[0], r, rows);
        return;
    }
    Team team = team_of(lanes, blockIdx.x - clear);
    u64 token = team.index, step_map = map.stride.v[1], width = 2 * u64(most) + 1;
    if (token >= tokens) return;
    const I* cells = map + token * map.stride.v[0];
    const T* from = x + token * x.stride.v[0];
    // The row is on its way before the map says where it goes.
    Unit unit[U];
    read(unit, from, team.lane);
    u32 n = pair_count(cells, step_map, most, faults, token * width, team.lane == 0);
    const P* own = p + token * p.stride.v[0];
    for (u64 c = team.lane; c < units; c += U * lanes) {
        if (c >= U * lanes) read(unit, from, c);
        for (u32 first = 0; first < n; first += PAIRS) {
            i64 row[PAIRS];
            u32 zero = 0;  // a bit each
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                u32 j = first + i;
                row[i] = j < n ? checked(cells[j * step_map], rows, faults, 0, false) : -1;
                if (DROP_ZERO && row[i] >= 0) {
                    i64 expert = checked(cells[(most + j) * step_map], experts, faults, 0, false);
                    zero |= u32(expert < 0 || widen(own[expert * p.stride.v[1]]) == 0) << i;
                }
            }
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                if (row[i] < 0) continue;
                T* to = y + row[i] * y.stride.v[0];
#pragma unroll
                for (u32 u = 0; u < U; u++) {
                    u64 at = c + u * lanes;
                    if (at < units) put_last(zero >> i & 1 ? nothing() : unit[u], to, at, y.stride.v[1]);
                }
            }
        }
    }
    for (u32 j = team.lane; j < n; j += lanes) {
        bring_prob(cells, step_map, most, j, own, p.stride.v[1], py, py.stride.v[0], rows, experts, faults, token * width);
    }
}
