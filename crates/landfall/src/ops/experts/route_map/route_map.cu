// The compact map of a routing, in two launches. A tile is a whole number of groups of 32 tokens. `collect` reads the routing
// once: it lists each token's experts and, of each such pair, how many tokens of its tile go to the expert before it, and
// counts each tile's tokens by expert. Blocks never wait for each other: each block of `place` adds up the counts of all tiles
// itself before it numbers its own tile's rows. So there are few tiles, about one a multiprocessor, however many tokens: all
// blocks together read the counts as often as there are tiles. All counts are integers, so no order of blocks shows in the
// result.

// Groups that a block of `collect` has in hand at most: a pass. A thread has DEPTH reads under way: 64 KB a block, which a
// multiprocessor needs while memory answers. So many threads also keep a second block away, which would wait for the same
// memory: in a graph, blocks come as those of the kernel before leave, where they find room first.
constexpr u32 GROUPS = 8, THREADS = 1024, DEPTH = 4;
// Lanes that number the pairs of a token, and experts of a token that are listed.
constexpr u32 LANES = 8, SLOTS = 32;

// A pair as `collect` leaves it: from the low bits up, the tokens of the tile that go to the expert before this one (fewer than
// 2^13); the expert (fewer than 2^12); in the highest bit, whether it is its token's last. NONE has a higher expert than any.
constexpr u32 NONE = ~0u, LAST = 1u << 31;
DEVICE u32 expert_of(u32 pair) { return pair >> 16 & 0x7FFFu; }

// Which of neighbouring cells are not 0, a bit each.
template <class T, int N> DEVICE u32 chosen_of(const Vector<T, N>& x) {
    u32 bits = 0;
    if constexpr (sizeof(T) == 1 && N >= 4) {
        Vector<u32, N / 4> four;
        four.word = x.word;
        // The highest bit of each byte that is not 0: the sum carries into it, or it was set. The product has them side by side.
#pragma unroll
        for (int i = N / 4; i-- > 0;) {
            u32 on = ((four.v[i] & 0x7F7F7F7Fu) + 0x7F7F7F7Fu | four.v[i]) & 0x80808080u;
            bits = bits << 4 | on * 0x00204081u >> 28;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) bits |= u32(x.v[i] != T(0)) << i;
    }
    return bits;
}

