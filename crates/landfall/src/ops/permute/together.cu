// Rows in the order of a map, by copies that a thread asks for and that go on by themselves: from the memory to a slot of the
// shared memory, and from there to the rows of the token's pairs. Of a permutation's bytes few are reads, and a memory that
// turns to reading and back for each of them loses more time than they take. So all blocks ask at the same moments, each
// for many rows at once (decision 0017). (With `barriers.cu` and `cells.cu`.)

constexpr u32 SLOTS = 64;           // at most
constexpr i64 PATIENCE = 100'000;   // clocks: about 50 us

DEVICE void load_row(u32 to, const u8* from, u32 bytes, u32 barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes),
        "r"(barrier)
        : "memory");
}
// What is written may leave the L2 first.
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
// writes them.
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
        Place free, next;
        bool together = true;
        u32 all = 0;
        for (u64 first = 0; first < most_mine; first += batch) {
            u64 end = min(first + batch, mine);
            for (u64 r = first; r < end; r++, free.next(slots)) {
                if (r >= slots) barrier_wait(shared_address(empty + free.slot), free.parity ^ 1);
            }
            asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
            all += gridDim.x;
            if (together) together = meet(arrived, all);
            for (u64 r = first; r < end; r++, next.next(slots)) {
                u64 item = r * blocks + blockIdx.x, token = item / parts, part = item % parts;
                u32 barrier = shared_address(full + next.slot);
                barrier_arrive_expect(barrier, bytes_of(part));
                load_row(room + next.slot * piece, reinterpret_cast<const u8*>(x + token * stride_x.v[0]) + part * piece,
                         bytes_of(part), barrier);
            }
        }
    }
    if (threadIdx.x < 32) return;
    u64 policy, step_map = stride_map.v[1];
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    // Of the row after the next, what the map says is on its way while the next is written.
    I cell = I(-1), count = 0;
    auto look = [&](u64 r) {
        if (r >= mine) return;
        const I* cells = map + (r * blocks + blockIdx.x) / parts * stride_map.v[0];
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
            store_row(reinterpret_cast<u8*>(y + row * stride_y.v[0]) + part * piece, room + place.slot * piece, bytes_of(part),
                      policy);
        };
        store(row);
        const I* cells = map + item / parts * stride_map.v[0];
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
