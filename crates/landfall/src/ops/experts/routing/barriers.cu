// Barriers of Hopper in shared memory, which count arrivals and bytes: for kernels whose copies a thread asks for.

DEVICE u32 shared_address(const void* at) { return u32(__cvta_generic_to_shared(at)); }

DEVICE void barrier_init(u32 at, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
DEVICE void barrier_arrive(u32 at) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
// So many bytes are to come before the phase is over.
DEVICE void barrier_arrive_expect(u32 at, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
// Waits until the phase of this parity is over.
DEVICE void barrier_wait(u32 at, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}" ::"r"(at), "r"(parity)
        : "memory");
}
// Makes initialized barriers known to the cluster and to the hardware that copies; a sync follows.
DEVICE void barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}
