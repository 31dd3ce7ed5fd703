// The compact map of a routing, in two launches. Tokens are in groups of 32, and a tile is a whole number of groups; what is
// read of the routing is kept as bits: the word of a group and an expert says which of the group's tokens go to the expert,
// so that the number of a token's predecessors is a count of bits. Blocks never wait for each other: `collect` counts each
// tile's tokens by expert, and each block of `place` adds up the counts of all tiles itself before it numbers its own tile's
// rows. So there are few tiles, about one a multiprocessor, however many tokens: all blocks together read the counts as often
// as there are tiles. All counts are integers, so no order of blocks shows in the result.

// Groups that a block has in hand at once: a pass. A block of `collect` asks for a whole pass of 256 experts of a byte before
// it looks at any: 64 KB, which a multiprocessor needs under way while memory answers.
constexpr u32 GROUPS = 8, THREADS = 512;

// Bit `lane` of the result of lane t is bit t of `x` of that lane: 32 words of 32 bits with rows and columns exchanged, in
// halves, quarters and so on.
DEVICE u32 transposed(u32 x) {
    u32 lane = threadIdx.x % 32, low = 0x0000FFFFu;
#pragma unroll
    for (u32 d = 16; d > 0; d /= 2) {
        u32 other = __shfl_xor_sync(0xFFFFFFFFu, x, d);
        x = lane & d ? x & ~low | other >> d & low : x & low | other << d & ~low;
        low ^= low << d / 2;
    }
    return x;
}

// Keeps, of each token of a group, the `most` highest experts, and takes the others off the tile's counts. One warp.
DEVICE void trim(u32* words, u32* tally, u32 experts, u32 most) {
    u32 lane = threadIdx.x % 32, left = most;
    for (u32 w = (experts + 31) / 32; w-- > 0;) {
        u32 e = w * 32 + lane, all = e < experts ? words[e] : 0u;
        u32 mine = transposed(all);
        while (__popc(mine) > left) mine &= mine - 1;
        left -= __popc(mine);
        u32 kept = transposed(mine);
        if (e >= experts) continue;
        words[e] = kept;
        atomicSub(&tally[e], __popc(all ^ kept));
    }
}

// Of each of N neighbouring experts, which of a group's 32 tokens, of which `inside` are there, go to it. Asks for as many
// tokens at once as 32 registers hold.
template <class T, u32 N> DEVICE void read(u32 (&bits)[N], const T* at, u64 stride, u32 inside) {
    constexpr u32 ONCE = sizeof(T) * N > 4 ? 16 : 32;
    // Elements of a byte are looked at as they lie, four in a word: packed[i] has bit 7 - t of byte v set where token 8 i + t
    // goes to expert v.
    constexpr bool BYTES = sizeof(T) == 1 && N == 4;
    u32 packed[4] = {};
#pragma unroll
    for (u32 from = 0; from < 32; from += ONCE) {
        Vector<T, N> x[ONCE];
#pragma unroll
        for (u32 i = 0; i < ONCE; i++) {
            x[i] = from + i < inside ? Vector<T, N>::load(at) : Vector<T, N>::splat(T(0));
            at += stride;
        }
        // From the last on: else the compiler saves registers (32 instead of 52) and has ten loads under way.
#pragma unroll
        for (u32 i = ONCE; i-- > 0;) {
            u32 token = from + i;
            if constexpr (BYTES) {
                // The highest bit of each byte that is not 0: the sum carries into it, or it was set.
                u32 word = x[i].word, on = ((word & 0x7F7F7F7Fu) + 0x7F7F7F7Fu | word) & 0x80808080u;
                packed[token / 8] = packed[token / 8] >> 1 | on;
            } else {
#pragma unroll
                for (u32 v = 0; v < N; v++) bits[v] |= u32(x[i].v[v] != T(0)) << token;
            }
        }
    }
    if constexpr (BYTES) {
#pragma unroll
        for (u32 i = 0; i < 4; i++) packed[i] = __brev(packed[i]);
#pragma unroll
        for (u32 v = 0; v < N; v++) {
            u32 take = 3 - v | 7 - v << 4;
            u32 lower = __byte_perm(packed[0], packed[1], take), upper = __byte_perm(packed[2], packed[3], take);
            bits[v] = __byte_perm(lower, upper, 0x5410u);
        }
    }
}

