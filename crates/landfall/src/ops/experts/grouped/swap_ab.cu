// y[r, :] = x[r, :] · w[e(r)] on Hopper, with A and B swapped: columns of w are the left factor of each instruction, and rows
// of x the right one, whose number the instruction chooses, a multiple of 16. So an expert's rows are cut into parts of almost
// the same size, and few sums are in vain: tiles of 128 rows lose an eighth of them where the experts' rows end.
//
// Two blocks are a cluster and take neighbouring columns, 128 each, of the same part. A slab of x comes to both at once: with
// slabs of its own for each block, the L2 would have to give more than it can. In a block one thread asks for slabs, and two
// warpgroups multiply, 64 columns each. Clusters stay and draw tiles until there are none: the first block's thread draws, some
// slabs ahead, and sends them to both blocks as letters. (With `hopper.cu`.)
//
// W_ALONG says whether w's inner axis is the contiguous one; x's is.
constexpr u32 COLUMNS = 128, CLUSTER = 2, TILE_ROWS = 32;
constexpr u32 LEFT = COLUMNS * LINE, STAGE = LEFT + MOST * LINE, RING = STAGES * STAGE;
// Behind the ring: two buffers of 64 lines for each warpgroup that multiplies; barriers; letters, and a barrier for each.
constexpr u32 BUFFER = 64 * LINE, STAGING = 4 * BUFFER, BARRIERS = 2 * STAGES * 8, LETTERS = 8;

// What `parts.cu` lists; of a tile, `w` is its first column.
DEVICE u32 low(i32 x) { return u32(x) & 0xFFFF; }
DEVICE u32 high(i32 x) { return u32(x) >> 16; }

// The tiles of all parts. Rows come first, in the bands of the list, so that those that are at work share rows and columns.
struct Tiles {
    const int4* list;
    u32 all, across;

    // What `of` needs of tile t, and what it takes a while to get.
    DEVICE i32 band(u32 t) const { return t < all ? list[t / across].w : 0; }
    DEVICE int4 of(u32 t, i32 band) const {
        int4 tile;
        tile.x = tile.y = tile.z = tile.w = 0;
        if (t >= all) return tile;
        u32 p = t / across, i = low(band) * across + t % across;
        tile = list[p - low(band) + i % high(band)];
        tile.w = i32(i / high(band) * CLUSTER * COLUMNS);
        return tile;
    }
};

// The slabs on the way, of which this thread is at one.
struct Ring {
    u32 slabs, filled, emptied, stage, parity;

    DEVICE static Ring at(u32 base) { return {base, base + RING + STAGING, base + RING + STAGING + 8 * STAGES, 0, 0}; }
    DEVICE void init() const {
        for (u32 s = 0; s < STAGES; s++) {
            barrier_init(filled + 8 * s, 1);
            barrier_init(emptied + 8 * s, 8 * CLUSTER);
        }
    }
    DEVICE u32 slab() const { return slabs + stage * STAGE; }
    DEVICE u32 is_filled() const { return filled + 8 * stage; }
    DEVICE u32 is_emptied() const { return emptied + 8 * stage; }
    DEVICE void next() {
        stage = (stage + 1) % STAGES;
        if (stage == 0) parity ^= 1;
    }
    // The slab before this one may be overwritten, in both blocks: one lane of each warp says so to each.
    DEVICE void release() const {
        u32 lane = threadIdx.x % 32;
        if (lane < CLUSTER) barrier_arrive_at(emptied + 8 * ((stage + STAGES - 1) % STAGES), lane);
    }
};

// Tiles by letter. A block is at most STAGES slabs, and so STAGES tiles, behind the other: every tile has a slab, and no letter is
// written over before it was read.
struct Mail {
    u32 letters, barriers, at;

