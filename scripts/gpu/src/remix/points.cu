// Kernels on pixels, particles and numbers of their own: mostly arithmetic.
#include "buffers.h"

__global__ void bilateral(const float *in, float *out, int nx, int ny, int radius, float near, float like)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    float centre = in[y * nx + x], sum = 0.0f, all = 0.0f;
    for (int j = -radius; j <= radius; j++)
        for (int i = -radius; i <= radius; i++) {
            int u = min(max(x + i, 0), nx - 1), v = min(max(y + j, 0), ny - 1);
            float value = in[v * nx + u], d = value - centre;
            float weight = expf(-(float)(i * i + j * j) / (2.0f * near * near) - d * d / (2.0f * like * like));
            sum += weight * value, all += weight;
        }
    out[y * nx + x] = sum / all;
}

__global__ void sobel(const float *in, float *out, int nx, int ny)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= nx - 1 || y >= ny - 1) return;
    const float *p = in + y * nx + x;
    float gx = p[1 - nx] + 2 * p[1] + p[1 + nx] - p[-1 - nx] - 2 * p[-1] - p[nx - 1];
    float gy = p[nx - 1] + 2 * p[nx] + p[nx + 1] - p[-nx - 1] - 2 * p[-nx] - p[1 - nx];
    out[y * nx + x] = sqrtf(gx * gx + gy * gy);
}

__device__ void order(float &a, float &b)
{
    float low = fminf(a, b);
    b = fmaxf(a, b), a = low;
}

__global__ void median_3x3(const float *in, float *out, int nx, int ny)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x <= 0 || y <= 0 || x >= nx - 1 || y >= ny - 1) return;
    float v[9];
    for (int j = 0; j < 9; j++) v[j] = in[(y + j / 3 - 1) * nx + x + j % 3 - 1];
    for (int pass = 0; pass < 5; pass++)
        for (int j = 0; j < 8 - pass; j++) order(v[j], v[j + 1]);
    out[y * nx + x] = v[4];
}

__global__ void resize_bilinear(const float *in, float *out, int nx, int ny, int ox, int oy)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ox || y >= oy) return;
    float u = (x + 0.5f) * nx / ox - 0.5f, v = (y + 0.5f) * ny / oy - 0.5f;
    int i = max((int)floorf(u), 0), j = max((int)floorf(v), 0), k = min(i + 1, nx - 1), l = min(j + 1, ny - 1);
    float a = u - i, b = v - j;
    out[y * ox + x] = (in[j * nx + i] * (1 - a) + in[j * nx + k] * a) * (1 - b) + (in[l * nx + i] * (1 - a) + in[l * nx + k] * a) * b;
}

__global__ void mandelbrot(int *out, int nx, int ny, int most)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    float a = -2.0f + 3.0f * x / nx, b = -1.5f + 3.0f * y / ny, u = 0.0f, v = 0.0f;
    int count = 0;
    while (count < most && u * u + v * v < 4.0f) {
        float next = u * u - v * v + a;
        v = 2.0f * u * v + b, u = next, count++;
    }
    out[y * nx + x] = count;
}

__global__ void nbody(const float4 *in, float4 *force, int n)
{
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 me = in[i], sum = make_float4(0, 0, 0, 0);
    for (int t = 0; t < n; t += 128) {
        tile[threadIdx.x] = in[t + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 128; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-4f), f = tile[j].w * r * r * r;
            sum.x += f * dx, sum.y += f * dy, sum.z += f * dz;
        }
        __syncthreads();
    }
    force[i] = sum;
}

__global__ void lennard_jones(const float4 *at, const int *neighbours, float4 *force, int n, int each, float cut)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 me = at[i], sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < each; k++) {
        float4 other = at[neighbours[k * n + i] % n];
        float dx = me.x - other.x, dy = me.y - other.y, dz = me.z - other.z, r2 = dx * dx + dy * dy + dz * dz + 0.1f;
        if (r2 > cut) continue;
        float r = 1.0f / r2, r6 = r * r * r, f = 48.0f * r6 * (r6 - 0.5f) * r;
        sum.x += f * dx, sum.y += f * dy, sum.z += f * dz;
    }
    force[i] = sum;
}

