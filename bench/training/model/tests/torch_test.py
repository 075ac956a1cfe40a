#!/usr/bin/env python3
"""Loss and gradient of the model are PyTorch's, within 1e-5 of each tensor's norm; and a model that is a little
another is told apart.

Usage: bench/training/model/tests/torch_test.py TRAINING_PROBE     exit status 77 where there is no torch
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
try:
    import torch
except ImportError as missing:
    print(f"SKIPPED: {missing}; Debian has it as python3-torch")
    sys.exit(77)
import torch_model

SHAPES = ({"symbols": 11, "context": 9, "width": 24, "layers": 2, "heads": 3},
          {"symbols": 65, "context": 70, "width": 64, "layers": 3, "heads": 4})
LIMIT = 1e-5


def read(path, kind):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=kind)


def gradient_of(flat, shape, inputs, targets):
    flat = flat.clone().requires_grad_()
    loss = torch_model.loss(torch, torch_model.tensors(torch, flat, shape), shape, inputs, targets)
    loss.backward()
    return loss.item(), flat.grad


def off(found, expected, shape):
    """The greatest error of a tensor's gradient, relative to its norm, and which tensor."""
    both = [torch_model.tensors(torch, flat, shape) for flat in (found, expected)]
    return max(((both[0][name] - right).norm().item() / right.norm().item(), name) for name, right in both[1].items())


def compare(probe, shape):
    with tempfile.TemporaryDirectory() as folder:
        options = [word for name, value in shape.items() for word in ("--" + name, str(value))]
        done = subprocess.run([probe, *options, "--batch", "3", "--folder", folder], capture_output=True, text=True, check=True)
        files = pathlib.Path(folder)
        flat, ours = read(files / "parameters", torch.float32), read(files / "gradient", torch.float32)
        inputs, targets = (read(files / name, torch.uint8).long().view(3, shape["context"]) for name in ("inputs", "targets"))
    loss, theirs = gradient_of(flat, shape, inputs, targets)
    error, where = off(ours, theirs, shape)
    print(f"{shape}: loss {float(done.stdout):.7f} and {loss:.7f}, gradient off by {error:.2g} in {where}")
    if abs(float(done.stdout) - loss) > LIMIT * loss or not error < LIMIT:
        sys.exit("FAILED: not PyTorch's")
    moved = flat.clone()
    torch_model.tensors(torch, moved, shape)["0.attention_norm"][0] += 0.01
    if not off(ours, gradient_of(moved, shape, inputs, targets)[1], shape)[0] > LIMIT:
        sys.exit("FAILED: a gain that is 0.01 larger has not been noticed")


def main():
    torch.manual_seed(0)
    for shape in SHAPES:
        compare(sys.argv[1], shape)


main()
