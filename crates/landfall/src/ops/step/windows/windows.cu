// Which windows a batch takes, and their elements. Integers saturate as on the processor.

constexpr i64 LARGEST = 0x7FFFFFFFFFFFFFFFll, SMALLEST = -LARGEST - 1;

DEVICE i64 add(i64 a, i64 b) {
    i64 sum = i64(u64(a) + u64(b));
    return (a ^ sum) & (b ^ sum) & SMALLEST ? (a < 0 ? SMALLEST : LARGEST) : sum;
}
DEVICE i64 subtract(i64 a, i64 b) {
    i64 difference = i64(u64(a) - u64(b));
    return (a ^ b) & (a ^ difference) & SMALLEST ? (a < 0 ? SMALLEST : LARGEST) : difference;
}
DEVICE i64 add_unsigned(i64 a, u64 b) { return b > u64(LARGEST) - u64(a) ? LARGEST : i64(u64(a) + b); }
DEVICE u64 add_up(u64 a, u64 b) { return a + b < a ? ~0ull : a + b; }
DEVICE i64 multiply(i64 a, i64 b) {
    i64 low = i64(u64(a) * u64(b));
    return __mul64hi(a, b) == low >> 63 ? low : (a < 0) == (b < 0) ? LARGEST : SMALLEST;
}

// The finaliser of splitmix64, and the Feistel network of rng::Shuffle with cycle walking.
constexpr u32 UNEVEN_BITS = 8;
constexpr u64 FIRST = 0xBF58476D1CE4E5B9ull, SECOND = 0x94D049BB133111EBull;
DEVICE u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * FIRST;
    x = (x ^ (x >> 27)) * SECOND;
    return x ^ (x >> 31);
}

// The walk where halves have up to 30 bits. Each round waits for the one before, and the unluckiest window of a batch takes
// several passes, so that a batch costs as long as a chain of tens of rounds: what depends on the key alone is taken out of
// it. Of right ^ key, the first shift and the upper word are the key's.
DEVICE u64 walked(u32 left, u32 right, u32 high, u32 low, u64 n, const u64 (&keys)[8]) {
    u32 masks[2] = {(1u << high) - 1, (1u << low) - 1}, lower[8];
    u64 upper[8];
#pragma unroll
    for (int round = 0; round < 8; round++) {
        u64 key = keys[round] ^ keys[round] >> 30;
        lower[round] = u32(key);
        upper[round] = (key >> 32) * FIRST << 32;
    }
    do {
#pragma unroll
        for (int round = 0; round < 8; round++) {
            u32 x = right ^ lower[round];
            u64 y = u64(x) * u32(FIRST) + upper[round] + (u64(x * u32(FIRST >> 32)) << 32);
            y = (y ^ (y >> 27)) * SECOND;
            u32 next = left ^ (u32(y ^ (y >> 31)) & masks[round % 2]);
            left = right;
            right = next;
        }
    } while ((u64(left) << low | right) >= n);
    return u64(left) << low | right;
}

DEVICE u64 shuffled(u64 position, u64 n, u64 seed, u64 epoch) {
    u64 keys[8];
#pragma unroll
    for (int pair = 0; pair < 4; pair++) {
        Words w = random_block(seed, u32(epoch >> 32), 0xFFFFFFFFu, u64(pair) | epoch << 32);
        keys[2 * pair] = u64(w.v[0]) << 32 | w.v[1];
        keys[2 * pair + 1] = u64(w.v[2]) << 32 | w.v[3];
    }
    u32 bits = max(64 - __clzll(i64(n - 1)), 1);
    if (bits < UNEVEN_BITS) bits += bits % 2;
    u32 high = bits / 2, low = bits - high;
    u64 masks[2] = {~0ull >> (64 - high), ~0ull >> (64 - low)};
    if (low <= 30) return walked(u32(position >> low), u32(position & masks[1]), high, low, n, keys);
    u64 value = position;
    do {
        u64 left = value >> low, right = value & masks[1];
#pragma unroll
        for (int round = 0; round < 8; round++) {
            u64 next = left ^ (mix(right ^ keys[round]) & masks[round % 2]);
            left = right;
            right = next;
        }
        value = left << low | right;
    } while (value >= n);
    return value;
}

