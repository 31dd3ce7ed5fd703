// One step of Adam over a slab. A thread updates units of four neighbours; the scalars of the step, whose powers cost as
// much as many elements, are made once a block. Every store waits for `ok`.
struct Step { A scale, keep, step_size, root2; };

KERNEL(adam) {
    constexpr int N = 4;
    __shared__ Step shared;
    if (*ok == 0) return;
    if (threadIdx.x == 0) {
        double t = double(cursor[0]) + 1.0, rate = *lr;
        shared.scale = *scale;
        shared.keep = A(1.0 - rate * weight_decay);
        shared.step_size = A(rate / (1.0 - pow(beta1, t)));
        shared.root2 = A(sqrt(1.0 - pow(beta2, t)));
    }
    __syncthreads();
    Step s = shared;
    A b1 = A(beta1), b2 = A(beta2), rest1 = A(1.0 - beta1), rest2 = A(1.0 - beta2), small = A(eps), decay = A(weight_decay);
    u64 threads = u64(gridDim.x) * blockDim.x;
    for (u64 first = thread_index() * N; first < n; first += threads * N) {
        bool whole = gapless && first + N <= n;
        Several<T, N> p;
        Several<G, N> g;
        Several<A, N> ms, vs;
        if (whole) {
            p = Several<T, N>::load(param + first);
            g = Several<G, N>::load(grad + first);
            ms = Several<A, N>::load(m + first);
            vs = Several<A, N>::load(v + first);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) {
                u64 at = min(first + i, n - 1);
                p.v[i] = param[at * stride.v[0]];
                g.v[i] = grad[at * stride.v[1]];
                ms.v[i] = m[at * stride.v[2]];
                vs.v[i] = v[at * stride.v[3]];
            }
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            A old = widen(p.v[i]), slope = A(widen(g.v[i])) * s.scale;
            if (first + i < decayed) {
                if (decoupled) old *= s.keep;
                else slope += decay * old;
            }
            ms.v[i] = b1 * ms.v[i] + rest1 * slope;
            vs.v[i] = b2 * vs.v[i] + rest2 * (slope * slope);
            p.v[i] = narrow<T>(old - s.step_size * (ms.v[i] / (sqrt(vs.v[i]) / s.root2 + small)));
        }
        if (whole) {
            p.store(param + first);
            ms.store(m + first);
            vs.store(v + first);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) {
                if (first + i < n) {
                    param[(first + i) * stride.v[0]] = p.v[i];
                    m[(first + i) * stride.v[2]] = ms.v[i];
                    v[(first + i) * stride.v[3]] = vs.v[i];
                }
            }
        }
    }
}
