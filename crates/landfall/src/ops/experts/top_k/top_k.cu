// A warp a token. A round finds the largest element behind the last one found, in the order of values, then of indices; so
// nothing is marked, and ties go to the lower index.

constexpr u32 THREADS = 256;
typedef typename Accumulate<T>::type A;
constexpr u32 NONE = 0xFFFFFFFFu;

// NaN is behind every number.
DEVICE bool ahead(A a, u32 i, A b, u32 j) {
    if (a != a || b != b) return a == a || (b != b && i < j);
    return a > b || (a == b && i < j);
}

KERNEL(top_k) {
    u64 token = thread_index() / 32;
    u32 lane = threadIdx.x % 32;
    if (token >= tokens) return;
    const T* row = p + token * p.stride.v[0];
    A value = 0, sum = 0;
    u32 last = NONE;
    for (u32 round = 0; round < k; round++) {
        A best = 0;
        u32 at = NONE;
        for (u32 e = lane; e < experts; e += 32) {
            A x = widen(row[e * p.stride.v[1]]);
            if (last != NONE && !ahead(value, last, x, e)) continue;
            if (at == NONE || ahead(x, e, best, at)) {
                best = x;
                at = e;
            }
        }
#pragma unroll
        for (u32 d = 16; d > 0; d /= 2) {
            A x = __shfl_xor_sync(0xFFFFFFFFu, best, d);
            u32 e = __shfl_xor_sync(0xFFFFFFFFu, at, d);
            if (e != NONE && (at == NONE || ahead(x, e, best, at))) {
                best = x;
                at = e;
            }
        }
        value = best;
        last = at;
        sum += best;
    }
    for (u32 e = lane; e < experts; e += 32) {
        A x = widen(row[e * p.stride.v[1]]);
        bool chosen = e == last || ahead(x, e, value, last);
        routed[token * routed.stride.v[0] + e * routed.stride.v[1]] = chosen;
        A w = !chosen ? A(0) : RENORMALISE ? x / sum : x;
        weights[token * weights.stride.v[0] + e * weights.stride.v[1]] = narrow<T>(w);
    }
}

KERNEL(top_k_grad) {
    u64 token = thread_index() / 32;
    u32 lane = threadIdx.x % 32;
    if (token >= tokens) return;
    const T* row = p + token * p.stride.v[0];
    const T* cotangent = gw + token * gw.stride.v[0];
    const u8* chosen = routed + token * routed.stride.v[0];
    A sum = 0, along = 0;
    // Cotangents count from the first chosen one's: of equal ones nothing is left over.
    u32 first = NONE;
    for (u32 e = lane; RENORMALISE && e < experts && first == NONE; e += 32) {
        if (chosen[e * routed.stride.v[1]]) first = e;
    }
    first = warp_all<Min>(first);
    A base = first == NONE ? A(0) : A(widen(cotangent[first * gw.stride.v[1]]));
    for (u32 e = lane; RENORMALISE && e < experts; e += 32) {
        if (!chosen[e * routed.stride.v[1]]) continue;
        A x = widen(row[e * p.stride.v[1]]);
        sum += x;
        along = fused(x, (A(widen(cotangent[e * gw.stride.v[1]])) - base), along);
    }
    sum = warp_all<Sum>(sum);
    along = warp_all<Sum>(along);
    for (u32 e = lane; e < experts; e += 32) {
        A g = chosen[e * routed.stride.v[1]] ? A(widen(cotangent[e * gw.stride.v[1]])) : A(0);
        if (RENORMALISE && chosen[e * routed.stride.v[1]]) g = (g - base - along / sum) / sum;
        out[token * out.stride.v[0] + e * out.stride.v[1]] = narrow<T>(g);
    }
}