// A block reads a tile, a pass at a time, V neighbouring experts of a token a thread.
KERNEL(collect) {
    // Of each token of the pass, its experts as they were found, as many as there is room for, and how many they are.
    extern __shared__ uint4 listed[];
    u32 span = pass * 32;
    u16* slots = reinterpret_cast<u16*>(listed);
    u32* found = reinterpret_cast<u32*>(slots + span * SLOTS);
    // Of each group of the pass and expert, which tokens go to it; of each expert, the tile's tokens so far; of each group and
    // expert, the expert's tokens in the tile's groups before.
    u32 *words = found + span, *tally = words + (pass * experts + 3) / 4 * 4;
    u16* ahead = reinterpret_cast<u16*>(tally + experts);
    u64 tile = blockIdx.x, start = tile * groups * 32;
    u32 behind = u32(min(tokens - start, u64(groups) * 32));
    // The block reads `high` tokens at once, each by a power of two of threads that lie side by side, V experts a thread.
    u32 units = experts / V, shift = min(32 - __clz(units - 1), 31 - __clz(THREADS)), high = THREADS >> shift;
    u32 from = 0;
    do {
        u64 first = start + from;
        u32 inside = min(span, behind - from);
        for (u32 left = 0; left < units; left += 1 << shift) {
            u32 unit = left + (threadIdx.x & (1 << shift) - 1), stop = unit < units ? inside : 0, e = unit * V;
            u32 t = threadIdx.x >> shift;
            const M* next = routed + (first + t) * routed.stride.v[0] + e * routed.stride.v[1];
            Vector<M, V> x[DEPTH];
            // Asks for DEPTH tokens from this one on.
            auto ask = [&](u32 token) {
#pragma unroll
                for (u32 i = 0; i < DEPTH; i++) {
                    if (token + i * high < stop) x[i] = Vector<M, V>::load(next);
                    next += high * routed.stride.v[0];
                }
            };
            ask(t);
            if (left == 0) {
                u32 clear = span * (SLOTS / 8) + (span + pass * experts + 3) / 4;
                for (u32 i = threadIdx.x; i < clear; i += THREADS) listed[i] = {};
                if (from == 0) for (u32 i = threadIdx.x; i < experts; i += THREADS) tally[i] = 0;
                __syncthreads();
            }
            while (t < stop) {
                // Of all that were asked for, so that a warp goes round as often as one of its threads has pairs, not each.
                u64 on = 0;
#pragma unroll
                for (u32 i = 0; i < DEPTH; i++) {
                    if (t + i * high < stop) on |= u64(chosen_of(x[i])) << i * V;
                }
                u32 now = t;
                t += DEPTH * high;
                ask(t);
                for (; on != 0; on &= on - 1) {
                    u32 bit = u32(__ffsll(on)) - 1, token = now + bit / V * high, expert = e + bit % V;
                    u32 slot = atomicAdd(found + token, 1u);
                    atomicOr(words + token / 32 * experts + expert, 1u << token % 32);
                    if (slot < SLOTS) slots[token * SLOTS + slot] = u16(expert);
                }
            }
        }
        __syncthreads();
        bool again = false;
        do {
            for (u32 e = threadIdx.x; e < experts; e += THREADS) {
                u32 upto = again ? ahead[e] : tally[e], x[GROUPS];
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) x[g] = g < pass ? words[g * experts + e] : 0;
#pragma unroll
                for (u32 g = 0; g < GROUPS; g++) {
                    if (g < pass) ahead[g * experts + e] = u16(upto);
                    upto += __popc(x[g]);
                }
                tally[e] = upto;
            }
            __syncthreads();
            bool second = again;
            again = false;
            // LANES threads a token; all of a warp's tokens are of one group, and all of a thread's have one bit there.
            u32 lane = threadIdx.x % LANES, bit = 1u << threadIdx.x / LANES % 32;
            u32* own = reinterpret_cast<u32*>(pairs) + first * most;
            for (u32 t = threadIdx.x / LANES; t < inside; t += THREADS / LANES) {
                u32 all = found[t], kept = min(all, most), of = t / 32 * experts;
                auto put = [&](u32 j, u32 e) {
                    u32 before = ahead[of + e] + __popc(words[of + e] & bit - 1);
                    own[t * most + j] = (j + 1 == kept ? LAST : 0) | e << 16 | before;
                };
                for (u32 j = kept + lane; j < most; j += LANES) own[t * most + j] = NONE;
                if (all <= min(most, SLOTS)) {
                    for (u32 s = lane; s < all; s += LANES) {
                        // Its place is the number of those above it. Of two numbers below 2^15 at once: a difference from
                        // one leaves the highest bit where the other is not above.
                        u32 e = slots[t * SLOTS + s], least = e * 0x10001u | 0x80008000u, above = 0;
                        for (u32 i = 0; i * 8 < all; i++) {
                            uint4 x = listed[t * (SLOTS / 8) + i];
                            above += (~(least - x.x) >> 15 & 0x10001u) + (~(least - x.y) >> 15 & 0x10001u);
                            above += (~(least - x.z) >> 15 & 0x10001u) + (~(least - x.w) >> 15 & 0x10001u);
                        }
                        put((above & 0xFFFFu) + (above >> 16), e);
                    }
                    continue;
                }
                // From the highest expert down, LANES at a time. A token of more than `most` keeps the highest; then all is
                // numbered once more.
                u32 shift = threadIdx.x % 32 / LANES * LANES, team = (1u << LANES) - 1 << shift;
                for (u32 top = experts, upto = 0; top > 0; top -= min(top, LANES)) {
                    u32 e = top - 1 - min(lane, top - 1);
                    bool goes = lane < top && words[of + e] & bit;
                    u32 on = __ballot_sync(team, goes) >> shift, j = upto + __popc(on & (1u << lane) - 1);
                    if (goes && j < kept) put(j, e);
                    else if (goes) atomicAnd(words + of + e, ~bit);
                    upto += __popc(on & (1u << LANES) - 1);
                }
                if (all > most && !second) {
                    again = true;
                    if (lane == 0) flag(faults, first + t, all, u64(most) + 1);
                }
            }
            again = __syncthreads_or(again);
        } while (again);
        from += span;
    } while (from < behind);
    // Half a word each, in rows of whole sixteen bytes.
    u32 across = (experts + 7) / 8 * 8;
    u16* row = reinterpret_cast<u16*>(counted) + tile * across;
    for (u32 e = threadIdx.x; e < across; e += THREADS) row[e] = e < experts ? u16(tally[e]) : u16(0);
}