// A block reads a tile, a pass at a time, of each token V neighbouring experts a lane, and opens its share of `source`.
KERNEL(collect) {
    extern __shared__ u32 tally[];  // of each expert, its tokens in this tile
    __shared__ u32 chosen[GROUPS * 32];  // of each token of the pass, its experts
    static_assert(THREADS >= GROUPS * 32, "a thread for each token of a pass");
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 tile = blockIdx.x, tiles = gridDim.x, start = tile * groups, end = min(start + groups, (tokens + 31) / 32);
    for (u64 r = thread_index(); r < rows; r += tiles * THREADS) source[r * stride_source] = I(-1);
    u32 across = (experts + 3) / 4 * 4;
    for (u32 e = threadIdx.x; e < across; e += THREADS) tally[e] = 0;
    u32 units = GROUPS * ((experts + 32 * V - 1) / (32 * V));
    for (u64 from = start; from < end; from += GROUPS) {
        u32* own = reinterpret_cast<u32*>(words) + from * experts;
        if (threadIdx.x < GROUPS * 32) chosen[threadIdx.x] = 0;
        __syncthreads();
        for (u32 unit = warp; unit < units; unit += THREADS / 32) {
            u32 group = unit % GROUPS, e = (unit / GROUPS * 32 + lane) * V, bits[V] = {}, count = 0;
            u64 first = (from + group) * 32;
            if (from + group >= end) continue;
            u32 inside = e < experts ? u32(min(tokens - first, u64(32))) : 0;
            read<M, V>(bits, routed + first * stride_token + e * stride_expert, stride_token, inside);
            if (e < experts) {
                Several<u32, V> kept;
#pragma unroll
                for (u32 v = 0; v < V; v++) {
                    kept.v[v] = bits[v];
                    atomicAdd(&tally[e + v], __popc(bits[v]));
                }
                kept.store_whole(own + group * experts + e);
            }
#pragma unroll
            for (u32 v = 0; v < V; v++) count += __popc(transposed(bits[v]));
            atomicAdd(&chosen[group * 32 + lane], count);
        }
        __syncthreads();
        u32 count = threadIdx.x < GROUPS * 32 ? chosen[threadIdx.x] : 0;
        if (count > most) flag(faults, from * 32 + threadIdx.x, count, u64(most) + 1);
        if (__syncthreads_or(count > most) && warp < GROUPS && from + warp < end) {
            trim(own + warp * experts, tally, experts, most);
        }
    }
    __syncthreads();
    // Half a word each: a tile has fewer than 2^13 tokens.
    u16* row = reinterpret_cast<u16*>(counted) + tile * across;
    for (u32 e = threadIdx.x; e < across; e += THREADS) row[e] = u16(tally[e]);
}

