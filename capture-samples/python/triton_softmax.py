"""A row-wise softmax written in Triton, checked against PyTorch. Prints checksums."""

import hashlib

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out, rows, row_stride, columns, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(rows + row * row_stride + offsets, mask=inside, other=-float("inf")) * scale
    shifted = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + offsets, shifted / tl.sum(shifted, axis=0), mask=inside)


def softmax(rows, scale):
    out = torch.empty(rows.shape, device=rows.device)
    columns = rows.shape[1]
    softmax_kernel[(rows.shape[0],)](out, rows, rows.stride(0), columns, scale,
                                     BLOCK=triton.next_power_of_2(columns), num_warps=4)
    return out


def main():
    generator = torch.Generator().manual_seed(1)
    for shape in ((128, 100), (64, 777), (33, 1024)):
        rows = torch.randn(*shape, generator=generator).cuda()
        got = softmax(rows, 0.5)
        assert torch.allclose(got, torch.softmax(rows * 0.5, dim=1), atol=1e-6)
        print(shape, hashlib.sha256(got.cpu().numpy().tobytes()).hexdigest()[:16])


if __name__ == "__main__":
    main()