    DEVICE void init() const {
        for (u32 i = 0; i < LETTERS; i++) barrier_init(barriers + 8 * i, 1);
    }
    DEVICE u32 letter() const { return letters + at % LETTERS * 16; }
    DEVICE u32 barrier() const { return barriers + at % LETTERS * 8; }
    DEVICE void send(int4 tile) const {
        for (u32 r = 0; r < CLUSTER; r++) post_16(letter(), barrier(), r, tile);
    }
    DEVICE void expect() const { barrier_arrive_expect(barrier(), 16); }
    DEVICE int4 take() {
        barrier_wait(barrier(), at / LETTERS % 2);
        int4 tile = load_shared_16(letter());
        at++;
        return tile;
    }
};

// Fills the ring with the slabs of tile after tile: one thread of each block.
struct Producer {
    const TensorMap &x, &w;
    Tiles tiles;
    i32* queue;
    u32 count, rank;

    DEVICE void fetch(const Ring& ring, int4 tile, i32 inner) const {
        u32 copies = (high(tile.z) + TILE_ROWS - 1) / TILE_ROWS, filled = ring.is_filled(), to = ring.slab();
        i32 column = tile.w + i32(rank * COLUMNS);
        barrier_arrive_expect(filled, LEFT + copies * TILE_ROWS * LINE);
        for (u32 b = rank; b < copies; b += CLUSTER)
            copy_box(to + LEFT + b * TILE_ROWS * LINE, x, filled, inner, tile.y + i32(b * TILE_ROWS), u16((1 << CLUSTER) - 1));
        if (W_ALONG) {
            copy_box(to, w, filled, inner, column, tile.x);
        } else {
            copy_box(to, w, filled, column, inner, tile.x);
            copy_box(to + PANEL, w, filled, column + 64, inner, tile.x);
        }
    }
    DEVICE void run(Ring& ring, Mail& mail, int4 tile) const {
        while (tile.z != 0) {
            // A tile without products has a slab without bytes.
            bool empty = high(tile.z) == 0;
            u32 slabs = empty ? 1 : count, ticket = 0;
            i32 band = 0;
            int4 next = tile;
            for (u32 slab = 0; slab < slabs; slab++, ring.next()) {
                barrier_wait(ring.is_emptied(), ring.parity ^ 1);
                if (empty) barrier_arrive(ring.is_filled());
                else fetch(ring, tile, i32(slab * SLAB));
                if (rank == 0) {
                    // Each answer takes a while: it is looked at some slabs later.
                    if (slab == 0) ticket = gridDim.x / CLUSTER + draw(queue + 1);
                    if (slab == min(3u, slabs - 1)) band = tiles.band(ticket);
                    if (slab == min(6u, slabs - 1)) next = tiles.of(ticket, band);
                    if (slab == min(9u, slabs - 1)) mail.send(next);
                }
            }
            mail.expect();
            tile = mail.take();
        }
    }
};

// Writes a warpgroup's 64 columns of a tile through buffers that turn them.
struct Output {
    T* y;
    u64 stride, n;
    u32 staging, flip;

    // Zeros where a row has no pair.
    DEVICE void put(int4 tile, u64 column, u32 row, uint4 sums) const {
        if (row >= low(tile.z) || column >= n) return;
        uint4 zeros;
        zeros.x = zeros.y = zeros.z = zeros.w = 0;
        *reinterpret_cast<uint4*>(y + (u64(tile.y) + row) * stride + column) = row < high(tile.z) ? sums : zeros;
    }
    DEVICE void zeros(int4 tile, u64 column) const {
        u32 thread = threadIdx.x % GROUP;
        for (u32 row = thread / 8; row < low(tile.z); row += GROUP / 8) put(tile, column + thread % 8 * CHUNK, row, uint4());
    }
    template <u32 N> DEVICE void store(const float (&sum)[N / 2], int4 tile, u64 column) {
        u32 thread = threadIdx.x % GROUP, lane = thread % 32, warp = thread / 32;
#pragma unroll
        for (u32 c = 0; c < (N + 63) / 64; c++) {
            // Who writes into a buffer again has met the others since they read it.
            u32 buffer = staging + flip * BUFFER;
            flip ^= 1;
#pragma unroll
            for (u32 p = 0; p < 4; p++) {
                if (c * 4 + p >= N / 16) break;
                u32 v = (c * 4 + p) * 8, line = p * 16 + lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
                store_turned(buffer + line * LINE + (chunk ^ line % 8) * 16, pack(sum[v], sum[v + 1], T()),
                             pack(sum[v + 2], sum[v + 3], T()), pack(sum[v + 4], sum[v + 5], T()), pack(sum[v + 6], sum[v + 7], T()));
            }
            sync_group(threadIdx.x / GROUP);
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                if (c * 64 + i * 16 >= N) break;
                u32 line = i * 16 + thread / 8, chunk = thread % 8;
                int4 sums = load_shared_16(buffer + line * LINE + (chunk ^ line % 8) * 16);
                put(tile, column + chunk * CHUNK, c * 64 + line, *reinterpret_cast<uint4*>(&sums));
            }
        }
    }
};

