// Rows in the order of a map, by copies that a thread asks for and that go on by themselves: from the memory to a slot of the
// shared memory, and from there to the rows of the token's pairs. Of a permutation's bytes few are reads, and a memory that
// turns to reading and back for each of them loses more time than they take. So all blocks ask at the same moments, each
// for many rows at once (decision 0017). (With `barriers.cu`, `cells.cu`, `rows.cu` and `pair.cu`.)

constexpr u32 SLOTS = 64;           // at most
constexpr i64 PATIENCE = 100'000;   // clocks: about 50 us

// What is read and written is used once, and may leave the L2 first: what is read leaves its room to what waits to be written.
DEVICE u64 used_once() {
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
DEVICE void load_row(u32 to, const u8* from, u32 bytes, u32 barrier, u64 policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}
DEVICE void store_row(u8* to, u32 from, u32 bytes, u64 policy) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to), "r"(from), "r"(bytes),
                 "l"(policy)
                 : "memory");
}

// The slot of a row, and the parity of its barriers' phase.
struct Place {
    u32 slot = 0, parity = 0;
    DEVICE void next(u32 slots) {
        if (++slot < slots) return;
        slot = 0;
        parity ^= 1;
    }
};

// Waits until all blocks have come here as often as this one. Nothing depends on it but time, so it ends without them where
// they do not run beside each other; whether they came.
DEVICE bool meet(i32* arrived, u32 all) {
    i64 start = clock64();
    u32 there;
    do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(arrived) : "memory");
    } while (there < all && clock64() - start < PATIENCE);
    return there >= all;
}

// The parts of the tokens' rows are dealt to the blocks in turn. One thread asks for them, `batch` at a time, and a warp
// writes them. The other warps see to what there is besides, so many that they have done while the first rows are read:
// what they read and write later would turn the memory as well.
KERNEL(permute_together) {
    extern __shared__ __align__(16) u8 held[];
    __shared__ u64 full[SLOTS], empty[SLOTS];
    u32 lane = threadIdx.x % 32;
    u64 items = tokens * parts, blocks = gridDim.x, most_mine = (items + blocks - 1) / blocks;
    u64 mine = items > blockIdx.x ? (items - blockIdx.x + blocks - 1) / blocks : 0;
    if (threadIdx.x == 0) {
        for (u32 s = 0; s < slots; s++) {
            barrier_init(shared_address(full + s), 1);
            barrier_init(shared_address(empty + s), 1);
        }
        barriers_ready();
    }
    __syncthreads();
    u32 room = shared_address(held);
    auto bytes_of = [&](u64 part) { return u32(min(u64(piece), bytes - part * piece)); };
    if (threadIdx.x == 0) {
        // Blocks begin together and meet before their second batch for the first time, long after this. Where it comes too
        // late, a block waits for none or in vain, once.
        if (blockIdx.x == 0) asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(arrived) : "memory");
        u64 policy = used_once();
        Place free, next;
        bool together = true;
        u32 all = 0;
        for (u64 first = 0; first < most_mine; first += batch) {
            u64 end = min(first + batch, mine);
            for (u64 r = first; r < end; r++, free.next(slots)) {
                if (r >= slots) barrier_wait(shared_address(empty + free.slot), free.parity ^ 1);
            }
            if (first > 0) {
                asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
                all += gridDim.x;
                if (together) together = meet(arrived, all);
            }
            for (u64 r = first; r < end; r++, next.next(slots)) {
                u64 item = r * blocks + blockIdx.x, token = item / parts, part = item % parts;
                u32 barrier = shared_address(full + next.slot);
                barrier_arrive_expect(barrier, bytes_of(part));
                load_row(room + next.slot * piece, reinterpret_cast<const u8*>(x + token * x.stride.v[0]) + part * piece,
                         bytes_of(part), barrier, policy);
            }
        }
    }
    if (threadIdx.x < 32) return;
    u64 policy = used_once(), step_map = map.stride.v[1];
    if (threadIdx.x >= 64) {
        u64 others = blockDim.x - 64, all = blocks * others, own = blockIdx.x * others + threadIdx.x - 64;
        u32 width = 2 * most + 1, each = max(most, 1);
        for (u64 i = own; i < tokens * each; i += all) {
            u64 token = i / each;
            u32 j = u32(i - token * each);
            const I* cells = map + token * map.stride.v[0];
            u32 n = pair_count(cells, step_map, most, faults, token * width, j == 0);
            if (j >= n) continue;
            bring_prob(cells, step_map, most, j, p + token * p.stride.v[0], p.stride.v[1], py, py.stride.v[0], rows, experts,
                       faults, token * width);
        }
        // Whole warps, which look at rows side by side.
        for (u64 r = own; r - lane < rows; r += all) {
            clear_rows(source, source.stride.v[0], y, y.stride.v[0], y.stride.v[1], r, rows, bytes / sizeof(Unit));
            clear_prob(source, source.stride.v[0], py, py.stride.v[0], r, rows);
        }
        return;
    }
    // Of the row after the next, what the map says is on its way while the next is written.
    I cell = I(-1), count = 0;
    auto look = [&](u64 r) {
        if (r >= mine) return;
        const I* cells = map + (r * blocks + blockIdx.x) / parts * map.stride.v[0];
        count = cells[2 * most * step_map];
        cell = lane < most ? cells[lane * step_map] : I(-1);
    };
    look(0);
    Place place;
    u32 written = 0;
    for (u64 r = 0; r < mine; r++) {
        u64 item = r * blocks + blockIdx.x, part = item % parts;
        u32 n = u32(min(i64(most), max(i64(0), i64(count))));
        i64 row = lane < n ? checked(cell, rows, faults, 0, false) : -1;
        look(r + 1);
        barrier_wait(shared_address(full + place.slot), place.parity);
        auto store = [&](i64 row) {
            if (row < 0) return;
            store_row(reinterpret_cast<u8*>(y + row * y.stride.v[0]) + part * piece, room + place.slot * piece, bytes_of(part),
                      policy);
        };
        store(row);
        const I* cells = map + item / parts * map.stride.v[0];
        for (u32 j = lane + 32; j < n; j += 32) store(checked(cells[j * step_map], rows, faults, 0, false));
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        // The row before has been read: its slot is free.
        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
        __syncwarp();
        if (r > 0 && lane == 0) barrier_arrive(shared_address(empty + written));
        written = place.slot;
        place.next(slots);
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
