// The compact map of a routing, in three launches. A tile is TILE tokens, in GROUPS groups of 32. What is read of the
// routing is kept as bits: the word of a group and an expert says which of the group's tokens go to the expert, so that the
// number of a token's predecessors is a count of bits. Blocks never wait for each other: `collect` counts each tile's
// tokens by expert, `scan` adds up the tiles before each, `place` numbers rows. All counts are integers, so no order of
// blocks shows in the result.

constexpr u32 GROUPS = 2, TILE = 32 * GROUPS, THREADS = 128;

// Bit `lane` of the result of lane t is bit t of `x` of that lane: 32 words of 32 bits with rows and columns exchanged.
DEVICE u32 transposed(u32 x) {
    u32 lane = threadIdx.x % 32, mine = 0;
#pragma unroll
    for (u32 t = 0; t < 32; t++) {
        u32 word = __ballot_sync(0xFFFFFFFFu, x >> t & 1u);
        if (lane == t) mine = word;
    }
    return mine;
}

// Keeps, of each token of a group, the `most` highest experts. One warp.
DEVICE void trim(u32* words, u32 experts, u32 most) {
    u32 lane = threadIdx.x % 32, left = most;
    for (u32 w = (experts + 31) / 32; w-- > 0;) {
        u32 e = w * 32 + lane;
        u32 mine = transposed(e < experts ? words[e] : 0u);
        while (__popc(mine) > left) mine &= mine - 1;
        left -= __popc(mine);
        u32 kept = transposed(mine);
        if (e < experts) words[e] = kept;
    }
}

// A block reads a tile, of each token V neighbouring experts a lane, and opens its share of `source`.
KERNEL(collect) {
    __shared__ u32 chosen[TILE];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 tile = blockIdx.x, tiles = gridDim.x, first = tile * TILE;
    for (u64 r = thread_index(); r < rows; r += tiles * THREADS) source[r * stride_source] = I(-1);
    if (threadIdx.x < TILE) chosen[threadIdx.x] = 0;
    __syncthreads();
    u32* own = reinterpret_cast<u32*>(words) + tile * GROUPS * experts;
    u32 units = GROUPS * ((experts + 32 * V - 1) / (32 * V));
    for (u32 unit = warp; unit < units; unit += THREADS / 32) {
        u32 group = unit % GROUPS, e = (unit / GROUPS * 32 + lane) * V;
        u64 from = first + group * 32;
        u32 bits[V] = {}, count = 0;
        Vector<M, V> x[32];
#pragma unroll
        for (u32 i = 0; i < 32; i++) {
            bool inside = from + i < tokens && e < experts;
            x[i] = inside ? Vector<M, V>::load(routed + (from + i) * stride_token + u64(e) * stride_expert)
                          : Vector<M, V>::splat(M(0));
        }
#pragma unroll
        for (u32 i = 0; i < 32; i++) {
#pragma unroll
            for (u32 v = 0; v < V; v++) {
                bool on = x[i].v[v] != M(0);
                bits[v] |= u32(on) << i;
                u32 others = __ballot_sync(0xFFFFFFFFu, on);
                if (lane == i) count += __popc(others);
            }
        }
        if (e < experts) {
#pragma unroll
            for (u32 v = 0; v < V; v++) own[group * experts + e + v] = bits[v];
        }
        atomicAdd(&chosen[group * 32 + lane], count);
    }
    __syncthreads();
    bool over = threadIdx.x < TILE && chosen[threadIdx.x % TILE] > most;
    if (over) flag(faults, first + threadIdx.x, chosen[threadIdx.x], u64(most) + 1);
    if (__syncthreads_or(over)) {
        if (warp < GROUPS) trim(own + warp * experts, experts, most);
        __syncthreads();
    }
    for (u32 e = threadIdx.x; e < experts; e += THREADS) {
        u32 count = 0;
#pragma unroll
        for (u32 g = 0; g < GROUPS; g++) count += __popc(own[g * experts + e]);
        counted[tile * experts + e] = i32(count);
    }
}

// A block turns the counts of 32 experts, a lane each, into sums over the tiles before each: a warp takes EACH tiles at once.
constexpr u32 EACH = 16;
KERNEL(scan) {
    __shared__ u32 sums[32][33];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, e = blockIdx.x * 32 + lane, total = 0;
    for (u64 from = 0; from < tiles; from += 32 * EACH) {
        u32 count[EACH], sum = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            u64 tile = from + warp * EACH + i;
            count[i] = e < experts && tile < tiles ? u32(counted[tile * experts + e]) : 0u;
            sum += count[i];
        }
        sums[warp][lane] = sum;
        __syncthreads();
        // Over the warps of an expert, by one warp.
        u32 own = sums[lane][warp], upto = own;
#pragma unroll
        for (u32 d = 1; d < 32; d *= 2) {
            u32 lower = __shfl_up_sync(0xFFFFFFFFu, upto, d);
            if (lane >= d) upto += lower;
        }
        sums[lane][warp] = upto;
        __syncthreads();
        u32 before = total + sums[warp][lane] - sum;
        total += sums[31][lane];
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            u64 tile = from + warp * EACH + i;
            if (e < experts && tile < tiles) counted[tile * experts + e] = i32(before);
            before += count[i];
        }
    }
    if (warp == 0 && e < experts) totals[e] = i32(total);
}

