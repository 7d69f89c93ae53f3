"""Matrix products, softmax, sort and a small training run in PyTorch. Prints a checksum of each result."""

import hashlib

import torch


def digest(tensor):
    data = tensor.detach().contiguous().cpu()
    if data.dtype == torch.bfloat16:
        data = data.view(torch.int16)
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()[:16]


def train(steps):
    """A few steps of a two-layer classifier."""
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(96, 64, generator=generator).cuda()
    labels = torch.randint(0, 10, (96,), generator=generator).cuda()
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.GELU(), torch.nn.Linear(128, 10)
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, torch.cat([parameter.flatten() for parameter in model.parameters()])


def main():
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(200, 160, generator=generator).cuda()
    b = torch.randn(160, 120, generator=generator).cuda()
    product = a @ b
    assert torch.allclose(product.cpu(), a.cpu() @ b.cpu(), rtol=1e-3, atol=1e-3)
    print("matmul", digest(product))
    print("matmul bf16", digest(a.bfloat16() @ b.bfloat16()))

    soft = torch.softmax(product, dim=1)
    assert torch.allclose(soft.sum(dim=1), torch.ones(200, device="cuda"), atol=1e-5)
    print("softmax", digest(soft))

    values, order = torch.sort(product.flatten(), descending=True)
    assert bool((values[:-1] >= values[1:]).all())
    print("sort", digest(values), digest(order))

    losses, parameters = train(steps=3)
    assert losses[-1] < losses[0]
    print("train", " ".join(f"{loss:.6f}" for loss in losses), digest(parameters))


if __name__ == "__main__":
    main()
