// Words that only look like assembly: asm, and a macro that puts names together.
#define TERM(k) term##k
extern "C" __global__ void smooth(const float *in, float *out, float weight, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const char *asm_text = "asm volatile";
    if (i > 0 && i < n - 1) {
        float TERM(0) = in[i - 1], TERM(1) = in[i], TERM(2) = in[i + 1];
        out[i] = (term0 + term1 + term2) * (asm_text[0] == 'a' ? weight : 0.0f);
    }
}
