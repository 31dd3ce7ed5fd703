// A team a token: its row of `gz` is multiplied by the rows of its pairs for the weights, and written to them by the
// weights. The first `clear` blocks write zeros in the rows that no token has. (With `rows.cu`.)

// Units of a row under way in a thread; pairs that share the units of `gz`; pairs that a block knows at once.
constexpr u32 U = 2, PAIRS = 2, KNOWN = 32;

KERNEL(unpermute_grad) {
    // Where a team is a block: of some pairs the rows, experts and weights, −1 where the map has none that can be, and their sums.
    __shared__ A partial[KNOWN][16], sums[KNOWN], weights[KNOWN];
    __shared__ I rows_of[KNOWN], experts_of[KNOWN];
    if (blockIdx.x < clear) {
        clear_rows(source, stride_source, gy, stride_gy.v[0], stride_gy.v[1], rows, units);
        return;
    }
    Team team = team_of(lanes, blockIdx.x - clear);
    u64 token = team.index, step_map = stride_map.v[1], width = 2 * u64(most) + 1;
    bool inside = token < tokens;
    if (!inside) token = 0;
    const I* cells = map + token * stride_map.v[0];
    const T* from = gz + token * stride_gz.v[0];
    auto read = [&](Unit (&unit)[U], const T* row, bool there, u64 c, u64 step) {
#pragma unroll
        for (u32 u = 0; u < U; u++) {
            u64 at = c + u * lanes;
            unit[u] = there && at < units ? fetch(row, at, step) : nothing();
        }
    };
    // The row is on its way before the map says where it goes. If it is one pass, it stays where it is for all pairs.
    Unit g[U];
    read(g, from, inside, team.lane, stride_gz.v[1]);
    bool stays = units <= U * lanes;
    u32 n = inside ? pair_count(cells, step_map, most, faults, token * width, team.lane == 0) : 0;
    const P* own = w + token * stride_w.v[0];
    P* result = gw + token * stride_gw.v[0];
    // Row and expert are both there or both −1.
    struct Pair {
        I row, expert;
        A weight;
    };
    auto look = [&](u32 j) -> Pair {
        i64 row = j < n ? checked(cells[j * step_map], rows, faults, 0, false) : -1;
        i64 expert = row >= 0 ? checked(cells[(most + j) * step_map], experts, faults, 0, false) : -1;
        return {I(expert >= 0 ? row : -1), I(expert), expert >= 0 ? A(widen(own[expert * stride_w.v[1]])) : A(0)};
    };
    // Teams of one warp go on together: as long as one of them has pairs.
    u32 longest = warp_all<Max>(n);
    for (u32 known = 0; known == 0 || known < longest; known += KNOWN) {
        if constexpr (BLOCK) {
            if (threadIdx.x < KNOWN) {
                Pair pair = look(known + threadIdx.x);
                rows_of[threadIdx.x] = pair.row;
                experts_of[threadIdx.x] = pair.expert;
                weights[threadIdx.x] = pair.weight;
            }
            __syncthreads();
        }
        for (u32 first = known; first < min(longest, known + KNOWN); first += PAIRS) {
            Pair pair[PAIRS];
            A dot[PAIRS];
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                u32 j = first + i - known;
                if constexpr (BLOCK) pair[i] = {rows_of[j], I(-1), weights[j]};
                else pair[i] = look(first + i);
                dot[i] = A(0);
            }
            for (u64 c = team.lane; c < units; c += U * lanes) {
                Unit unit[PAIRS][U];
#pragma unroll
                for (u32 i = 0; i < PAIRS; i++) {
                    read(unit[i], y + i64(pair[i].row) * stride_y.v[0], pair[i].row >= 0, c, stride_y.v[1]);
                }
                if (!stays) read(g, from, inside, c, stride_gz.v[1]);
#pragma unroll
                for (u32 i = 0; i < PAIRS; i++) {
                    if (pair[i].row < 0) continue;
#pragma unroll
                    for (u32 u = 0; u < U; u++) {
                        u64 at = c + u * lanes;
                        Unit out;
#pragma unroll
                        for (u32 v = 0; v < V; v++) {
                            A cotangent = widen(g[u].v[v]);
                            dot[i] += A(widen(unit[i][u].v[v])) * cotangent;
                            out.v[v] = narrow<T>(pair[i].weight * cotangent);
                        }
                        if (at < units) put_last(out, gy + i64(pair[i].row) * stride_gy.v[0], at, stride_gy.v[1]);
                    }
                }
            }
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                for (u32 d = min(lanes, 32u) / 2; d > 0; d /= 2) dot[i] += __shfl_xor_sync(0xFFFFFFFFu, dot[i], d);
                if constexpr (BLOCK) {
                    if (threadIdx.x % 32 == 0) partial[first + i - known][threadIdx.x / 32] = dot[i];
                } else if (team.lane == 0 && pair[i].row >= 0) {
                    result[pair[i].expert * stride_gw.v[1]] = narrow<P>(dot[i]);
                }
            }
        }
        if constexpr (BLOCK) {
            __syncthreads();
            u32 here = min(n - min(n, known), KNOWN);
            if (threadIdx.x < here) {
                A sum = A(0);
                for (u32 warp = 0; warp < lanes / 32; warp++) sum += partial[threadIdx.x][warp];
                sums[threadIdx.x] = sum;
            }
            __syncthreads();
            // All cells at the first time, so that what lies together is written together; then those of the pairs alone.
            for (u64 e = team.lane; inside && e < experts; e += lanes) {
                u32 j = 0;
                while (j < here && experts_of[j] != I(e)) j++;
                if (j < here || known == 0) result[e * stride_gw.v[1]] = narrow<P>(j < here ? sums[j] : A(0));
            }
            __syncthreads();
        }
    }
    // Experts that a smaller team's token does not go to, and what is wrong with a token's cells.
    for (u64 e = team.lane; !BLOCK && inside && e < experts; e += lanes) {
        if (pair_of(cells, step_map, most, n, u32(e)) == n) result[e * stride_gw.v[1]] = narrow<P>(A(0));
    }
    for (u32 j = team.lane; j < n; j += lanes) {
        i64 row = checked(cells[j * step_map], rows, faults, token * width + j, true);
        if (row >= 0) checked(cells[(most + j) * step_map], experts, faults, token * width + most + j, true);
    }
}
