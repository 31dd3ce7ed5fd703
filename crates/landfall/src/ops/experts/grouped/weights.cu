// out[e] = Σ_r x[r, :]ᵀ · gy[r, :] over the rows of e: a block a tile of an expert's matrix.
KERNEL(weights) {
    u64 down = (k + TILE_ROWS - 1) / TILE_ROWS, across = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    u64 column = blockIdx.x % across * TILE_COLUMNS, row = blockIdx.x / across % down * TILE_ROWS, e = blockIdx.x / across / down;
    u64 begin = bounds[2 * e], end = bounds[2 * e + 1];
    Factor a = {x + row * x.stride.v[1], x.stride.v[1], x.stride.v[0], k - row};
    Factor b = {gy + column * gy.stride.v[1], gy.stride.v[1], gy.stride.v[0], n - column};
    Tile tile;
    tile.multiply(a, b, begin, end);
    T* to = out + e * out.stride.v[0];
    tile.each([&](u32 i, u32 j, A first, A second) {
        u64 r = row + i, c = column + j;
        if (r >= k || c >= n) return;
        put(to + r * out.stride.v[1] + c * out.stride.v[2], out.stride.v[2], c + 1 < n, first, second);
    });
}
