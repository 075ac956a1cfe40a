"""The model of bench/training/model/ in PyTorch, over one flat vector in the same order."""

import math


def tensors(torch, flat, shape):
    """Views into the flat vector, by name, in the order of layout_of()."""
    C = shape["width"]
    sizes = [("token", (shape["symbols"], C)), ("position", (shape["context"], C))]
    for layer in range(shape["layers"]):
        sizes += [(f"{layer}.{name}", size) for name, size in
                  (("attention_norm", (C,)), ("qkv", (C, 3 * C)), ("projection", (C, C)), ("mlp_norm", (C,)),
                   ("up", (C, 4 * C)), ("down", (4 * C, C)))]
    sizes.append(("norm", (C,)))
    views, at = {}, 0
    for name, size in sizes:
        views[name] = flat[at:at + math.prod(size)].view(size)
        at += math.prod(size)
    assert at == flat.numel()
    return views


def norm(torch, x, gain):
    if hasattr(torch.nn.functional, "rms_norm"):
        return torch.nn.functional.rms_norm(x, gain.shape, gain, 1e-5)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * gain


def attention(torch, q, k, v):
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    later = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(later, -math.inf)
    return scores.softmax(-1) @ v


def loss(torch, w, shape, inputs, targets):
    """Of windows of (context) symbols, one a row."""
    C, heads = shape["width"], shape["heads"]
    x = w["token"][inputs] + w["position"]
    for layer in range(shape["layers"]):
        qkv = norm(torch, x, w[f"{layer}.attention_norm"]) @ w[f"{layer}.qkv"]
        q, k, v = (part.unflatten(-1, (heads, C // heads)).transpose(1, 2) for part in qkv.split(C, -1))
        mixed = attention(torch, q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + mixed @ w[f"{layer}.projection"]
        hidden = norm(torch, x, w[f"{layer}.mlp_norm"]) @ w[f"{layer}.up"]
        x = x + torch.relu(hidden).square() @ w[f"{layer}.down"]
    logits = norm(torch, x, w["norm"]) @ w["token"].T
    return torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