// One of the two warpgroups that multiply.
struct Consumer {
    Ring ring;
    Output out;
    u32 count, half;

    // A tile of so many rows.
    template <u32 N> DEVICE void multiply(int4 tile, u64 column) {
        float sum[N / 2];
#pragma unroll
        for (u32 v = 0; v < N / 2; v++) sum[v] = 0.0f;
        for (u32 slab = 0; slab < count; slab++, ring.next()) {
            barrier_wait(ring.is_filled(), ring.parity);
            multiply_begin();
            // 64 columns are half of the lines of w's slab, or one of its two panels: 8,192 bytes either way.
            u64 a = descriptor(ring.slab() + half * PANEL), b = descriptor(ring.slab() + LEFT);
#pragma unroll
            for (u32 p = 0; p < SLAB / 16; p++)
                multiply_add<W_ALONG, true>(sum, a + p * INNER_16<W_ALONG> / 16, b + p * INNER_16<true> / 16, T());
            multiply_commit();
            multiply_wait<1>();
            if (slab > 0) ring.release();
        }
        multiply_wait<0>();
        ring.release();
        out.store<N>(sum, tile, column);
    }
    DEVICE void run(Mail& mail, int4 tile, u32 rank) {
        while (tile.z != 0) {
            u64 column = u64(tile.w) + rank * COLUMNS + half * 64;
            switch ((high(tile.z) + UNIT - 1) / UNIT) {
                case 0:
                    barrier_wait(ring.is_filled(), ring.parity);
                    ring.next();
                    // No lane may be as far behind as the phase after the next: products bring a warp together by themselves.
                    __syncwarp();
                    ring.release();
                    out.zeros(tile, column);
                    break;
#define CASE(i)                            \
    case i:                                \
        multiply<i * UNIT>(tile, column);  \
        break;
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
                CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
            }
            tile = mail.take();
        }
    }
};

KERNEL(product, __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(3 * GROUP, 1)) {
    u32 count = u32((k + SLAB - 1) / SLAB), across = u32((n + CLUSTER * COLUMNS - 1) / (CLUSTER * COLUMNS)), rank = cluster_rank();
    Tiles tiles = {reinterpret_cast<const int4*>(list), u32(queue[0]) * across, across};
    Ring ring = Ring::at(shared_base());
    u32 letters = ring.filled + BARRIERS;
    Mail mail = {letters, letters + LETTERS * 16, 0};
    if (threadIdx.x == 0) {
        prefetch_map(map_x);
        prefetch_map(map_w);
        ring.init();
        mail.init();
        barriers_ready();
    }
    sync_cluster();
    // The same for a whole warp, and known to be.
    u32 first = blockIdx.x / CLUSTER, group = __shfl_sync(0xFFFFFFFFu, threadIdx.x / GROUP, 0);
    int4 tile = tiles.of(first, tiles.band(first));
    if (group == 0) {
        give_registers<56>();
        if (threadIdx.x == 0) {
            Producer producer = {map_x, map_w, tiles, queue, count, rank};
            producer.run(ring, mail, tile);
        }
    } else {
        take_registers<224>();
        u32 half = group - 1;
        Consumer consumer = {ring, {y, y.stride.v[0], n, ring.slabs + RING + half * 2 * BUFFER, 0}, count, half};
        consumer.run(mail, tile, rank);
    }
    // The other block may still copy into this one's memory, or arrive at its barriers.
    sync_cluster();
}
