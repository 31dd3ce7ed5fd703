// The random words of an op at one step: of element i word i % 4 of block i / 4.
DEVICE Words words_of(const i64* cursor, u64 stride_cursor, u32 stream, u64 block) {
    u64 seed = u64(cursor[3 * stride_cursor]);
    // Micro-batches draw 2^40 blocks apart.
    return random_block(seed, u32(u64(cursor[0])), stream, block + (u64(cursor[6 * stride_cursor]) << 40));
}
DEVICE u32 word_of(const i64* cursor, u64 stride_cursor, u32 stream, u64 element) {
    Words words = words_of(cursor, stride_cursor, stream, element / 4);
    u32 at = u32(element % 4);
    return at == 0 ? words.v[0] : at == 1 ? words.v[1] : at == 2 ? words.v[2] : words.v[3];
}