// A block adds up the counts and numbers the rows of a tile's pairs; the first block writes what is known of each expert. A
// lane adds up eight experts of EACH tiles, two in a word: EACH tiles have fewer than 2^16 tokens. One block a multiprocessor:
// the compiler then asks for all counts at once, which takes registers, and in a graph no second block shares its memory.
constexpr u32 PLACERS = 512, EACH = 8, WARPS = PLACERS / 32, EXPERTS = 256;
static_assert(PLACERS == 2 * EXPERTS, "a thread for the pairs before each expert's, and one for its rows");
// Numbers of rows, and offsets of cells: half as long where all are below 2^31. A block's time is its instructions.
template <bool> struct Number { typedef u32 type; };
template <> struct Number<false> { typedef u64 type; };
typedef Number<SHORT != 0>::type N;
DEVICE u32 warp_sum(u32 x) { return __reduce_add_sync(0xFFFFFFFFu, x); }
DEVICE u64 warp_sum(u64 x) { return warp_all<Sum>(x); }
KERNEL(place, __launch_bounds__(PLACERS, 1)) {
    // What the tile has of the map, where that is put together first. Then the first row of each expert in this tile, or `rows`
    // where that is beyond, and of each expert the tile's pairs before its own.
    extern __shared__ uint4 staged[];
    constexpr u32 AHEAD = 4;
    u32 wide = 2 * most + 1, room = SHORT && groups * 32 * most <= AHEAD * PLACERS ? groups * 32 * wide * sizeof(I) / 16 : 0;
    N* begin = reinterpret_cast<N*>(staged + room);
    u32* local = reinterpret_cast<u32*>(begin + experts);
    // Of EXPERTS experts, by warp, the tokens in its tiles before this one and in all its tiles; the former added up; by warp, of
    // its experts the tile's pairs, or the rows.
    __shared__ uint4 lower[2 * WARPS][EXPERTS / 8];
    uint4 (*whole)[EXPERTS / 8] = lower + WARPS;
    __shared__ u32 befores[EXPERTS];
    __shared__ N sums[WARPS];
    // Then the rows of the tile's pairs in order, with the pairs, where they are no more than threads hold.
    uint2* sorted = reinterpret_cast<uint2*>(lower);
    static_assert(AHEAD * PLACERS * sizeof(uint2) <= sizeof(lower), "the pairs by row fit");
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 tile = blockIdx.x, tiles = gridDim.x;
    N first = N(tile) * groups * 32, start = first * most;
    u32 inside = u32(min(N(groups) * 32, N(tokens) - first)), n = inside * most, pair[AHEAD];
    const u32* own = reinterpret_cast<const u32*>(pairs) + start;
    N base = 0, end = N(rows);
    u32 placed = 0;
    bool rowing = threadIdx.x >= EXPERTS;
    for (u32 from = 0; from < experts; from += EXPERTS) {
        u32 at = threadIdx.x % EXPERTS, e = from + at, octets = (experts + 7) / 8, octet = min(from / 8 + lane, octets - 1);
        bool there = e < experts;
        u32 here = there ? reinterpret_cast<const u16*>(counted)[tile * octets * 8 + e] : 0, total = 0;
        for (u32 some = 0; some < tiles; some += WARPS * EACH) {
            uint4 x[EACH], low = {}, all = {};
            u32 mine = some + warp * EACH;
            // All are asked for, that of the last tile in place of those behind it, before any is looked at.
            const uint4* row = reinterpret_cast<const uint4*>(counted);
#pragma unroll
            for (u32 i = 0; i < EACH; i++) x[i] = row[min(mine + i, tiles - 1) * octets + octet];
            if (from + some > 0) __syncthreads();
            else {
#pragma unroll
                for (u32 i = 0; i < AHEAD; i++) {
                    u32 c = i * PLACERS + threadIdx.x;
                    pair[i] = c < n ? own[c] : NONE;
                }
            }
            auto add = [](uint4& sum, const uint4& x) {
                sum.x += x.x;
                sum.y += x.y;
                sum.z += x.z;
                sum.w += x.w;
            };
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
                if (mine + i == tile) low = all;
                if (mine + i < tiles) add(all, x[i]);
            }
            lower[warp][lane] = mine + EACH <= tile ? all : low;
            whole[warp][lane] = all;
            __syncthreads();
            const u16* part = reinterpret_cast<const u16*>(rowing ? whole : lower) + at;
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) total += part[w * EXPERTS];
        }
        if (!there) total = 0;
        // Of the expert: its rows with those between them and the next one's.
        N taken = align == 1 ? N(total) : (N(total) + N(align) - 1) / N(align) * N(align);
        N own_part = rowing ? taken : N(here), sum = own_part;
        if (!rowing) befores[at] = total;