__device__ float normal(float d)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float c = 0.39894228f * expf(-0.5f * d * d) *
              (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0 ? 1.0f - c : c;
}

__global__ void black_scholes(const float *price, const float *strike, const float *years, float *call, float *put, int n, float rate, float sigma)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float root = sqrtf(years[i]), d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * sigma * sigma) * years[i]) / (sigma * root);
        float d2 = d1 - sigma * root, discount = expf(-rate * years[i]);
        call[i] = price[i] * normal(d1) - strike[i] * discount * normal(d2);
        put[i] = strike[i] * discount * normal(-d2) - price[i] * normal(-d1);
    }
}

__global__ void binomial_tree(const float *price, float *out, int steps, float up, float likely)
{
    extern __shared__ float value[];
    float start = price[blockIdx.x] + 20.0f;
    for (int i = threadIdx.x; i <= steps; i += blockDim.x) value[i] = fmaxf(start * powf(up, (float)(2 * i - steps)) - 20.0f, 0.0f);
    for (int step = steps; step > 0; step--) {
        __syncthreads();
        float next = 0.0f;
        if (threadIdx.x < step) next = likely * value[threadIdx.x + 1] + (1.0f - likely) * value[threadIdx.x];
        __syncthreads();
        if (threadIdx.x < step) value[threadIdx.x] = next;
    }
    if (threadIdx.x == 0) out[blockIdx.x] = value[0];
}

__global__ void monte_carlo_pi(unsigned *hits, int tries)
{
    unsigned s = blockIdx.x * blockDim.x + threadIdx.x + 1, count = 0;
    s *= 2654435761u;
    for (int i = 0; i < tries; i++) {
        s ^= s << 13, s ^= s >> 17, s ^= s << 5;
        unsigned x = s & 65535, y = s >> 16;
        count += x * x + y * y < 4294836225u;
    }
    hits[blockIdx.x * blockDim.x + threadIdx.x] = count;
}

__global__ void jenkins_hash(const unsigned *keys, unsigned *out, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    unsigned a = 0xdeadbeef, b = a, c = a;
    for (int i = 0; i < 15; i += 3) {
        a += keys[(t + i) % n], b += keys[(t + i + 1) % n], c += keys[(t + i + 2) % n];
        a -= c, a ^= c << 4 | c >> 28, c += b, b -= a, b ^= a << 6 | a >> 26, a += c;
        c -= b, c ^= b << 8 | b >> 24, b += a, a -= c, a ^= c << 16 | c >> 16, c += b;
        b -= a, b ^= a << 19 | a >> 13, a += c, c -= b, c ^= b << 4 | b >> 28, b += a;
    }
    out[t] = c;
}

__global__ void crc_32(const unsigned char *bytes, unsigned *out, int each)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned crc = ~0u;
    for (int i = 0; i < each; i++) {
        crc ^= bytes[t * each + i];
#pragma unroll
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1u)));
    }
    out[t] = ~crc;
}

__global__ void queens(unsigned *solutions, int n)
{
    unsigned t = blockIdx.x * blockDim.x + threadIdx.x, rows[16], left[16], right[16], open[16], all = (1u << n) - 1, count = 0;
    unsigned first = 1u << t % n, second = 1u << t / n % n;
    if (second & (first | first << 1 | first >> 1)) {
        solutions[t] = 0;
        return;
    }
    int depth = 0;
    rows[0] = first | second, left[0] = (first << 2 | second << 1) & all, right[0] = first >> 2 | second >> 1;
    open[0] = all & ~(rows[0] | left[0] | right[0]);
    while (depth >= 0) {
        unsigned free = open[depth];
        if (!free) {
            depth--;
            continue;
        }
        unsigned bit = free & (0u - free);
        open[depth] = free ^ bit;
        unsigned r = rows[depth] | bit;
        if (r == all) {
            count++;
            continue;
        }
        unsigned l = (left[depth] | bit) << 1 & all, g = (right[depth] | bit) >> 1;
        depth++;
        rows[depth] = r, left[depth] = l, right[depth] = g, open[depth] = all & ~(r | l | g);
    }
    solutions[t] = count;
}

