extern "C" __global__ void saxpy(const float* __restrict__ x, float* y, int n, int reps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = 1.0009765625f, s = 0;
#pragma unroll 1
  for (int r = 0; r < reps; r++) { int j = i + r * 256; s = a * x[j] + y[j]; y[j] = s; }
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float s = 0;
  for (int t = 0; t < n / 16; t++) {
    sa[ty][tx] = a[row * n + t * 16 + tx]; sb[ty][tx] = b[(t * 16 + ty) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; k++) s += sa[ty][k] * sb[k][tx];
    __syncthreads();
  }
  c[row * n + col] = s;
}
extern "C" __global__ void reduce(const float* x, float* out, int n) {
  __shared__ float s[256];
  int t = threadIdx.x; float v = 0;
  for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) v += x[i];
  s[t] = v; __syncthreads();
#pragma unroll 1
  for (int k = 128; k > 0; k >>= 1) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
  if (t == 0) out[blockIdx.x] = s[0];
}
extern "C" __global__ void collatz(unsigned* out, int n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, v = i + 1, steps = 0;
#pragma unroll 1
  while (v != 1 && steps < 200) {
    if (v & 1) { v = 3 * v + 1; v ^= steps & 0; } else { v >>= 1; if (v % 7 == 3) steps += 2; }
    steps++;
  }
  out[i] = steps;
}
extern "C" __global__ void nbody(const float4* p, float4* f, int n) {
  __shared__ float4 s[128];
  int i = blockIdx.x * 128 + threadIdx.x; float4 me = p[i]; float ax = 0, ay = 0, az = 0;
  for (int t = 0; t < n; t += 128) {
    s[threadIdx.x] = p[t + threadIdx.x]; __syncthreads();
#pragma unroll 4
    for (int j = 0; j < 128; j++) {
      float dx = s[j].x - me.x, dy = s[j].y - me.y, dz = s[j].z - me.z;
      float d = dx * dx + dy * dy + dz * dz + 0.01f; float r = rsqrtf(d); float r3 = s[j].w * r * r * r;
      ax += dx * r3; ay += dy * r3; az += dz * r3;
    }
    __syncthreads();
  }
  f[i] = make_float4(ax, ay, az, 0);
}
