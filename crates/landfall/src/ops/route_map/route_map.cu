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
    // Of each token of the pass its experts, a bit each; the odd step spreads tokens over the banks.
    extern __shared__ u32 chosen[];
    // Of each group of the pass and expert, which tokens go to it; of each expert, the tile's tokens so far; of each group and
    // expert, the expert's tokens in the tile's groups before.
    u32 width = (experts + 31) / 32, step = width | 1, span = pass * 32, *words = chosen + span * step;
    u32* tally = words + pass * experts;
    u16* ahead = reinterpret_cast<u16*>(tally + experts);
    // Lanes that look for the experts of a token, from the highest down, and words that each looks at.
    constexpr u32 LANES = 8;
    u32 lane = threadIdx.x % LANES, share = (width + LANES - 1) / LANES;
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
            const M* next = routed + (first + t) * stride_token + e * stride_expert;
            Vector<M, V> x[DEPTH];
            // Asks for DEPTH tokens from this one on.
            auto ask = [&](u32 token) {
#pragma unroll
                for (u32 i = 0; i < DEPTH; i++) {
                    if (token + i * high < stop) x[i] = Vector<M, V>::load(next);
                    next += high * stride_token;
                }
            };
            ask(t);
            if (left == 0) {
                u32 clear = span * step + pass * experts + (from == 0 ? experts : 0);
                for (u32 i = threadIdx.x; i < clear; i += THREADS) chosen[i] = 0;
                __syncthreads();
            }
            while (t < stop) {
#pragma unroll
                for (u32 i = 0; i < DEPTH; i++) {
                    u32 token = t + i * high, bits = token < stop ? chosen_of(x[i]) : 0;
                    if (bits == 0) continue;
                    atomicOr(chosen + token * step + e / 32, bits << e % 32);
                    u32* word = words + token / 32 * experts + e;
                    for (; bits != 0; bits &= bits - 1) atomicOr(word + __ffs(bits) - 1, 1u << token % 32);
                }
                t += DEPTH * high;
                ask(t);
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
            // A token of more experts than `most` keeps the highest; then all is numbered once more.
            again = false;
            for (u32 t = threadIdx.x / LANES; t < span; t += THREADS / LANES) {
                u32* mine = chosen + t * step;
                u32 top = width - min(width, lane * share), low = top - min(top, share), count = 0;
                for (u32 w = low; w < top; w++) count += __popc(mine[w]);
                u32 upto = count;
#pragma unroll
                for (u32 d = 1; d < LANES; d *= 2) {
                    u32 before = __shfl_up_sync(0xFFFFFFFFu, upto, d);
                    if (lane >= d) upto += before;
                }
                u32 all = __shfl_sync(0xFFFFFFFFu, upto, threadIdx.x % 32 | LANES - 1), kept = min(all, most), j = upto - count;
                u32* own = reinterpret_cast<u32*>(pairs) + (first + t) * most;
                const u32* word = words + t / 32 * experts;
                const u16* base = ahead + t / 32 * experts;
                for (u32 w = top; w-- > low;) {
                    for (u32 left = mine[w]; left != 0; j++) {
                        u32 bit = 31 - __clz(left), e = w * 32 + bit;
                        left ^= 1u << bit;
                        if (j < kept) {
                            u32 before = base[e] + __popc(word[e] & (1u << t % 32) - 1);
                            own[j] = (j + 1 == kept ? LAST : 0) | e << 16 | before;
                        } else {
                            atomicAnd(mine + w, ~(1u << bit));
                            atomicAnd(words + t / 32 * experts + e, ~(1u << t % 32));
                        }
                    }
                }
                if (t < inside) for (u32 j = kept + lane; j < most; j += LANES) own[j] = NONE;
                if (all > most) {
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
// lane adds up eight experts of EACH tiles, two in a word: EACH tiles have fewer than 2^16 tokens.
constexpr u32 PLACERS = 512, EACH = 8, WARPS = PLACERS / 32, EXPERTS = 256;
KERNEL(place) {
    // The first row of each expert in this tile, or `rows` where that is beyond.
    extern __shared__ I begin[];
    // Of EXPERTS experts, by warp, the tokens in its tiles before this one and in all its tiles; sums of rows.
    __shared__ uint4 lower[2 * WARPS][EXPERTS / 8];
    uint4 (*whole)[EXPERTS / 8] = lower + WARPS;
    __shared__ u64 sums[EXPERTS / 32];
    // Then the tile's pairs by row, where they are no more than a thread holds; of each expert, the tile's pairs before its own.
    constexpr u32 AHEAD = 4;
    uint2* sorted = reinterpret_cast<uint2*>(lower);
    static_assert(AHEAD * PLACERS * sizeof(uint2) <= sizeof(lower), "the pairs by row fit");
    u32* local = reinterpret_cast<u32*>(begin + experts);
    __shared__ u32 shares[EXPERTS / 32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 tile = blockIdx.x, tiles = gridDim.x;
    u64 first = u64(tile) * groups * 32;
    u32 n = u32(min(u64(groups) * 32, tokens - first)) * most, pair[AHEAD];
    const u32* own = reinterpret_cast<const u32*>(pairs) + first * most;
    auto ask = [&](u32 from) {
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            u32 c = from + i * PLACERS + threadIdx.x;
            pair[i] = c < n ? own[c] : NONE;
        }
    };
    ask(0);
    u32 token = threadIdx.x / most, number = threadIdx.x % most, tokens_on = PLACERS / most, numbers_on = PLACERS % most;
    u64 base = 0;
    u32 placed = 0;
    for (u32 from = 0; from < experts; from += EXPERTS) {
        u32 e = from + threadIdx.x, octets = (experts + 7) / 8, octet = min(from / 8 + lane, octets - 1), before = 0, count = 0;
        bool there = threadIdx.x < EXPERTS && e < experts;
        u32 here = there ? reinterpret_cast<const u16*>(counted)[tile * octets * 8 + e] : 0, share = here;
        for (u32 some = 0; some < tiles; some += WARPS * EACH) {
            uint4 x[EACH], low = {}, all = {};
            u32 mine = some + warp * EACH;
            // All are asked for, that of the last tile in place of those behind it, before any is looked at.
            const uint4* row = reinterpret_cast<const uint4*>(counted) + octet;
#pragma unroll
            for (u32 i = 0; i < EACH; i++) x[i] = row[min(mine + i, tiles - 1) * octets];
            if (from + some > 0) __syncthreads();
            auto add = [](uint4& sum, const uint4& x) {
                sum.x += x.x;
                sum.y += x.y;
                sum.z += x.z;
                sum.w += x.w;
            };
#pragma unroll
            for (u32 i = EACH; i-- > 0;) {
                if (mine + i < tile) add(low, x[i]);
                if (mine + i < tiles) add(all, x[i]);
            }
            lower[warp][lane] = low;
            whole[warp][lane] = all;
            __syncthreads();
            if (!there) continue;
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) {
                before += reinterpret_cast<const u16*>(lower[w])[threadIdx.x];
                count += reinterpret_cast<const u16*>(whole[w])[threadIdx.x];
            }
        }
        u64 padded = align == 1 ? count : (count + align - 1) / align * align, sum = padded;
#pragma unroll
        for (u32 d = 1; d < 32; d *= 2) {
            u64 under = __shfl_up_sync(0xFFFFFFFFu, sum, d);
            u32 fewer = __shfl_up_sync(0xFFFFFFFFu, share, d);
            if (lane < d) continue;
            sum += under;
            share += fewer;
        }
        if (lane == 31 && warp < EXPERTS / 32) {
            sums[warp] = sum;
            shares[warp] = share;
        }
        __syncthreads();
        u64 row = base + sum - padded;
        u32 place = placed + share - here;
#pragma unroll
        for (u32 w = 0; w < EXPERTS / 32; w++) {
            if (w < warp) {
                row += sums[w];
                place += shares[w];
            }
            base += sums[w];
            placed += shares[w];
        }
        if (there) {
            begin[e] = I(min(row + before, rows));
            local[e] = place;
        }
        if (there && tile == 0) {
            counts[e * stride_counts] = I(min(row + count, rows) - min(row, rows));
            offsets[e * stride_offsets] = I(min(row, rows));
        }
        // The rows between an expert's last and the next expert's first: a warp of one of the blocks.
        u64 gap = row + count, behind = min(row + padded, rows);
        u32 left = __ballot_sync(0xFFFFFFFFu, there && e % tiles == tile && gap < behind);
        for (; left != 0; left &= left - 1) {
            u32 of = 31 - __clz(left & 0u - left);
            u64 stop = __shfl_sync(0xFFFFFFFFu, behind, of);
            for (u64 r = __shfl_sync(0xFFFFFFFFu, gap, of) + lane; r < stop; r += 32) source[r * stride_source] = I(-1);
        }
    }
    if (tile == 0 && threadIdx.x == 0) offsets[experts * stride_offsets] = I(min(base, rows));
    for (u64 r = base + thread_index(); r < rows; r += u64(tiles) * PLACERS) source[r * stride_source] = I(-1);
    __syncthreads();
    auto row_of = [&](u32 pair) { return u64(begin[expert_of(pair)]) + (pair & 0xFFFFu); };
    for (u32 from = 0; from < n; from += AHEAD * PLACERS) {
        if (from > 0) ask(from);
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            u32 c = from + i * PLACERS + threadIdx.x, p = pair[i], t = token, j = number;
            if (c >= n) break;
            token += tokens_on;
            number += numbers_on;
            if (number >= most) {
                number -= most;
                token++;
            }
            // Rows grow with the expert, so the pairs of a token that have no room are its first: the others move up.
            u32 dropped = 0;
            if (base > rows) {
                const u32* mine = own + t * most;
                for (u32 to = most; dropped < to;) {
                    u32 middle = (dropped + to) / 2;
                    if (mine[middle] != NONE && row_of(mine[middle]) >= rows) dropped = middle + 1;
                    else to = middle;
                }
                p = j + dropped < most ? mine[j + dropped] : NONE;
            }
            bool there = p != NONE;
            u64 row = there ? row_of(p) : 0;
            I* cell = map + (first + t) * stride_token;
            cell[j * stride_cell] = there ? I(row) : I(-1);
            cell[(most + j) * stride_cell] = there ? I(expert_of(p)) : I(-1);
            if (n > AHEAD * PLACERS) {
                if (there) source[row * stride_source] = I(first * most + c);
            } else if (pair[i] != NONE) {
                sorted[local[expert_of(pair[i])] + (pair[i] & 0xFFFFu)] = {pair[i], c - dropped};
            }
            if (there ? p & LAST : j == 0) cell[2 * most * stride_cell] = I(there ? j + 1 : 0);
        }
    }
    if (n > AHEAD * PLACERS) return;
    __syncthreads();
    // Neighbouring threads write neighbouring rows.
    for (u32 i = threadIdx.x; i < placed; i += PLACERS) {
        uint2 x = sorted[i];
        u64 row = row_of(x.x);
        if (row < rows) source[row * stride_source] = I(first * most + x.y);
    }
}
