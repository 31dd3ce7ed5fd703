struct Room {
    Line queries[LINES], keys[LINES], values[LINES];
};
// Neighbouring heads in different banks.
struct Slot { Room room; u8 rest[(128 - sizeof(Room) % 128) % 128 + 16]; };

KERNEL(attention) {
    extern __shared__ __align__(16) u8 dynamic[];
    static_assert(sizeof(Slot) * HEADS == SHARED, "what a launch gives");
    Slot* slots = reinterpret_cast<Slot*>(dynamic);
    Mover m = mover(all, heads);
    Room& of = slots[m.head.slot].room;
    fetch(of.queries, m.head.features(q), q.stride, m);
    fetch(of.keys, m.head.features(k), k.stride, m);
    fetch(of.values, m.head.features(v), v.stride, m);
    await_copies();
    __syncthreads();
    Warp w = warp();
    Room& own = slots[w.slot].room;
    Head head = head_at(w.slot, all, heads);
    float scale_2 = float(scale * double(LOG2_E));
    for (u32 strip = w.strip; strip < STRIPS; strip += u32(WARPS)) {
        u32 from = strip * 16, row = from + w.row;
        Strip queries;
        queries.load(own.queries, from);
        float score[STRIPS][2][4], top[2] = {-infinity(), -infinity()}, total[2] = {0.0f, 0.0f};
#pragma unroll
        for (u32 s = 0; s < STRIPS; s++) {
            queries.products(score[s], own.keys, s * 16);
#pragma unroll
            for (u32 v = 0; v < 8; v++) {
                u32 key = s * 16 + v / 4 * 8 + w.column + v % 2, query = row + v / 2 % 2 * 8;
                float& x = score[s][v / 4][v % 4];
                if (MEETING) {
                    bool inside = head.inside && query < N && key < N;
                    x *= float(scale);
                    if (PREV && inside) x += widen(head.scores(prev)[query * prev.stride.v[2] + key * prev.stride.v[3]]);
                    if (SCORES && inside) {
                        head.scores(emitted)[query * emitted.stride.v[2] + key * emitted.stride.v[3]] = narrow<T>(x);
                    }
                    x *= LOG2_E;
                } else {
                    x *= scale_2;
                }
                if (s * 16 + 16 > N && key >= N) x = -infinity();
                // NaN is found below: its weight is NaN.
                top[v / 2 % 2] = fmaxf(top[v / 2 % 2], x);
            }
        }
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            top[half] = fmaxf(top[half], __shfl_xor_sync(0xFFFFFFFFu, top[half], 1));
            top[half] = fmaxf(top[half], __shfl_xor_sync(0xFFFFFFFFu, top[half], 2));
        }
        // While all scores are minus infinity there is nothing to be relative to.
        float less[2] = {top[0] == -infinity() ? 0.0f : top[0], top[1] == -infinity() ? 0.0f : top[1]};
        Rows out;
#pragma unroll
        for (u32 s = 0; s < STRIPS; s++) {
#pragma unroll
            for (u32 v = 0; v < 8; v++) {
                float& x = score[s][v / 4][v % 4];
                x = exponential2(x - less[v / 2 % 2]);
                total[v / 2 % 2] += x;
            }
            u32 weights[4];
            rounded(weights, score[s]);
            out.add(weights, own.values, s * 16);
        }
#pragma unroll
        for (u32 half = 0; half < 2; half++) {
            total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 1);
            total[half] += __shfl_xor_sync(0xFFFFFFFFu, total[half], 2);
            // A row of minus infinity alone has no weights.
            if (total[half] == 0.0f) total[half] = infinity() - infinity();
            u32 query = row + half * 8;
            if (w.column == 0 && head.inside && query < N) {
                head.scores(lse)[query * lse.stride.v[2]] = top[half] * LN_2 + logf(total[half]);
            }
        }
        // Nobody else reads these queries.
        out.put(own.queries, from, w, 1.0f / total[0], 1.0f / total[1]);
    }
    __syncthreads();
    write(m.head.features(out), out.stride, of.queries, m);
}
