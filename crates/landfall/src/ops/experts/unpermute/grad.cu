// A team a token: its row of `gz` is multiplied by the rows of its pairs for the weights, and written to them by the
// weights. The first `clear` blocks write zeros in the rows that no token has. (With `rows.cu`.)

// Units of each row under way in a thread; pairs that a block knows at once.
constexpr u32 U = 2, KNOWN = 32;

KERNEL(unpermute_grad) {
    // Where a team is a block: of some pairs the rows, experts and weights, −1 where the map has none that can be, and their sums.
    __shared__ A partial[KNOWN][16], sums[KNOWN], weights[KNOWN];
    __shared__ I rows_of[KNOWN], experts_of[KNOWN];
    if (blockIdx.x < clear) {
        clear_rows(source, source.stride.v[0], gy, gy.stride.v[0], gy.stride.v[1], thread_index(), rows, units);
        return;
    }
    // Of a block that is a team, said so plainly that it takes 16 registers less.
    Team team = BLOCK ? Team{lanes, threadIdx.x, blockIdx.x - clear} : team_of(lanes, blockIdx.x - clear);
    u64 token = team.index, step_map = map.stride.v[1], width = 2 * u64(most) + 1;
    bool inside = token < tokens;
    if (!inside) token = 0;
    const I* cells = map + token * map.stride.v[0];
    const T* from = gz + token * gz.stride.v[0];
    u32 n = inside ? pair_count(cells, step_map, most, faults, token * width, team.lane == 0) : 0;
    const P* own = w + token * w.stride.v[0];
    P* result = gw + token * gw.stride.v[0];
    // Row and expert are both there or both −1.
    struct Pair {
        I row, expert;
        A weight;
    };
    auto look = [&](u32 j) -> Pair {
        i64 row = j < n ? checked(cells[j * step_map], rows, faults, 0, false) : -1;
        i64 expert = row >= 0 ? checked(cells[(most + j) * step_map], experts, faults, 0, false) : -1;
        return {I(expert >= 0 ? row : -1), I(expert), expert >= 0 ? A(widen(own[expert * w.stride.v[1]])) : A(0)};
    };
    // Teams of one warp go on together: as long as one of them has pairs.
    u32 longest = BLOCK ? n : warp_all<Max>(n);
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
        // One pair after the other, and the units of `gz` again for each: a thread then has 40 registers, with which three
        // blocks of 448 run on a multiprocessor. Two took 2,057 us where three take 2,002, and four 2,018 (decision 0017).
        for (u32 j = known; j < min(longest, known + KNOWN); j++) {
            Pair pair;
            if constexpr (BLOCK) pair = {rows_of[j - known], I(-1), weights[j - known]};
            else pair = look(j);
            const T* read = y + i64(pair.row) * y.stride.v[0];
            T* write = gy + i64(pair.row) * gy.stride.v[0];
            u32 end = pair.row >= 0 ? u32(units) : 0;
            A dot = A(0);
            for (u32 c = team.lane; c < end; c += U * lanes) {
                Unit values[U], cotangents[U];
#pragma unroll
                for (u32 u = 0; u < U; u++) {
                    u32 at = c + u * lanes;
                    values[u] = at < end ? fetch(read, at, y.stride.v[1]) : nothing();
                    cotangents[u] = at < end ? fetch(from, at, gz.stride.v[1]) : nothing();
                }
#pragma unroll
                for (u32 u = 0; u < U; u++) {
                    u32 at = c + u * lanes;
                    Unit out;
#pragma unroll
                    for (u32 v = 0; v < V; v++) {
                        A cotangent = widen(cotangents[u].v[v]);
                        dot = fused(A(widen(values[u].v[v])), cotangent, dot);
                        out.v[v] = narrow<T>(pair.weight * cotangent);
                    }
                    if (at < end) put(out, write, at, gy.stride.v[1]);
                }
            }
            for (u32 d = BLOCK ? 16 : min(lanes, 32u) / 2; d > 0; d /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, d);
            if constexpr (BLOCK) {
                if (threadIdx.x % 32 == 0) partial[j - known][threadIdx.x / 32] = dot;
            } else if (team.lane == 0 && pair.row >= 0) {
                result[pair.expert * gw.stride.v[1]] = narrow<P>(dot);
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
            for (u32 e = team.lane; inside && e < experts; e += lanes) {
                u32 j = 0;
                while (j < here && experts_of[j] != I(e)) j++;
                if (j < here || known == 0) result[e * gw.stride.v[1]] = narrow<P>(j < here ? sums[j] : A(0));
            }
            __syncthreads();
        }
    }
    // Experts that a smaller team's token does not go to, and what is wrong with a token's cells.
    for (u64 e = team.lane; !BLOCK && inside && e < experts; e += lanes) {
        if (pair_of(cells, step_map, most, n, u32(e)) == n) result[e * gw.stride.v[1]] = narrow<P>(A(0));
    }
    for (u32 j = team.lane; j < n; j += lanes) {
        i64 row = checked(cells[j * step_map], rows, faults, token * width + j, true);
        if (row >= 0) checked(cells[(most + j) * step_map], experts, faults, token * width + most + j, true);
    }
}
