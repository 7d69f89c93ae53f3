// A linked structure in device memory. The kernel gets one struct by value that holds two pointers;
// all other memory is reached through pointers inside buffers, some of them into the middle of an
// allocation. Nothing but `head` and `out` is named in the arguments.
#include "sample.h"

struct Node {
    unsigned int length;
    unsigned int tag;
    Node *next;
    const float *values;
};

struct Chase {
    unsigned int steps;
    const Node *head;
    float scale;
    float *out;
};

__global__ void chase(Chase arguments) {
    const Node *node = arguments.head;
    for (unsigned int step = 0; step < arguments.steps && node != nullptr; ++step) {
        float sum = 0.0f;
        for (unsigned int i = threadIdx.x; i < node->length; i += blockDim.x) {
            sum += node->values[i] * arguments.scale;
        }
        arguments.out[step * blockDim.x + threadIdx.x] = sum + static_cast<float>(node->tag);
        node = node->next;
    }
}

int main(int argc, char **argv) {
    const int nodes = argument(argc, argv, 1, 24);
    const int length = argument(argc, argv, 2, 200);
    const int threads = 64;

    // Nodes live in two arrays, alternating; values in one allocation per three nodes.
    const int half = (nodes + 1) / 2;
    Node *arrays[2] = {nullptr, nullptr};
    CHECK(cudaMalloc(&arrays[0], half * sizeof(Node)));
    CHECK(cudaMalloc(&arrays[1], half * sizeof(Node)));
    std::vector<Node> host[2] = {std::vector<Node>(half), std::vector<Node>(half)};
    memset(host[0].data(), 0, half * sizeof(Node));
    memset(host[1].data(), 0, half * sizeof(Node));

    std::vector<float> want(nodes * threads, 0.0f);
    float *values = nullptr;
    for (int i = 0; i < nodes; ++i) {
        if (i % 3 == 0) {
            std::vector<float> three(3 * length);
            for (int j = 0; j < 3 * length; ++j) {
                three[j] = floorf(noise(i * length + j, 1) * 256.0f) / 256.0f;
            }
            values = device_copy(three);
        }
        Node &node = host[i % 2][i / 2];
        node.length = length;
        node.tag = i;
        node.values = values + (i % 3) * length;
        node.next = i + 1 < nodes ? arrays[(i + 1) % 2] + (i + 1) / 2 : nullptr;
        for (int j = 0; j < length; ++j) {
            float value = floorf(noise((i - i % 3) * length + (i % 3) * length + j, 1) * 256.0f) / 256.0f;
            want[i * threads + j % threads] += value * 0.5f;
        }
        for (int thread = 0; thread < threads; ++thread) {
            want[i * threads + thread] += static_cast<float>(i);
        }
    }
    CHECK(cudaMemcpy(arrays[0], host[0].data(), half * sizeof(Node), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(arrays[1], host[1].data(), half * sizeof(Node), cudaMemcpyHostToDevice));

    float *out = nullptr;
    CHECK(cudaMalloc(&out, nodes * threads * sizeof(float)));
    CHECK(cudaMemset(out, 0, nodes * threads * sizeof(float)));
    Chase arguments;
    memset(&arguments, 0, sizeof(arguments));
    arguments.steps = nodes;
    arguments.head = arrays[0];
    arguments.scale = 0.5f;
    arguments.out = out;
    chase<<<1, threads>>>(arguments);
    CHECK(cudaGetLastError());
    std::vector<float> got = host_copy(out, nodes * threads);
    return result("pointer_chase", got == want, checksum(got));
}
