// The cells of a map: checked, for what a kernel reads may be anything.

// A number of the map that is in 0..limit, or −1, with the error flag raised by one thread.
DEVICE i64 checked(i64 number, u64 limit, const Faults& faults, u64 position, bool report) {
    if (number >= 0 && u64(number) < limit) return number;
    if (report) flag(faults, position, number, limit);
    return -1;
}

// How many pairs a token has, whose cells begin at `position` of the map; a number that cannot be is reported by one thread.
DEVICE u32 pair_count(const I* cells, u64 step, u32 most, const Faults& faults, u64 position, bool report) {
    i64 n = cells[2 * most * step];
    if (report && (n < 0 || n > most)) flag(faults, position + 2 * most, n, u64(most) + 1);
    return n <= 0 ? 0 : n < most ? u32(n) : most;
}

// The place of an expert among a token's, in whatever order they stand; `n` where it is not among them.
DEVICE u32 pair_of(const I* cells, u64 step, u32 most, u32 n, u32 expert) {
    u32 place = 0;
    while (place < n && cells[(most + place) * step] != i64(expert)) place++;
    return place;
}