// A block adds up the counts and numbers the rows of a tile's pairs; the first block writes what is known of each expert.
constexpr u32 PLACERS = 1024, EACH = 8;
KERNEL(place) {
    // The first row of each expert in this tile; four experts that lie side by side in the counts are `quads` apart.
    extern __shared__ u64 begin[];
    __shared__ u64 sums[PLACERS / 32];
    __shared__ u32 dropped[GROUPS * 32];
    u32 quads = (experts + 3) / 4;
    auto slot = [&](u32 e) { return e % 4 * quads + e / 4; };
    // Of each token of the pass its experts, a bit each; the odd step spreads tokens over the banks. Of each group of the pass
    // and expert, and behind the last group, the expert's tokens in the tile's groups before.
    u32 width = (experts + 31) / 32, step = width | 1, *chosen = reinterpret_cast<u32*>(begin + 4 * quads);
    u16* ahead = reinterpret_cast<u16*>(chosen + pass * 32 * step);
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 tile = blockIdx.x, tiles = gridDim.x, start = tile * groups, end = min(start + groups, (tokens + 31) / 32);
    auto take = [&](u64 from) {
        const u32* own = reinterpret_cast<const u32*>(words) + from * experts;
        if (threadIdx.x < GROUPS * 32) dropped[threadIdx.x] = 0;
        for (u32 w = warp; w < width; w += PLACERS / 32) {
            u32 e = w * 32 + lane, x[GROUPS], upto = 0;
#pragma unroll
            for (u32 g = 0; g < GROUPS; g++) {
                x[g] = e < experts && g < pass && from + g < end ? own[g * experts + e] : 0u;
            }
            if (from > start && e < experts) upto = ahead[pass * experts + e];
#pragma unroll
            for (u32 g = 0; g < GROUPS; g++) {
                if (g >= pass) break;
                if (e < experts) ahead[g * experts + e] = u16(upto);
                upto += __popc(x[g]);
                chosen[(g * 32 + lane) * step + w] = transposed(x[g]);
            }
            if (e < experts) ahead[pass * experts + e] = u16(upto);
        }
    };
    // Until the scan each place in `begin` holds two sums of an expert: over the tiles before this one, and over all.
    u32* before = reinterpret_cast<u32*>(begin);
    for (u32 i = threadIdx.x; i < 8 * quads; i += PLACERS) before[i] = 0;
    take(start);
    __syncthreads();
    // A thread adds up four experts of EACH tiles, two in a word: EACH tiles have fewer than 2^16 tokens.
    u32 items = u32((tiles + EACH - 1) / EACH) * quads;
    for (u32 item = threadIdx.x; item < items; item += PLACERS) {
        u32 quad = item % quads;
        u64 from = u64(item / quads) * EACH;
        const uint2* at = reinterpret_cast<const uint2*>(counted) + from * quads + quad;
        uint2 x[EACH], lower = {}, all = {};
#pragma unroll
        for (u32 i = 0; i < EACH; i++) x[i] = from + i < tiles ? at[i * quads] : uint2{};
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            if (from + i < tile) {
                lower.x += x[i].x;
                lower.y += x[i].y;
            }
            all.x += x[i].x;
            all.y += x[i].y;
        }
        u32 own[] = {lower.x & 0xFFFFu, lower.x >> 16, lower.y & 0xFFFFu, lower.y >> 16};
        u32 total[] = {all.x & 0xFFFFu, all.x >> 16, all.y & 0xFFFFu, all.y >> 16};
#pragma unroll
        for (u32 v = 0; v < 4; v++) {
            atomicAdd(&before[2 * (v * quads + quad)], own[v]);
            atomicAdd(&before[2 * (v * quads + quad) + 1], total[v]);
        }
    }
    __syncthreads();
    u64 base = 0;
    for (u32 from = 0; from < experts; from += PLACERS) {
        u32 e = from + threadIdx.x;
        u64 count = e < experts ? u64(before[2 * slot(e) + 1]) : 0;
        u64 padded = align == 1 ? count : (count + align - 1) / align * align, sum = padded;
#pragma unroll
        for (u32 d = 1; d < 32; d *= 2) {
            u64 lower = __shfl_up_sync(0xFFFFFFFFu, sum, d);
            if (lane >= d) sum += lower;
        }
        if (lane == 31) sums[warp] = sum;
        __syncthreads();
        u64 whole = lane < PLACERS / 32 ? sums[lane] : 0;
        u64 row = base + warp_all<Sum>(lane < warp ? whole : 0) + sum - padded;
        base += warp_all<Sum>(whole);
        __syncthreads();
        if (e >= experts) continue;
        begin[slot(e)] = row + before[2 * slot(e)];
        if (tile == 0) {
            counts[e * stride_counts] = I(min(row + count, rows) - min(row, rows));
            offsets[e * stride_offsets] = I(min(row, rows));
        }
    }
    if (tile == 0 && threadIdx.x == 0) offsets[experts * stride_offsets] = I(min(base, rows));
    for (u64 from = start; from < end; from += pass) {
        if (from > start) take(from);
        __syncthreads();
        u64 first = from * 32;
        u32 here = u32(min(min(from + pass, end) * 32, tokens) - first);
        const u32* own = reinterpret_cast<const u32*>(words) + from * experts;
        // The j-th pair of token t of the pass, from the highest expert down; without one, no expert.
        struct Pair { i64 expert; u64 row; };
        auto pair_of = [&](u32 t, u32 j) -> Pair {
            const u32* mine = chosen + t * step;
            for (u32 w = width; w-- > 0;) {
                u32 left = mine[w], count = __popc(left);
                if (j >= count) {
                    j -= count;
                    continue;
                }
                while (j-- > 0) left ^= 1u << 31 - __clz(left);
                u32 e = w * 32 + 31 - __clz(left), at = t / 32 * experts + e;
                return {e, begin[slot(e)] + ahead[at] + __popc(own[at] & (1u << t % 32) - 1)};
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
        __syncthreads();
    }
}
