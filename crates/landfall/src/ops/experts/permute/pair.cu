// What a pair has besides its row of elements. (With `cells.cu`.)

// What is wrong with pair j of the token whose cells begin at `position` of the map, and its probability.
DEVICE void bring_prob(const I* cells, u64 step, u32 most, u32 j, const P* own, u64 step_p, P* py, u64 stride_py, u64 rows,
                       u64 experts, const Faults& faults, u64 position) {
    i64 row = checked(cells[j * step], rows, faults, position + j, true);
    if (!PROBS || row < 0) return;
    i64 expert = checked(cells[(most + j) * step], experts, faults, position + most + j, true);
    if (expert >= 0) py[row * stride_py] = own[expert * step_p];
}

// A probability of 0 in row r where no token has it.
DEVICE void clear_prob(const I* source, u64 stride_source, P* py, u64 stride_py, u64 r, u64 rows) {
    if (!PROBS || r >= rows || source[r * stride_source] >= 0) return;
    py[r * stride_py] = narrow<P>(typename Accumulate<P>::type(0));
}
