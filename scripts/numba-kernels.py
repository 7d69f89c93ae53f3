"""Kernels that numba-cuda compiles, compared with numpy: vector sum, reduction in shared memory, atomics, stencil.

Run by numba.sh, which puts the software driver in front of the loader.
"""

import math
import sys

import numba.cuda as cuda
import numpy as np
from numba import float32

N = 10_000
BLOCK = 128


@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]


@cuda.jit
def block_sums(values, sums):
    shared = cuda.shared.array(BLOCK, float32)
    lane = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[lane] = values[i] if i < values.size else 0
    cuda.syncthreads()
    step = BLOCK // 2
    while step > 0:
        if lane < step:
            shared[lane] += shared[lane + step]
        cuda.syncthreads()
        step //= 2
    if lane == 0:
        sums[cuda.blockIdx.x] = shared[0]


@cuda.jit
def histogram(values, bins, largest):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i] % bins.size, 1)
        cuda.atomic.max(largest, 0, values[i])


@cuda.jit
def smooth(image, out):
    y, x = cuda.grid(2)
    height, width = image.shape
    if 0 < y < height - 1 and 0 < x < width - 1:
        around = image[y - 1, x] + image[y + 1, x] + image[y, x - 1] + image[y, x + 1]
        out[y, x] = 0.5 * image[y, x] + 0.125 * around


@cuda.jit
def curve(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = math.sin(x[i]) * math.exp(-x[i]) + math.sqrt(x[i])


def check(name, got, expected, tolerance=0.0):
    if tolerance:
        np.testing.assert_allclose(got, expected, rtol=tolerance, err_msg=name)
    else:
        np.testing.assert_array_equal(got, expected, err_msg=name)
    print(f"{name}: as numpy")


def main():
    random = np.random.default_rng(7)
    blocks = (N + BLOCK - 1) // BLOCK
    a = random.random(N, dtype=np.float32)
    b = random.random(N, dtype=np.float32)

    out = np.zeros_like(a)
    add[blocks, BLOCK](a, b, out)
    check("vector sum", out, a + b)

    sums = cuda.device_array(blocks, np.float32)
    block_sums[blocks, BLOCK](cuda.to_device(a), sums)
    padded = np.zeros(blocks * BLOCK, np.float32)
    padded[:N] = a
    rows = padded.reshape(blocks, BLOCK)
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        rows = rows[:, :half] + rows[:, half:]
    check("reduction", sums.copy_to_host(), rows[:, 0])

    values = random.integers(0, 1_000_000, N, dtype=np.int32)
    bins = cuda.to_device(np.zeros(97, np.int32))
    largest = cuda.to_device(np.zeros(1, np.int32))
    histogram[blocks, BLOCK](values, bins, largest)
    check("atomics", bins.copy_to_host(), np.bincount(values % 97, minlength=97))
    check("largest", largest.copy_to_host()[0], values.max())

    image = random.random((90, 130))
    smoothed = np.zeros_like(image)
    stream = cuda.stream()
    with stream.auto_synchronize():
        on_device = cuda.to_device(image, stream)
        result = cuda.to_device(smoothed, stream)
        smooth[(6, 9), (16, 16), stream](on_device, result)
        result.copy_to_host(smoothed, stream)
    inner = image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:]
    expected = np.zeros_like(image)
    expected[1:-1, 1:-1] = 0.5 * image[1:-1, 1:-1] + 0.125 * inner
    check("stencil", smoothed, expected, 1e-14)

    x = np.linspace(0, 4, N)
    out = np.zeros_like(x)
    curve[8, BLOCK](x, out)
    check("mathematics", out, np.sin(x) * np.exp(-x) + np.sqrt(x), 1e-13)
    device = cuda.get_current_device()
    print(f"{device.name.decode() if isinstance(device.name, bytes) else device.name}: all right")


if __name__ == "__main__":
    sys.exit(main())