#pragma unroll
        for (u32 d = 1; d < 32; d *= 2) {
            N under = __shfl_up_sync(0xFFFFFFFFu, sum, d);
            if (lane >= d) sum += under;
        }
        if (lane == 31) sums[warp] = sum;
        __syncthreads();
        // Of the warps before this one that see to the same, and of all that see to either.
        N other = lane < WARPS ? sums[lane] : N(0);
        bool rows_there = lane >= WARPS / 2;
        N row = sum - own_part + (rowing ? base : N(placed)) + warp_sum(lane < warp && rows_there == rowing ? other : N(0));
        base += warp_sum(rows_there ? other : N(0));
        placed += u32(warp_sum(rows_there ? N(0) : other));
        if (there && !rowing) local[e] = u32(row);
        if (there && rowing) begin[e] = min(row + befores[at], end);
        if (there && rowing && tile == 0) {
            counts[e * counts.stride.v[0]] = I(min(row + total, end) - min(row, end));
            offsets[e * offsets.stride.v[0]] = I(min(row, end));
        }
        if (align == 1) continue;
        // The rows between an expert's last and the next expert's first: a warp of one of the blocks.
        N gap = row + total, behind = min(row + taken, end);
        u32 left = __ballot_sync(0xFFFFFFFFu, there && rowing && e % tiles == tile && gap < behind);
        for (; left != 0; left &= left - 1) {
            u32 of = 31 - __clz(left & 0u - left);
            N stop = __shfl_sync(0xFFFFFFFFu, behind, of);
            for (N r = __shfl_sync(0xFFFFFFFFu, gap, of) + lane; r < stop; r += 32) source[r * N(source.stride.v[0])] = I(-1);
        }
    }
    if (tile == 0 && threadIdx.x == 0) offsets[experts * offsets.stride.v[0]] = I(min(base, end));
    for (N r = base + tile * PLACERS + threadIdx.x; r < end; r += tiles * PLACERS) source[r * N(source.stride.v[0])] = I(-1);
    __syncthreads();
    I* cells = map + first * map.stride.v[0];
    u32 token = threadIdx.x / most, number = threadIdx.x % most, tokens_on = PLACERS / most, numbers_on = PLACERS % most;
    auto on = [&] {
        token += tokens_on;
        number += numbers_on;
        if (number >= most) {
            number -= most;
            token++;
        }
    };
    if (room > 0 && base <= end) {
        // All at once, so that no pair waits for another's.
        I* part = reinterpret_cast<I*>(staged);
        u32 words = inside * wide;
        u32 row[AHEAD], at[AHEAD];
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            u32 e = pair[i] == NONE ? 0 : expert_of(pair[i]);
            row[i] = u32(begin[e]) + (pair[i] & 0xFFFFu);
            at[i] = local[e] + (pair[i] & 0xFFFFu);
        }
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            u32 c = i * PLACERS + threadIdx.x, cell = token * wide + number;
            bool there = pair[i] != NONE;
            if (there) sorted[at[i]] = {row[i], c};
            if (c < n) {
                part[cell] = there ? I(row[i]) : I(-1);
                part[cell + most] = there ? I(expert_of(pair[i])) : I(-1);
                if (there ? pair[i] & LAST : number == 0) part[token * wide + 2 * most] = I(there ? number + 1 : 0);
            }
            on();
        }
        __syncthreads();
        constexpr u32 IN = 16 / sizeof(I);
#pragma unroll 1
        for (u32 i = threadIdx.x; i < words / IN; i += PLACERS) reinterpret_cast<uint4*>(cells)[i] = staged[i];
        u32 left = words / IN * IN + threadIdx.x;
        if (left < words) cells[left] = part[left];
        // Neighbouring threads write neighbouring rows.
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            u32 k = i * PLACERS + threadIdx.x;
            uint2 x = sorted[k];
            if (k < placed) source[x.x * N(source.stride.v[0])] = I(start + x.y);
        }
        return;
    }
    auto row_of = [&](u32 pair) { return begin[expert_of(pair)] + (pair & 0xFFFFu); };
    for (u32 from = 0; from < n; from += PLACERS) {
        u32 c = from + threadIdx.x;
        if (c >= n) break;
        // Rows grow with the expert, so the pairs of a token that have no room are its first: the others move up.
        const u32* mine = own + token * most;
        u32 dropped = 0;
        if (base > end) {
            for (u32 to = most; dropped < to;) {
                u32 middle = (dropped + to) / 2;
                if (mine[middle] != NONE && row_of(mine[middle]) >= end) dropped = middle + 1;
                else to = middle;
            }
        }
        u32 p = number + dropped < most ? mine[number + dropped] : NONE;
        bool there = p != NONE;
        N row = there ? row_of(p) : N(0), cell = token * N(map.stride.v[0]) + number * N(map.stride.v[1]), behind = most * N(map.stride.v[1]);
        cells[cell] = there ? I(row) : I(-1);
        cells[cell + behind] = there ? I(expert_of(p)) : I(-1);
        if (there ? p & LAST : number == 0) cells[token * N(map.stride.v[0]) + 2 * behind] = I(there ? number + 1 : 0);
        if (there) source[row * N(source.stride.v[0])] = I(start + c);
        on();
    }
}
