template <class T> DEVICE bool bad(T x) {
    auto v = widen(x);
    return v - v != decltype(v)(0);
}

// Whether up to four single values are finite: one thread. The first launch of a call writes the result, later ones take it
// away.
KERNEL(finite) {
    if (thread_index() > 0) return;
    bool found = bad(*x0) | bad(*x1) | bad(*x2) | bad(*x3);
    if (found || first) *out = !found;
}
