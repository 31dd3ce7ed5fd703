// The standard normal distribution function in f32, without a branch: the library's takes one and half as many instructions
// again. For a = |x|, the lower tail is e^(-a^2/2) * M(a), where M(a) = e^(a^2/2) * erfc(a / sqrt 2) / 2 falls slowly, as
// 1/a: (a + 1.9) * M(a) is a polynomial of degree 9 in (a - 1.9) / (a + 1.9), fitted for the least relative error, 4.5e-08.
// (Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x)exp(x^2)erfc x", Math. Comp. 36, 1981, with less weight on
// the quotient's rounding.) The square is taken with its rounding error, and the quotient's reciprocal refined once, so that
// neither shows. Against the double-precision erfc over every f32 it errs by at most 4.72 units in the last place (5 is stated
// for the library's), whether the reciprocal that is refined was rounded up or down. Beyond 15 it is 0 or 1.
//
// e^(-a^2/2) is `power` times a power of two; who asks for it as well as for the distribution function has it once.
struct Bell { float power, factor; };
DEVICE Bell bell_of(float a) {
    float half = -0.5f * a, square = half * a, rest = fused(half, a, -square);
    // -a^2/2 = n ln 2 + r. The low bits of t hold n + 64 and the bias of an exponent: the power of two is made of them, and
    // stays in range where the result is not normal.
    float t = fused(square, 1.44269504f, 12583103.0f), n = t - 12583103.0f;
    float r = fused(n, -1.42860677e-6f, fused(n, -0.693145752f, square)) + rest;
    float power = 0.0013946543f;
    power = fused(power, r, 0.008366645f);
    power = fused(power, r, 0.04166628f);
    power = fused(power, r, 0.16666542f);
    power = fused(power, r, 0.5f);
    power = fused(power, r, 1.0f);
    power = fused(power, r, 1.0f);
    Bell b = {power, __uint_as_float(__float_as_uint(t) << 23)};
    return b;
}
constexpr float FROM_64 = 5.42101086e-20f;  // 2^-64
DEVICE float at_most_15(float x) { return fabsf(x) > 15.0f ? 15.0f : fabsf(x); }  // a NaN stays one

DEVICE float bell(float x) {
    Bell b = bell_of(at_most_15(x));
    return b.power * b.factor * FROM_64;
}
DEVICE double bell(double x) { return exp(-0.5 * x * x); }

DEVICE float normal_cdf(float x) {
    float a = at_most_15(x);
    Bell b = bell_of(a);
    float under = a + 1.9f, w;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(w) : "f"(under));
    w = fused(w, fused(-under, w, 1.0f), w);
    float u = (a - 1.9f) * w, mills = 0.000208588723f;
    mills = fused(mills, u, 0.000721772773f);
    mills = fused(mills, u, 0.000271624044f);
    mills = fused(mills, u, -0.00287507986f);
    mills = fused(mills, u, -0.00597616876f);
    mills = fused(mills, u, 0.00408114676f);
    mills = fused(mills, u, 0.037030799f);
    mills = fused(mills, u, 0.00909249908f);
    mills = fused(mills, u, -0.307050291f);
    mills = fused(mills, u, 0.663464256f);
    float tail = b.power * (w * mills) * b.factor * FROM_64;
    return x > 0.0f ? 1.0f - tail : tail;
}
DEVICE double normal_cdf(double x) { return normcdf(x); }