__global__ void gelu(const float *in, float *out, int n)
{
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    if (i >= n) return;
    float4 v = *(const float4 *)(in + i);
    float *p = &v.x;
    for (int k = 0; k < 4; k++) p[k] = 0.5f * p[k] * (1.0f + tanhf(0.79788456f * (p[k] + 0.044715f * p[k] * p[k] * p[k])));
    *(float4 *)(out + i) = v;
}

__global__ void rotary(float *x, int heads, int width, float base)
{
    int i = threadIdx.x, head = blockIdx.x % heads, position = blockIdx.x / heads;
    float angle = position * powf(base, -2.0f * i / width), s, c;
    sincosf(angle, &s, &c);
    float *p = x + ((size_t)position * heads + head) * width + 2 * i, a = p[0], b = p[1];
    p[0] = a * c - b * s, p[1] = a * s + b * c;
}

__global__ void dot_bytes(const int *a, const int *b, int *c, int n)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, sum = 0;
    for (int k = 0; k < n / 4; k++) sum = __dp4a(a[y * n / 4 + k], b[x * n / 4 + k], sum);
    c[y * gridDim.x * blockDim.x + x] = sum;
}

__global__ void lomb_scargle(const float *times, const float *values, float *power, int samples, float step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float w = (i + 1) * step, xc = 0, xs = 0, cc = 0, ss = 0, cs = 0;
    for (int k = 0; k < samples; k++) {
        float s, c;
        sincosf(w * times[k], &s, &c);
        xc += values[k] * c, xs += values[k] * s, cc += c * c, ss += s * s, cs += c * s;
    }
    float tau = atan2f(2.0f * cs, cc - ss) / (2.0f * w), s, c;
    sincosf(w * tau, &s, &c);
    float top = c * xc + s * xs, other = c * xs - s * xc;
    power[i] = 0.5f * (top * top / (c * c * cc + 2 * c * s * cs + s * s * ss) + other * other / (c * c * ss - 2 * c * s * cs + s * s * cc));
}

int main()
{
    const int n = 1 << 21, m = 1024;
    float *x = floats(n, 0.1f, 1), *y = zeros<float>(n), *z = floats(n, 0.1f, 1, 7);
    dim3 block(32, 8), plane(m / 32, m / 8);
    bilateral<<<plane, block>>>(x, y, m, m, 4, 3.0f, 0.5f), done("bilateral");
    sobel<<<plane, block>>>(x, y, m, m), done("sobel");
    median_3x3<<<plane, block>>>(x, y, m, m), done("median_3x3");
    resize_bilinear<<<dim3(48, 192), block>>>(x, y, m, m, 1536, 1200), done("resize_bilinear");
    mandelbrot<<<plane, block>>>((int *)y, m, m, 256), done("mandelbrot");
    nbody<<<8192 / 128, 128>>>((float4 *)x, (float4 *)y, 8192), done("nbody");
    int *keys = integers(n, 1 << 20);
    lennard_jones<<<16384 / 128, 128>>>((float4 *)x, keys, (float4 *)y, 16384, 64, 1.5f), done("lennard_jones");
    black_scholes<<<512, 256>>>(x, z, z + n / 2, y, y + n / 2, n / 2, 0.02f, 0.3f), done("black_scholes");
    binomial_tree<<<512, 512, 512 * sizeof(float)>>>(x, y, 511, 1.01f, 0.52f), done("binomial_tree");
    monte_carlo_pi<<<512, 256>>>((unsigned *)y, 1000), done("monte_carlo_pi");
    jenkins_hash<<<n / 256, 256>>>((unsigned *)keys, (unsigned *)y, n), done("jenkins_hash");
    crc_32<<<n / 64 / 128, 128>>>((unsigned char *)keys, (unsigned *)y, 256), done("crc_32");
    queens<<<11 * 11, 1>>>((unsigned *)y, 11), done("queens");
    gelu<<<n / 1024, 256>>>(x, y, n), done("gelu");
    rotary<<<n / 128, 64>>>(floats(n, -1, 1, 9), 16, 128, 10000.0f), done("rotary");
    dot_bytes<<<dim3(16, 64), block>>>(keys, keys + n / 2, (int *)y, 1024), done("dot_bytes");
    lomb_scargle<<<256, 128>>>(x, z, y, 512, 0.01f), done("lomb_scargle");
    return 0;
}
