// A team a token: its row of `gz` is multiplied by the rows of its pairs for the weights, and written to them by the
// weights. The first `clear` blocks write zeros in the rows that no token has. (With `rows.cu`.)

// Units of a row under way in a thread; pairs that share the units of `gz`; pairs whose sums the block adds up together.
constexpr u32 U = 2, PAIRS = 2, SUMS = 32;

KERNEL(unpermute_grad) {
    __shared__ A partial[SUMS][16];
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
    // Teams of one warp go on together: as long as one of them has pairs.
    u32 longest = warp_all<Max>(n);
    for (u32 first = 0; first < longest; first += PAIRS) {
        I row[PAIRS];
        A factor[PAIRS], dot[PAIRS];
#pragma unroll
        for (u32 i = 0; i < PAIRS; i++) {
            u32 j = first + i;
            row[i] = I(j < n ? checked(cells[j * step_map], rows, faults, 0, false) : -1);
            i64 expert = row[i] >= 0 ? checked(cells[(most + j) * step_map], experts, faults, 0, false) : -1;
            if (expert < 0) row[i] = I(-1);
            factor[i] = expert >= 0 ? A(widen(own[expert * stride_w.v[1]])) : A(0);
            dot[i] = A(0);
        }
        for (u64 c = team.lane; c < units; c += U * lanes) {
            Unit unit[PAIRS][U];
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) read(unit[i], y + i64(row[i]) * stride_y.v[0], row[i] >= 0, c, stride_y.v[1]);
            if (!stays) read(g, from, inside, c, stride_gz.v[1]);
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                if (row[i] < 0) continue;
#pragma unroll
                for (u32 u = 0; u < U; u++) {
                    u64 at = c + u * lanes;
                    Unit out;
#pragma unroll
                    for (u32 v = 0; v < V; v++) {
                        A cotangent = widen(g[u].v[v]);
                        dot[i] += A(widen(unit[i][u].v[v])) * cotangent;
                        out.v[v] = narrow<T>(factor[i] * cotangent);
                    }
                    if (at < units) put_last(out, gy + i64(row[i]) * stride_gy.v[0], at, stride_gy.v[1]);
                }
            }
        }
#pragma unroll
        for (u32 i = 0; i < PAIRS; i++) {
            for (u32 d = min(lanes, 32u) / 2; d > 0; d /= 2) dot[i] += __shfl_xor_sync(0xFFFFFFFFu, dot[i], d);
            if (lanes > 32) {
                if (threadIdx.x % 32 == 0) partial[(first + i) % SUMS][threadIdx.x / 32] = dot[i];
            } else if (team.lane == 0 && row[i] >= 0) {
                i64 e = checked(cells[(most + first + i) * step_map], experts, faults, 0, false);
                if (e >= 0) result[e * stride_gw.v[1]] = narrow<P>(dot[i]);
            }
        }
        // A team of several warps is a block, so all of its threads are here together.
        bool full = first % SUMS + PAIRS == SUMS || first + PAIRS >= longest;
        if (lanes <= 32 || !full) continue;
        __syncthreads();
        u32 j = first / SUMS * SUMS + threadIdx.x;
        if (threadIdx.x < SUMS && j < min(n, first + PAIRS)) {
            i64 r = checked(cells[j * step_map], rows, faults, 0, false);
            i64 e = checked(cells[(most + j) * step_map], experts, faults, 0, false);
            A sum = A(0);
            for (u32 warp = 0; warp < lanes / 32; warp++) sum += partial[threadIdx.x][warp];
            if (r >= 0 && e >= 0) result[e * stride_gw.v[1]] = narrow<P>(sum);
        }
        __syncthreads();
    }
    // Experts that the token does not go to, and what is wrong with its cells.
    for (u64 e = team.lane; inside && e < experts; e += lanes) {
        if (pair_of(cells, step_map, most, n, u32(e)) == n) {
            result[e * stride_gw.v[1]] = narrow<P>(typename Accumulate<P>::type(0));
        }
    }
    for (u32 j = team.lane; j < n; j += lanes) {
        i64 row = checked(cells[j * step_map], rows, faults, token * width + j, true);
        if (row >= 0) checked(cells[(most + j) * step_map], experts, faults, token * width + most + j, true);
    }
}
