// The compact map of a routing, in three launches. A tile is TILE tokens, in GROUPS groups of 32. What is read of the
// routing is kept as bits: the word of a group and an expert says which of the group's tokens go to the expert, so that the
// number of a token's predecessors is a count of bits. Blocks never wait for each other: `collect` counts each tile's
// tokens by expert, `scan` adds up the tiles before each, `place` numbers rows. All counts are integers, so no order of
// blocks shows in the result.

constexpr u32 GROUPS = 2, TILE = 32 * GROUPS, THREADS = 128;
// Tokens whose elements a warp has under way at once.
constexpr u32 AHEAD = 16;

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
    u64 tile = blockIdx.x, first = tile * TILE;
    for (u64 r = thread_index(); r < rows; r += u64(gridDim.x) * THREADS) source[r * stride_source] = I(-1);
    if (threadIdx.x < TILE) chosen[threadIdx.x] = 0;
    __syncthreads();
    u32* own = reinterpret_cast<u32*>(words) + tile * GROUPS * experts;
    u32 units = GROUPS * ((experts + 32 * V - 1) / (32 * V));
    for (u32 unit = warp; unit < units; unit += THREADS / 32) {
        u32 group = unit % GROUPS, e = (unit / GROUPS * 32 + lane) * V;
        u64 from = first + group * 32;
        u32 bits[V] = {}, count = 0;
        for (u32 half = 0; half < 32; half += AHEAD) {
            Vector<M, V> x[AHEAD];
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++) {
                u64 t = from + half + i;
                bool inside = t < tokens && e < experts;
                x[i] = inside ? Vector<M, V>::load(routed + t * stride_token + u64(e) * stride_expert)
                              : Vector<M, V>::splat(M(0));
            }
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++) {
#pragma unroll
                for (u32 v = 0; v < V; v++) {
                    bool on = x[i].v[v] != M(0);
                    bits[v] |= u32(on) << (half + i);
                    u32 others = __ballot_sync(0xFFFFFFFFu, on);
                    if (lane == half + i) count += __popc(others);
                }
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

// A block turns the counts of 32 experts into sums over the tiles before each: 32 lanes of EACH tiles at once.
constexpr u32 EACH = 8;
KERNEL(scan) {
    __shared__ u32 sums[32][32];
    u32 x = threadIdx.x % 32, y = threadIdx.x / 32, e = blockIdx.x * 32 + x, total = 0;
    for (u64 from = 0; from < tiles; from += 32 * EACH) {
        u32 count[EACH], sum = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            u64 tile = from + y * EACH + i;
            count[i] = e < experts && tile < tiles ? u32(counted[tile * experts + e]) : 0u;
            sum += count[i];
        }
        sums[y][x] = sum;
        __syncthreads();
        u32 before = total;
#pragma unroll
        for (u32 l = 0; l < 32; l++) {
            u32 part = sums[l][x];
            if (l < y) before += part;
            total += part;
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            u64 tile = from + y * EACH + i;
            if (e < experts && tile < tiles) counted[tile * experts + e] = i32(before);
            before += count[i];
        }
    }
    if (y == 0 && e < experts) totals[e] = i32(total);
}

// A block numbers the rows of a tile's pairs; the first block writes what is known of each expert.
KERNEL(place) {
    __shared__ u64 begin[EXPERTS];
    __shared__ u64 sums[THREADS / 32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 tile = blockIdx.x, first = tile * TILE, base = 0;
    for (u32 from = 0; from < experts; from += THREADS) {
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
        for (u32 w = 0; w < THREADS / 32; w++) {
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
    u32 width = 2 * most + 1, cells = u32(min(u64(TILE), tokens - first)) * width;
    for (u32 c = threadIdx.x; c < cells; c += THREADS) {
        map[(first + c / width) * stride_token + (c % width) * stride_cell] = I(-1);
    }
    __syncthreads();
    u64 token = first + warp * 32 + lane;
    if (warp >= GROUPS) return;
    const u32* tiled = reinterpret_cast<const u32*>(words) + tile * GROUPS * experts;
    I* cell = map + token * stride_token;
    u32 below = (1u << lane) - 1, n = 0;
    for (u32 w = (experts + 31) / 32; w-- > 0;) {
        u32 at = w * 32 + lane;
        u32 mine = transposed(at < experts ? tiled[warp * experts + at] : 0u);
        // From the highest expert down.
        while (mine != 0) {
            u32 bit = 31 - __clz(mine), e = w * 32 + bit;
            mine ^= 1u << bit;
            u64 row = begin[e] + __popc(tiled[warp * experts + e] & below);
            for (u32 g = 0; g < warp; g++) row += __popc(tiled[g * experts + e]);
            if (row >= rows) continue;
            cell[n * stride_cell] = I(row);
            cell[(most + n) * stride_cell] = I(e);
            source[row * stride_source] = I(token * most + n);
            n++;
        }
        __syncwarp();
    }
    if (token < tokens) cell[2 * most * stride_cell] = I(n);
}
