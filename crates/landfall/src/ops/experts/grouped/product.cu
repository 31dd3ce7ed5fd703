// y[r, :] = x[r, :] · w[e(r)]: a block a tile of rows and one of columns, columns first.
KERNEL(product) {
    u64 across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    const i64* entry = tiles + 3 * (blockIdx.x / across);
    if (entry[0] < 0) return;
    u64 e = entry[0], row = entry[1], end = entry[2], column = blockIdx.x % across * TILE_COLUMNS;
    u64 last = e < experts ? u64(bounds[2 * e + 1]) : row, inside = last > row ? last - row : 0;
    Factor a = {x + row * x.stride.v[0], x.stride.v[0], x.stride.v[1], inside};
    Factor b = {w + (inside > 0 ? e : 0) * w.stride.v[0] + column * w.stride.v[2], w.stride.v[2], w.stride.v[1], n - column};
    Tile tile;
    tile.multiply(a, b, 0, inside > 0 ? k : 0);
    tile.each([&](u32 i, u32 j, A first, A second) {
        u64 c = column + j;
        if (row + i >= end || c >= n) return;
        bool pad = i >= inside;
        T* at = y + (row + i) * y.stride.v[0] + c * y.stride.v[1];
        put(at, y.stride.v[1], c + 1 < n, pad ? A(0) : first, pad ? A(0) : second);
    });
}