// One thread a window: its row of the table is found by halving. The lanes fetch the table's first rows, which are mostly
// all, while they wait for the cursor.
KERNEL(batch_windows) {
    u64 j = thread_index();
    if (threadIdx.x < rows) asm volatile("prefetch.global.L1 [%0];" : : "l"(table + threadIdx.x * table.stride.v[0]));
    if (j >= batch) return;
    i64 epoch = cursor[cursor.stride.v[0]], at = cursor[2 * cursor.stride.v[0]], seed = cursor[3 * cursor.stride.v[0]];
    i64 base = cursor[4 * cursor.stride.v[0]], count = cursor[5 * cursor.stride.v[0]];
    u64 windows = count < 0 ? 0 : u64(count), before = at < 0 ? 0 : u64(at);
    i64 part = cursor[6 * cursor.stride.v[0]];
    u64 whole = __umul64hi(before, micro_batches) == 0 ? before * micro_batches : ~0ull;
    u64 micro = add_up(whole, part < 0 ? 0 : u64(part));
    u64 first = __umul64hi(micro, batch) == 0 ? micro * batch : ~0ull;
    u64 p = add_up(first, j);
    bool inside = p < windows;
    u64 position = windows == 0 ? 0 : windows - 1;
    if (inside) position = shuffle ? shuffled(p, windows, u64(seed), u64(epoch)) : p;
    if (inside && epochs > 0 && p < positions) {
        u64 row = (epoch < 0 ? 0 : u64(epoch)) % epochs;
        i64 own = list[row * list.stride.v[0] + p * list.stride.v[1]];
        position = own < 0 ? 0 : min(u64(own), windows - 1);
    }
    i64 window = add(base, i64(position));
    u64 low = 0, high = rows;
    while (low + 1 < high) {
        u64 middle = low + (high - low) / 2;
        if (table[middle * table.stride.v[0]] <= window) low = middle;
        else high = middle;
    }
    const i64* row = table + low * table.stride.v[0];
    starts[j * starts.stride.v[0]] = add(row[table.stride.v[1]], subtract(window, row[0]));
    groups[j * groups.stride.v[0]] = row[2 * table.stride.v[1]];
    valid[j * valid.stride.v[0]] = inside;
}

constexpr int EACH = 4;

// A thread has EACH neighbours of one row: where they come from is found once for all of them.
template <class I>
DEVICE void gather(u64 units, const View<const T>& series, const View<const i64>& starts, const View<T>& out,
                   const Faults& faults, I channels, I length, I width, u64 t, i64 stride, u64 offset, bool whole) {
    I unit = I(thread_index()), of_row = (width + (EACH - 1)) / EACH;
    if (unit >= units) return;
    I row = unit / of_row, j = (unit - row * of_row) * EACH, b = row / channels, c = row - b * channels;
    i64 first = add_unsigned(multiply(starts[u64(b) * starts.stride.v[0]], stride), offset);
    const T* line = series + u64(c) * series.stride.v[0];
    bool inside = first >= 0 && u64(first) + j + EACH <= t;
    Several<T, EACH> value;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        i64 at = inside ? first + i64(j) + k : min(max(add_unsigned(first, u64(j) + k), 0ll), i64(t) - 1);
        value.v[k] = j + k < length ? line[u64(at) * series.stride.v[1]] : T();
    }
    T* to = out + u64(b) * out.stride.v[0] + u64(c) * out.stride.v[1] + u64(j) * out.stride.v[2];
    if (whole) {
        value.store_whole(to);
    } else {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if (j + k < width) to[k * out.stride.v[2]] = value.v[k];
        }
    }
    if (j == 0 && c == 0 && length > 0) {
        i64 last = add_unsigned(first, length - 1);
        if (first < 0 || last >= i64(t)) flag(faults, b, first < 0 ? first : last, t);
    }
}

// Neighbours are contiguous in the series and in the result.
KERNEL(window_gather) {
    // So far below 2^32 that no index of the last block or row wraps.
    if (units <= 0x3FFF0000ull) {
        gather<u32>(units, series, starts, out, faults, u32(channels), u32(length), u32(width), t, i64(stride), offset,
                    whole != 0);
    } else {
        gather<u64>(units, series, starts, out, faults, channels, length, width, t, i64(stride), offset, whole != 0);
    }
}
