// One step of Adam over a slab. A thread updates units of four neighbours; the scalars of the step, whose powers cost as
// much as many elements, are made once a block, by a warp for each power, while the first units come. Every store waits for
// `ok`.
struct Step { A scale, keep, step_size, root2; };

// What a thread holds of four neighbours.
struct Unit {
    static constexpr int N = 4;
    Several<T, N> p;
    Several<G, N> g;
    Several<A, N> m, v;
};

KERNEL(adam) {
    constexpr int N = Unit::N;
    __shared__ Step shared;
    u64 first = thread_index() * N, step = u64(gridDim.x) * blockDim.x * N;
    Unit u;
    bool whole = false;
    auto load = [&] {
        whole = contiguous && first + N <= n;
        if (whole) {
            u.p = Several<T, N>::load(param + first);
            u.g = Several<G, N>::load(grad + first);
            u.m = Several<A, N>::load(m + first);
            u.v = Several<A, N>::load(v + first);
            return;
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            u64 at = min(first + i, n - 1);
            u.p.v[i] = param[at * param.stride.v[0]];
            u.g.v[i] = grad[at * grad.stride.v[0]];
            u.m.v[i] = m[at * m.stride.v[0]];
            u.v.v[i] = v[at * v.stride.v[0]];
        }
    };
    load();
    if (threadIdx.x == 0) {
        double t = double(cursor[0]) + 1.0, rate = *lr;
        shared.scale = *scale;
        shared.keep = A(1.0 - rate * weight_decay);
        shared.step_size = A(rate / (1.0 - pow(beta1, t)));
    } else if (threadIdx.x == 32) {
        double t = double(cursor[0]) + 1.0;
        shared.root2 = A(sqrt(1.0 - pow(beta2, t)));
    }
    if (*ok == 0) return;
    __syncthreads();
    Step s = shared;
    A b1 = A(beta1), b2 = A(beta2), rest1 = A(1.0 - beta1), rest2 = A(1.0 - beta2), small = A(eps), decay = A(weight_decay);
    while (first < n) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            A old = widen(u.p.v[i]), slope = A(widen(u.g.v[i])) * s.scale;
            if (first + i < decayed) {
                if (decoupled) old *= s.keep;
                else slope += decay * old;
            }
            u.m.v[i] = b1 * u.m.v[i] + rest1 * slope;
            u.v.v[i] = b2 * u.v.v[i] + rest2 * (slope * slope);
            u.p.v[i] = narrow<T>(old - s.step_size * (u.m.v[i] / (sqrt(u.v.v[i]) / s.root2 + small)));
        }
        if (whole) {
            u.p.store(param + first);
            u.m.store(m + first);
            u.v.store(v + first);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) {
                if (first + i < n) {
                    param[(first + i) * param.stride.v[0]] = u.p.v[i];
                    m[(first + i) * m.stride.v[0]] = u.m.v[i];
                    v[(first + i) * v.stride.v[0]] = u.v.v[i];
                }
            }
        }
        first += step;
        if (first < n) load();
    }
}
