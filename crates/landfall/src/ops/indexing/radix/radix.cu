// A stable sort of `n` positions by a key, 8 bits a pass, least significant first. A block takes a tile of TILE neighbours; of
// equal digits those of earlier tiles come first, and within a tile earlier ones.

constexpr u32 DIGITS = THREADS, TILE = 2048;

// How many keys of each tile have each digit: counts[digit][tile], so that one running sum gives where each tile's go.
KERNEL(count_digits) {
    __shared__ u32 counts[DIGITS];
    counts[threadIdx.x] = 0;
    __syncthreads();
    u64 first = u64(blockIdx.x) * TILE, last = min(first + TILE, n);
    for (u64 at = first + threadIdx.x; at < last; at += DIGITS) atomicAdd(&counts[keys[at] >> shift & 255], 1u);
    __syncthreads();
    tiles[u64(threadIdx.x) * gridDim.x + blockIdx.x] = i32(counts[threadIdx.x]);
}

// An exclusive running sum of `n` counts, by one block.
KERNEL(running_sum) {
    __shared__ i64 sums[THREADS / 32];
    i64 before = 0;
    for (u64 round = 0; round < n; round += THREADS) {
        u64 at = round + threadIdx.x;
        Scanned part = scanned(at < n ? tiles[at] : 0, sums);
        if (at < n) tiles[at] = i32(before + part.below);
        before += part.all;
    }
}

// Moves keys and positions to their places by one digit.
KERNEL(place_digits) {
    constexpr u32 WARPS = DIGITS / 32;
    __shared__ u32 starts[DIGITS], of_warp[WARPS][DIGITS];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    starts[threadIdx.x] = u32(tiles[u64(threadIdx.x) * gridDim.x + blockIdx.x]);
    u64 first = u64(blockIdx.x) * TILE;
    for (u64 round = first; round < min(first + TILE, n); round += DIGITS) {
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) of_warp[w][threadIdx.x] = 0;
        __syncthreads();
        u64 at = round + threadIdx.x;
        bool inside = at < n;
        u64 key = inside ? keys[at] : 0;
        u32 digit = u32(key >> shift) & 255;
        // Lanes of one digit; those past the end match no other.
        u32 alike = __match_any_sync(0xFFFFFFFFu, inside ? digit : 256 + lane);
        u32 earlier = __popc(alike & ((1u << lane) - 1));
        if (inside && earlier == 0) of_warp[warp][digit] = __popc(alike);
        __syncthreads();
        if (inside) {
            u32 place = starts[digit] + earlier;
            for (u32 w = 0; w < warp; w++) place += of_warp[w][digit];
            keys_out[place] = key;
            positions_out[place] = positions[at];
        }
        __syncthreads();
        u32 sum = 0;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) sum += of_warp[w][threadIdx.x];
        starts[threadIdx.x] += sum;
        __syncthreads();
    }
}
