// A value as an op of its own would have stored it: no product is contracted with a sum across it.
DEVICE float stored(float x) {
    asm("" : "+f"(x));
    return x;
}
template <class X> DEVICE X stored(X x) { return x; }
template <class E> DEVICE A rounded(A x) { return stored(A(widen(narrow<E>(x)))); }
