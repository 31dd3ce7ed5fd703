// Two numbers: one thread.

KERNEL(loss_scale) {
    if (thread_index() > 0) return;
    constexpr float LARGEST = 3.402823466e+38f;
    float scale = state[0], run = state[state.stride.v[0]] + 1.0f;
    float grown = scale * float(growth);
    bool grows = run >= float(interval);
    if (*ok == 0) {
        scale = max(scale * float(backoff), float(least));
        run = 0.0f;
    } else if (grows) {
        scale = grown <= LARGEST ? grown : scale;
        run = 0.0f;
    }
    state[0] = scale;
    state[state.stride.v[0]] = run;
}
