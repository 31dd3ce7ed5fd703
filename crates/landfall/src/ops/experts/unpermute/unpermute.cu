// A team a token: the rows of its pairs are read once and added from the highest expert down. (With `rows.cu`.)

// Units under way in a thread: of each of PAIRS rows, U. With two rows four blocks of 224 run on a multiprocessor: sums of two
// rows are 20 % faster than with four rows and three blocks, those of eight rows as fast (decision 0017).
constexpr u32 U = 2, PAIRS = 2;

KERNEL(unpermute) {
    Team team = team_of(lanes, blockIdx.x);
    u64 token = team.index, step_map = map.stride.v[1], width = 2 * u64(most) + 1;
    if (token >= tokens) return;
    const I* cells = map + token * map.stride.v[0];
    const P* own = w + token * w.stride.v[0];
    u32 n = pair_count(cells, step_map, most, faults, token * width, team.lane == 0);
    for (u32 j = team.lane; j < n; j += lanes) {
        i64 row = checked(cells[j * step_map], rows, faults, token * width + j, true);
        if (WEIGHTED && row >= 0) checked(cells[(most + j) * step_map], experts, faults, token * width + most + j, true);
    }
    T* to = z + token * z.stride.v[0];
    for (u64 c = team.lane; c < units; c += U * lanes) {
        A sum[U][V] = {};
        for (u32 first = 0; first < n; first += PAIRS) {
            i64 row[PAIRS];
            A factor[PAIRS];
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                u32 j = first + i;
                row[i] = j < n ? checked(cells[j * step_map], rows, faults, 0, false) : -1;
                factor[i] = A(1);
                if (WEIGHTED && row[i] >= 0) {
                    i64 expert = checked(cells[(most + j) * step_map], experts, faults, 0, false);
                    if (expert < 0) row[i] = -1;
                    else factor[i] = A(widen(own[expert * w.stride.v[1]]));
                }
            }
            Unit unit[PAIRS][U];
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
#pragma unroll
                for (u32 u = 0; u < U; u++) {
                    u64 at = c + u * lanes;
                    unit[i][u] = row[i] >= 0 && at < units
                                     ? fetch(y + row[i] * y.stride.v[0], at, y.stride.v[1])
                                     : nothing();
                }
            }
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                if (row[i] < 0) continue;
#pragma unroll
                for (u32 u = 0; u < U; u++) {
#pragma unroll
                    for (u32 v = 0; v < V; v++) {
                        A value = widen(unit[i][u].v[v]);
                        sum[u][v] = WEIGHTED ? fused(factor[i], value, sum[u][v]) : sum[u][v] + value;
                    }
                }
            }
        }
#pragma unroll
        for (u32 u = 0; u < U; u++) {
            u64 at = c + u * lanes;
            if (at >= units) continue;
            Unit out;
#pragma unroll
            for (u32 v = 0; v < V; v++) out.v[v] = narrow<T>(sum[u][v]);
            put(out, to, at, z.stride.v[1]);
        }
    }
}
