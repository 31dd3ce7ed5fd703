// The gradients of weight and bias: the sums of all blocks.

KERNEL(finish) {
    Columns c = columns_of(width, length);
    Pair sum = chunks_all(c, chunks, partial);
    if (!c.inside || c.lane != 0) return;
    gbias[c.column * gbias.stride.v[0]] = narrow<W>(sum.a);
    gweight[c.column * gweight.stride.v[0]] = narrow<W>(sum.b);
}
