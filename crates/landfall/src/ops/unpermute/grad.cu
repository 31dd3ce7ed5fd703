// A team a token: its row of `gz` is multiplied by the rows of its pairs for the weights, and written to them by the
// weights. The first `clear` blocks write zeros where no pair is: in the rows that no token has, and in the weights'
// gradient. So a team has nothing else to do before its first row. (With `rows.cu`.)

// Pairs that a team of several warps looks up together; pairs whose rows are under way together; warps of a block.
constexpr u32 TOGETHER = 32, PAIRS = 1, WARPS = 16;

// Where a pair's row is, which expert's it is, and what it is multiplied by; no row where the map is wrong.
struct Pair {
    i64 row, expert;
    A factor;
};

DEVICE void clear_weights(const I* map, Dims stride_map, P* gw, Dims stride_gw, u64 tokens, u64 experts, u32 most) {
    u64 from = u64(blockIdx.x) * 32, cells = from < tokens ? min(tokens - from, u64(32)) * experts : 0;
    for (u64 i = threadIdx.x; i < cells; i += blockDim.x) {
        u64 t = i / experts, e = i - t * experts, token = from + t;
        const I* own = map + token * stride_map.v[0];
        i64 n = min(max(i64(own[2 * most * stride_map.v[1]]), i64(0)), i64(most));
        if (pair_of(own, stride_map.v[1], most, u32(n), u32(e)) < n) continue;
        gw[token * stride_gw.v[0] + e * stride_gw.v[1]] = narrow<P>(typename Accumulate<P>::type(0));
    }
}

KERNEL(unpermute_grad) {
    __shared__ A partial[TOGETHER][WARPS];
    __shared__ Pair pairs[TOGETHER];
    if (blockIdx.x < clear) {
        clear_rows(source, stride_source, gy, stride_gy.v[0], stride_gy.v[1], rows, units);
        clear_weights(map, stride_map, gw, stride_gw, tokens, experts, most);
        return;
    }
    Team team = team_of(lanes, blockIdx.x - clear);
    // A team of several warps is a block: what it looks up, and its sums, go through shared memory.
    bool block = lanes > 32;
    u64 token = team.index, step_map = stride_map.v[1], position = token * (2 * u64(most) + 1);
    bool inside = token < tokens;
    if (!inside) token = 0;
    const I* cells = map + token * stride_map.v[0];
    const P* own = w + token * stride_w.v[0];
    P* result = gw + token * stride_gw.v[0];
    const T* from = gz + token * stride_gz.v[0];
    u32 n = inside ? pair_count(cells, step_map, most, faults, position, team.lane == 0) : 0;
    auto look_up = [&](u32 j, bool report) {
        Pair pair = {-1, -1, A(0)};
        if (j >= n) return pair;
        i64 row = checked(cells[j * step_map], rows, faults, position + j, report);
        pair.expert = checked(cells[(most + j) * step_map], experts, faults, position + most + j, report);
        if (pair.expert < 0) return pair;
        pair.row = row;
        pair.factor = A(widen(own[pair.expert * stride_w.v[1]]));
        return pair;
    };
    // Teams of one warp go on together: as long as one of them has pairs.
    u32 longest = warp_all<Max>(n);
    for (u32 first = 0; first < longest; first += TOGETHER) {
        u32 end = min(longest, first + TOGETHER);
        if (block) {
            // The weights are far apart: all of them are waited for once.
            if (threadIdx.x < TOGETHER) pairs[threadIdx.x] = look_up(first + threadIdx.x, true);
            __syncthreads();
        }
        for (u32 j = first; j < end; j += PAIRS) {
            Pair pair[PAIRS];
            A dot[PAIRS];
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                pair[i] = block ? pairs[(j + i) % TOGETHER] : look_up(j + i, team.lane == 0);
                dot[i] = A(0);
            }
            for (u64 c = team.lane; c < units; c += U * lanes) {
                Unit g[U], unit[PAIRS][U];
#pragma unroll
                for (u32 u = 0; u < U; u++) {
                    u64 at = c + u * lanes;
                    g[u] = inside && at < units ? fetch(from, at, stride_gz.v[1]) : nothing();
                }
#pragma unroll
                for (u32 i = 0; i < PAIRS; i++) {
                    const T* read = y + pair[i].row * i64(stride_y.v[0]);
#pragma unroll
                    for (u32 u = 0; u < U; u++) {
                        u64 at = c + u * lanes;
                        unit[i][u] = pair[i].row >= 0 && at < units ? fetch(read, at, stride_y.v[1]) : nothing();
                    }
                }
#pragma unroll
                for (u32 i = 0; i < PAIRS; i++) {
                    if (pair[i].row < 0) continue;
                    T* to = gy + pair[i].row * i64(stride_gy.v[0]);
#pragma unroll
                    for (u32 u = 0; u < U; u++) {
                        u64 at = c + u * lanes;
                        Unit out;
#pragma unroll
                        for (u32 v = 0; v < V; v++) {
                            A cotangent = widen(g[u].v[v]);
                            dot[i] += A(widen(unit[i][u].v[v])) * cotangent;
                            out.v[v] = narrow<T>(pair[i].factor * cotangent);
                        }
                        if (at < units) put(out, to, at, stride_gy.v[1]);
                    }
                }
            }
#pragma unroll
            for (u32 i = 0; i < PAIRS; i++) {
                for (u32 d = min(lanes, 32u) / 2; d > 0; d /= 2) dot[i] += __shfl_xor_sync(0xFFFFFFFFu, dot[i], d);
                if (block && threadIdx.x % 32 == 0) partial[(j + i) % TOGETHER][threadIdx.x / 32] = dot[i];
                if (!block && team.lane == 0 && pair[i].row >= 0) {
                    result[pair[i].expert * stride_gw.v[1]] = narrow<P>(dot[i]);
                }
            }
        }
        if (!block) continue;
        __syncthreads();
        Pair mine = pairs[threadIdx.x % TOGETHER];
        if (threadIdx.x < end - first && mine.row >= 0) {
            A sum = A(0);
            for (u32 warp = 0; warp < lanes / 32; warp++) sum += partial[threadIdx.x][warp];
            result[mine.expert * stride_gw.v[1]] = narrow<P>(sum);
        }
        __syncthreads();
    }
}
