// Recurrent cells. A block takes ROWS sequences through all steps: their states lie in shared memory, a thread has a unit of
// each (or several, one after the other), and the weight is read once a step for all ROWS. Sums over units are cut in PARTS, each
// of its own threads, and joined in order.

constexpr bool LSTM = GATES == 4;
constexpr u32 TILE = 64;  // products that are added before their sum is added to the total

DEVICE float exponential(float x) { return expf(x); }
DEVICE double exponential(double x) { return exp(x); }
DEVICE float hyperbolic_tangent(float x) { return tanhf(x); }
DEVICE double hyperbolic_tangent(double x) { return tanh(x); }
DEVICE A sigmoid(A x) { return A(1) / (A(1) + exponential(-x)); }

// Element `u` of [batch, last], and of [batch, steps, last].
template <class E> DEVICE E& at(const View<E>& x, u64 b, u64 u) { return x.data[b * x.stride.v[0] + u * x.stride.v[1]]; }
template <class E> DEVICE E& at(const View<E>& x, u64 b, u64 t, u64 u) {
    return x.data[b * x.stride.v[0] + t * x.stride.v[1] + u * x.stride.v[2]];
}
template <class E> DEVICE A read(const View<E>& x, u64 b, u64 u) { return A(widen(at(x, b, u))); }
template <class E> DEVICE A read(const View<E>& x, u64 b, u64 t, u64 u) { return A(widen(at(x, b, t, u))); }
