// A Lomb-Scargle periodogram of unevenly sampled data: for each frequency, sums of sines and cosines over all samples.
#include "data.h"

__global__ void lombscargle(int samples, int frequencies, const float *times, const float *values, const float *angular,
                            float *power, float norm) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= frequencies) {
        return;
    }
    float w = angular[f];
    float xc = 0, xs = 0, cc = 0, ss = 0, cs = 0;
    for (int j = 0; j < samples; ++j) {
        float s, c;
        sincosf(w * times[j], &s, &c);
        xc += values[j] * c;
        xs += values[j] * s;
        cc += c * c;
        ss += s * s;
        cs += c * s;
    }
    float tau = atan2f(2.0f * cs, cc - ss) / (2.0f * w);
    float st, ct;
    sincosf(w * tau, &st, &ct);
    float c2 = ct * ct, s2 = st * st, both = 2.0f * ct * st;
    float up = ct * xc + st * xs, down = ct * xs - st * xc;
    power[f] = 0.5f * (up * up / (c2 * cc + both * cs + s2 * ss) + down * down / (c2 * ss - both * cs + s2 * cc)) * norm;
}

int main(int argc, char **argv) {
    const int samples = argument(argc, argv, 1, 1000), frequencies = argument(argc, argv, 2, 100000);
    const int launches = argument(argc, argv, 3, 4);
    std::vector<float> at = floats(samples, 1, 0.01f, 30.0f), w(frequencies), seen = floats(samples, 2, -1.0f, 1.0f);
    for (int i = 0; i < frequencies; ++i) {
        w[i] = 0.01f + 10.0f * static_cast<float>(i) / static_cast<float>(frequencies);
    }
    float *times = device_copy(at), *values = device_copy(seen), *angular = device_copy(w), *power = nullptr;
    CHECK(cudaMalloc(&power, frequencies * sizeof(float)));
    CHECK(cudaMemset(power, 0, frequencies * sizeof(float)));
    for (int i = 0; i < launches; ++i) {
        lombscargle<<<(frequencies + 255) / 256, 256>>>(samples, frequencies, times, values, angular, power, 2.0f / samples);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    return result("lombscargle", true, checksum(host_copy(power, frequencies)));
}
