// A value as an op of its own would have stored it.
template <class E> DEVICE A rounded(A x) { return A(widen(narrow<E>(x))); }