// A block numbers the rows of a tile's pairs; the first block writes what is known of each expert.
constexpr u32 PLACERS = 256;
KERNEL(place) {
    extern __shared__ u64 begin[];  // of each expert, the first row in this tile
    __shared__ u64 sums[PLACERS / 32];
    __shared__ u32 dropped[TILE];
    // Of each token its experts, a bit each; the odd step spreads tokens over the banks.
    u32 width = (experts + 31) / 32, step = width | 1, *chosen = reinterpret_cast<u32*>(begin + experts);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 tile = blockIdx.x, first = tile * TILE, base = 0;
    const u32* tiled = reinterpret_cast<const u32*>(words) + tile * GROUPS * experts;
    if (threadIdx.x < TILE) dropped[threadIdx.x] = 0;
    for (u32 unit = warp; unit < GROUPS * width; unit += PLACERS / 32) {
        u32 group = unit % GROUPS, w = unit / GROUPS, e = w * 32 + lane;
        chosen[(group * 32 + lane) * step + w] = transposed(e < experts ? tiled[group * experts + e] : 0u);
    }
    for (u32 from = 0; from < experts; from += PLACERS) {
        u32 e = from + threadIdx.x;
        u64 count = e < experts ? u64(u32(totals[e])) : 0, padded = (count + align - 1) / align * align;
        u64 sum = padded;
#pragma unroll
        for (u32 d = 1; d < 32; d *= 2) {
            u64 lower = __shfl_up_sync(0xFFFFFFFFu, sum, d);
            if (lane >= d) sum += lower;
        }
        if (lane == 31) sums[warp] = sum;
        __syncthreads();
        u64 start = base + sum - padded;
#pragma unroll
        for (u32 w = 0; w < PLACERS / 32; w++) {
            if (w < warp) start += sums[w];
            base += sums[w];
        }
        __syncthreads();
        if (e >= experts) continue;
        begin[e] = start + u32(counted[tile * experts + e]);
        if (tile == 0) {
            counts[e * stride_counts] = I(min(start + count, rows) - min(start, rows));
            offsets[e * stride_offsets] = I(min(start, rows));
        }
    }
    if (tile == 0 && threadIdx.x == 0) offsets[experts * stride_offsets] = I(min(base, rows));
    __syncthreads();
    u32 here = u32(min(u64(TILE), tokens - first));
    // The j-th pair of token t of the tile, from the highest expert down; without one, no expert.
    struct Pair { i64 expert; u64 row; };
    auto pair_of = [&](u32 t, u32 j) -> Pair {
        const u32* own = chosen + t * step;
        for (u32 w = width; w-- > 0;) {
            u32 left = own[w], count = __popc(left);
            if (j >= count) {
                j -= count;
                continue;
            }
            while (j-- > 0) left ^= 1u << 31 - __clz(left);
            u32 e = w * 32 + 31 - __clz(left), group = t / 32;
            u64 row = begin[e] + __popc(tiled[group * experts + e] & (1u << t % 32) - 1);
            for (u32 g = 0; g < group; g++) row += __popc(tiled[g * experts + e]);
            return {e, row};
        }
        return {-1, 0};
    };
    // Rows grow with the expert, so the pairs of a token that have no room are its first.
    if (base > rows) {
        for (u32 c = threadIdx.x; c < here * most; c += PLACERS) {
            Pair pair = pair_of(c / most, c % most);
            if (pair.expert >= 0 && pair.row >= rows) atomicAdd(&dropped[c / most], 1);
        }
        __syncthreads();
    }
    for (u32 c = threadIdx.x; c < here * most; c += PLACERS) {
        u32 t = c / most, j = c % most;
        Pair pair = pair_of(t, j + dropped[t]);
        bool there = pair.expert >= 0;
        I* cell = map + (first + t) * stride_token;
        cell[j * stride_cell] = there ? I(pair.row) : I(-1);
        cell[(most + j) * stride_cell] = I(pair.expert);
        if (there) source[pair.row * stride_source] = I((first + t) * most + j);
    }
    for (u32 t = threadIdx.x; t < here; t += PLACERS) {
        u32 n = 0;
        for (u32 w = 0; w < width; w++) n += __popc(chosen[t * step + w]);
        map[(first + t) * stride_token + 2 * most * stride_cell] = I(n - dropped[t]);
    }
}
