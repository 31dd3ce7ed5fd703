// A value as an op of its own would have stored it: no product is contracted with a sum across it.
DEVICE float stored(float x) {
    asm("" : "+f"(x));
    return x;
}
template <class X> DEVICE X stored(X x) { return x; }
template <class E> DEVICE A rounded(A x) { return stored(A(widen(narrow<E>(x)))); }
// A product that is stored: no assembler takes it into a sum either.
DEVICE float stored_product(float a, float b) { return __fmul_rn(a, b); }
template <class X> DEVICE X stored_product(X a, X b) { return product_of(a, b); }
