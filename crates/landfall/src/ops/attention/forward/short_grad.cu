struct Room {
    Line queries[LINES], keys[LINES], values[LINES], slopes[LINES];
    Scores changes[LINES];
    float less[LINES], levels[LINES];
};
// Neighbouring heads in different banks.
struct Slot { Room room; u8 rest[(128 - sizeof(Room) % 128) % 128 + 16]; };

// Wide heads: their keys and values are read again for each strip of queries, because registers are short.
constexpr bool AGAIN = CHUNKS > 2;

// rowsum(slope * out) of each query, from the slopes in shared memory.
DEVICE void levels_of(Room& room, const T* out, const Dims& s, const Mover& m) {
    u32 width = width_of(out, s), c = m.chunk * 8;
    Chunk given[ROUNDS];
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
        u32 token = m.token(round);
        bool inside = m.head.inside && token < N && c < E;
        if (inside) given[round] = chunk_of(out + u64(token) * s.v[1], s.v[3], c, width);
    }
    await_copies();
#pragma unroll
    for (u32 round = 0; round < ROUNDS; round++) {
        u32 token = m.token(round);
        float level = 0.0f;
        if (m.head.inside && token < N && c < E) {
            Chunk slope = Chunk::load(room.slopes[token] + c);
#pragma unroll
            for (u32 k = 0; k < 8; k++) level = fused(widen(given[round].v[k]), widen(slope.v[k]), level);
        }
#pragma unroll
        for (u32 lane = CHUNK_LANES / 2; lane > 0; lane /= 2) level += __shfl_xor_sync(0xFFFFFFFFu, level, lane);
        if (m.chunk == 0 && token < LINES) room.levels[token] = level;
    }
}

// Scores are made transposed, a strip of keys a warp: then weights and changes are the left factors of the sums over
// queries. Changes go to shared memory, from which the sums over keys read them.
KERNEL(gradient) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert(sizeof(Slot) * HEADS == SHARED, "what a launch gives");
    Slot* slots = reinterpret_cast<Slot*>(dynamic);
    Mover m = mover(all, heads);
    Room& of = slots[m.head.slot].room;
    fetch(of.slopes, m.head.features(slope), slope.stride, m);
    fetch(of.queries, m.head.features(q), q.stride, m);
    fetch(of.keys, m.head.features(k), k.stride, m);
    fetch(of.values, m.head.features(v), v.stride, m);
    Warp w = warp();
    Room& own = slots[w.slot].room;
    Head head = head_at(w.slot, all, heads);
    for (u32 i = threadIdx.x % u32(WARPS * 32); i < LINES; i += u32(WARPS * 32)) {
        // Without a query all weights are 0.
        own.less[i] = head.inside && i < N ? float(widen(head.scores(lse)[i * lse.stride.v[2]])) * LOG2_E : infinity();
    }
    levels_of(of, m.head.features(out), out.stride, m);
    __syncthreads();
    float scale_2 = float(scale * double(LOG2_E));
    u32 key_slopes[OWN][CHUNKS][2];
#pragma unroll
    for (u32 turn = 0; turn < OWN; turn++) {
        u32 strip = w.strip + turn * u32(WARPS), from = strip * 16;
        if (OWN * u32(WARPS) > STRIPS && strip >= STRIPS) continue;
        Strip keys, values;
        if (!AGAIN) {
            keys.load(own.keys, from);
            values.load(own.values, from);
        }
        Rows of_keys, of_values;
#pragma unroll(AGAIN ? 1 : 2)
        for (u32 first = 0; first < LINES; first += 16) {
            float weight[2][4], change[2][4];
            if (AGAIN) keys.load(own.keys, from);
            keys.products(weight, own.queries, first);
            if (AGAIN) values.load(own.values, from);
            values.products(change, own.slopes, first);
#pragma unroll
            for (u32 v = 0; v < 8; v++) {
                u32 query = first + v / 4 * 8 + w.column + v % 2, key = from + w.row + v / 2 % 2 * 8;
                float score = weight[v / 4][v % 4] * (MEETING ? float(scale) : scale_2);
                bool inside = MEETING && head.inside && query < N && key < N;
                if (PREV && inside) {
                    score += widen(head.scores(prev)[query * prev.stride.v[2] + key * prev.stride.v[3]]);
                }
                float x = exponential2((MEETING ? score * LOG2_E : score) - own.less[query]);
                if (LINES > N && key >= N) x = 0.0f;
                float c = x * (change[v / 4][v % 4] - own.levels[query]);
                if (SCORES && inside) {
                    c += widen(head.scores(score_slope)[query * score_slope.stride.v[2] + key * score_slope.stride.v[3]]);
                }
                weight[v / 4][v % 4] = x;
                change[v / 4][v % 4] = c;
            }
            u32 weights[4], changes[4];
            rounded(weights, weight);
            rounded(changes, change);
#pragma unroll
            for (u32 v = 0; v < 4; v++) {
                *reinterpret_cast<u32*>(own.changes[from + w.row + v % 2 * 8] + first + v / 2 * 8 + w.column) = changes[v];
            }
            of_values.add(weights, own.slopes, first);
            of_keys.add(changes, own.queries, first);
        }
        // Nobody else reads these values; the keys are read below.
        of_values.put(own.values, from, w, 1.0f, 1.0f);
#pragma unroll
        for (u32 c = 0; c < CHUNKS; c++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                key_slopes[turn][c][half] =
                    pair_of<T>(of_keys.sum[c][half * 2] * float(scale), of_keys.sum[c][half * 2 + 1] * float(scale));
            }
        }
    }
    // Nobody reads queries any more.
    __syncthreads();
    for (u32 strip = w.strip; strip < STRIPS; strip += u32(WARPS)) {
        Rows of_queries;
#pragma unroll 2
        for (u32 key = 0; key < LINES; key += 16) {
            u32 changes[4];
            load_transposed(changes, right_row(own.changes, key, strip * 16));
            of_queries.add(changes, own.keys, key);
        }
        of_queries.put(own.queries, strip * 16, w, float(scale), float(scale));
    }
    // Nobody reads keys any more.
    __syncthreads();
#pragma unroll
    for (u32 turn = 0; turn < OWN; turn++) {
        u32 strip = w.strip + turn * u32(WARPS);
        if (OWN * u32(WARPS) > STRIPS && strip >= STRIPS) continue;
#pragma unroll
        for (u32 c = 0; c < CHUNKS; c++) {
#pragma unroll
            for (u32 half = 0; half < 2; half++) {
                *reinterpret_cast<u32*>(own.keys[strip * 16 + w.row + half * 8] + c * 8 + w.column) = key_slopes[turn][c][half];
            }
        }
    }
    if (PREV && head.inside) {
        T* to = head.scores(g_prev);
        for (u32 p = threadIdx.x % u32(WARPS * 32); p < N * N; p += u32(WARPS * 32)) {
            to[p / N * g_prev.stride.v[2] + p % N * g_prev.stride.v[3]] = own.changes[p % N][p / N];
        }
    }
    __syncthreads();
    write(m.head.features(gq), gq.stride, of.queries, m);
    write(m.head.features(gk), gk.stride, of.keys, m);
    write(m.head.features(gv), gv.stride, of.values, m);
}
