// The row of a table that index `at` names, clamped if it is out of range. `at` counts positions with the index's own axes
// first; in row-major order of the index, which is what is reported, `inner` of the others come behind the indexed axis. Of
// whole rows the index has no other axes: `rest` picked elements share one, and `inner` is 0.
DEVICE u64 named_row(i64 named, u64 at, u64 size, u64 count, u64 rest, u64 inner, const Faults& faults) {
    if (named >= 0 && u64(named) < size) return u64(named);
    u64 j = at / rest, other = at - j * rest;
    flag(faults, inner == 0 ? j : (other / inner * count + j) * inner + other % inner, named, size);
    return named < 0 ? 0 : size - 1;
}
