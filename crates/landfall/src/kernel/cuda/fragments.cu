// Fragments of 16-bit floats for tensor cores, summed in f32.

DEVICE u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }

// 16 bytes to shared memory while other work goes on; zeros where they are not inside.
template <class E> DEVICE void copy_ahead(E* to, const E* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}
// The same of what other blocks of the multiprocessor read too.
template <class E> DEVICE void copy_kept_ahead(E* to, const E* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}
// 8 bytes.
template <class E> DEVICE void copy_half_ahead(E* to, const E* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from), "r"(inside ? 8 : 0)
                 : "memory");
}
DEVICE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four 8 x 8 matrices of 16-bit elements, each lane with the address of a row: lanes 0 to 7 those of the first.
DEVICE void load_matrices(u32 (&x)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}
// The same, transposed.
DEVICE void load_transposed(u32 (&x)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}
// Two matrices, by the addresses of lanes 0 to 15.
DEVICE void load_matrices(u32 (&x)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x[0]), "=r"(x[1])
                 : "r"(shared_address(row))
                 : "memory");
}
DEVICE void load_transposed(u32 (&x)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(x[0]), "=r"(x[1])
                 : "r"(shared_address(row))
                 : "memory");
}

// c[16 x 8] += a[16 x 16] b[16 x 8]. A lane has rows lane / 4 and lane / 4 + 8 of a and c, and of each its columns
// lane % 4 * 2 and the next one (of a also those 8 further); of b it has these as rows of column lane / 4.
DEVICE void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void multiply_add(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, f16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// c[16 x 8] += a[16 x 8] b[8 x 8].
DEVICE void multiply_add(float (&c)[4], const u32 (&a)[2], u32 b, bf16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}
DEVICE void multiply_add(float (&c)[4], const u32 (&a)[2], u32 b, f16) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b));
}

// Two neighbouring elements, rounded; the first in the lower half.
template <class E> DEVICE u32 pair_of(float first, float second);
template <> DEVICE u32 pair_of<bf16>(float first, float second) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
template <> DEVICE u32 pair_of<f16>(float first, float second) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
