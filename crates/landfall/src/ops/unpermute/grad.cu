// A team a token: its row of `gz` is multiplied by the rows of its pairs for the weights, and written to them by the
// weights. The first `clear` blocks write zeros where no pair is: in the rows that no token has, and in the weights'
// gradient. So a team has nothing else to do before its first row. (With `rows.cu`.)

// Pairs whose sums the block adds up together; warps of a block.
constexpr u32 SUMS = 32, WARPS = 16;

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
    __shared__ A partial[SUMS][WARPS];
    if (blockIdx.x < clear) {
        clear_rows(source, stride_source, gy, stride_gy.v[0], stride_gy.v[1], rows, units);
        clear_weights(map, stride_map, gw, stride_gw, tokens, experts, most);
        return;
    }
    Team team = team_of(lanes, blockIdx.x - clear);
    u64 token = team.index, step_map = stride_map.v[1], width = 2 * u64(most) + 1;
    bool inside = token < tokens;
    if (!inside) token = 0;
    const I* cells = map + token * stride_map.v[0];
    const P* own = w + token * stride_w.v[0];
    P* result = gw + token * stride_gw.v[0];
    const T* from = gz + token * stride_gz.v[0];
    u32 n = inside ? pair_count(cells, step_map, most, faults, token * width, team.lane == 0) : 0;
    for (u32 j = team.lane; j < n; j += lanes) {
        i64 row = checked(cells[j * step_map], rows, faults, token * width + j, true);
        if (row >= 0) checked(cells[(most + j) * step_map], experts, faults, token * width + most + j, true);
    }
    // Teams of one warp go on together: as long as one of them has pairs.
    u32 longest = warp_all<Max>(n);
    for (u32 j = 0; j < longest; j++) {
        i64 row = j < n ? checked(cells[j * step_map], rows, faults, 0, false) : -1;
        i64 expert = row >= 0 ? checked(cells[(most + j) * step_map], experts, faults, 0, false) : -1;
        bool known = expert >= 0;
        A factor = known ? A(widen(own[expert * stride_w.v[1]])) : A(0), dot = A(0);
        const T* read = y + (known ? row : 0) * stride_y.v[0];
        T* written = gy + (known ? row : 0) * stride_gy.v[0];
        for (u64 c = team.lane; known && c < units; c += U * lanes) {
            Unit g[U], unit[U];
#pragma unroll
            for (u32 u = 0; u < U; u++) {
                u64 at = c + u * lanes;
                g[u] = at < units ? fetch(from, at, stride_gz.v[1]) : nothing();
                unit[u] = at < units ? fetch(read, at, stride_y.v[1]) : nothing();
            }
#pragma unroll
            for (u32 u = 0; u < U; u++) {
                u64 at = c + u * lanes;
                Unit out;
#pragma unroll
                for (u32 v = 0; v < V; v++) {
                    A cotangent = widen(g[u].v[v]);
                    dot += A(widen(unit[u].v[v])) * cotangent;
                    out.v[v] = narrow<T>(factor * cotangent);
                }
                if (at < units) put(out, written, at, stride_gy.v[1]);
            }
        }
        for (u32 d = min(lanes, 32u) / 2; d > 0; d /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, d);
        if (lanes <= 32) {
            if (team.lane == 0 && known) result[expert * stride_gw.v[1]] = narrow<P>(dot);
            continue;
        }
        // A team of several warps is a block, so all of its threads are here together.
        if (threadIdx.x % 32 == 0) partial[j % SUMS][threadIdx.x / 32] = dot;
        if (j % SUMS + 1 < SUMS && j + 1 < longest) continue;
        __syncthreads();
        u32 i = j / SUMS * SUMS + threadIdx.x;
        if (threadIdx.x < SUMS && i <= j) {
            i64 r = checked(cells[i * step_map], rows, faults, 0, false);
            i64 e = checked(cells[(most + i) * step_map], experts, faults, 0, false);
            A sum = A(0);
            for (u32 warp = 0; warp < lanes / 32; warp++) sum += partial[threadIdx.x][warp];
            if (r >= 0 && e >= 0) result[e * stride_gw.v[1]] = narrow<P>(sum);
        }
        __syncthreads();
    }
}
