// Functions for kernels whose operands all have at most 16 bits: their relative errors, within 2^-18, are a hundredth
// of the rounding error of f16 (2^-11), for half of the instructions or fewer.

// The error is the product's, which grows with the argument, and the instruction's.
DEVICE float coarse_exp(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504f));
    return y;
}
DEVICE double coarse_exp(double x) { return exp(x); }

// The standard normal distribution function as in `normal.cu`, with (a + 2.8) * M(a) a polynomial of degree 6 in
// (a - 2.8) / (a + 2.8), relative error 1.27e-6, and the square, the quotient and the power of e as they come: of all numbers
// of 16 bits, the worst is off by 3.3e-6 (evaluated against the double-precision erfc, each approximate instruction at either
// end of its error). The power has a factor of 2^32, which the polynomial takes back: results that are not normal are rounded
// but once. Where a is infinite, so is the divisor, and the quotient 1.
DEVICE float coarse_power(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fused(x * x, -0.72134752f, 32.0f)));
    return power;
}
DEVICE float coarse_bell(float x) { return coarse_power(x) * 2.32830644e-10f; }  // 2^-32
DEVICE double coarse_bell(double x) { return exp(-0.5 * x * x); }
DEVICE float coarse_normal_cdf(float x) {
    float power = coarse_power(x), w;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(fabsf(x) + 2.8f));
    float u = fused(w, -5.6f, 1.0f), mills = 4.61133356e-13f;
    mills = fused(mills, u, 8.49564342e-13f);
    mills = fused(mills, u, -3.64203459e-12f);
    mills = fused(mills, u, -5.18255577e-12f);
    mills = fused(mills, u, 4.47267223e-11f);
    mills = fused(mills, u, -1.12173978e-10f);
    mills = fused(mills, u, 1.679097e-10f);
    float tail = power * (w * mills);
    return x > 0.0f ? 1.0f - tail : tail;
}
DEVICE double coarse_normal_cdf(double x) { return normcdf(x); }
