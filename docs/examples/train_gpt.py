#!/usr/bin/env python3
"""A GPT of 124 million parameters (the usual settings) trained with SCAPE, or with PyTorch's AdamW behind an all-reduce, on any number of ranks:

    torchrun --nproc_per_node 8 train_gpt.py --tokens tokens.bin --optimizer scape:0.1 --steps 10000 --curve scape.jsonl

`--tokens`: a file of 16-bit numbers, or, with --bytes, any file. The last tenth is measured on. Where there is a GPU, a rank's model stands on
its own; SCAPE's step is taken on the CPU, on fp32 masters, and gradients and parameters travel between the two. Ranks talk by gloo.
ci/templates/slurm-train.sbatch starts it on a cluster."""

import argparse
import json
import math
import os
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn import functional


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.projection = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        windows, places, width = x.shape
        q, k, v = (part.view(windows, places, self.heads, -1).transpose(1, 2) for part in self.qkv(self.attention_norm(x)).split(width, dim=2))
        if hasattr(functional, "scaled_dot_product_attention"):
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:  # before PyTorch 2.0
            later = torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
            mixed = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(later, -math.inf).softmax(3) @ v
        x = x + self.projection(mixed.transpose(1, 2).reshape(windows, places, width))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x))))


class GPT(torch.nn.Module):
    def __init__(self, asked):
        super().__init__()
        self.token, self.place = torch.nn.Embedding(asked.vocabulary, asked.width), torch.nn.Embedding(asked.context, asked.width)
        self.blocks = torch.nn.ModuleList(Block(asked.width, asked.heads) for _ in range(asked.layers))
        self.norm = torch.nn.LayerNorm(asked.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * asked.layers) if name.endswith(("projection.weight", "down.weight")) else 0.02)
            elif name.endswith("bias"):
                torch.nn.init.zeros_(parameter)

    def forward(self, inputs, targets):
        x = self.token(inputs) + self.place.weight[: inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy((self.norm(x) @ self.token.weight.T).flatten(0, 1), targets.flatten())


class Batches:
    def __init__(self, asked, device):
        tokens = numpy.memmap(asked.tokens, dtype=numpy.uint8 if asked.bytes else numpy.uint16, mode="r")
        cut = len(tokens) * 9 // 10
        self.learned, self.measured, self.asked, self.device = tokens[:cut], tokens[cut:], asked, device

    def cut(self, part, begins):
        windows = torch.from_numpy(numpy.stack([part[begin : begin + self.asked.context + 1].astype(numpy.int64) for begin in begins])).to(self.device)
        return windows[:, :-1], windows[:, 1:]

    def drawn(self, rank, step, part):
        """Follows from these numbers: runs of one seed are pairs, whatever the optimizer."""
        draws = numpy.random.default_rng((self.asked.seed, rank, step, part))
        return self.cut(self.learned, draws.integers(len(self.learned) - self.asked.context, size=self.asked.batch))

    def measure(self, model, rank, ranks):
        """The mean over windows that do not overlap, which ranks share."""
        count = min(self.asked.measured_windows, (len(self.measured) - 1) // self.asked.context)
        total = torch.zeros(2, dtype=torch.float64)
        with torch.no_grad():
            for window in range(rank, count, ranks):
                total += torch.tensor([model(*self.cut(self.measured, [window * self.asked.context])).item(), 1.0], dtype=torch.float64)
        dist.all_reduce(total)
        return (total[0] / total[1]).item()


class Scape:
    """On fp32 masters on the CPU, which are the model itself where that stands there."""

    def __init__(self, model, density, asked):
        import truestep.torch
        self.model, self.apart = model, next(model.parameters()).is_cuda
        self.masters = {name: torch.nn.Parameter(p.detach().cpu().clone()) if self.apart else p for name, p in model.named_parameters()}
        fall = ("geometric", 1.0, density, asked.density_warm_up) if asked.density_warm_up else density
        self.optimizer = truestep.torch.Scape(self.masters.items(), lr=asked.rate, density=fall, weight_decay=asked.weight_decay, clip_norm=asked.clip_norm)

    def step(self, rate):
        self.optimizer.param_groups[0]["lr"] = rate
        if self.apart:
            for name, parameter in self.model.named_parameters():
                self.masters[name].grad = parameter.grad.cpu()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.apart:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(self.masters[name])
                    parameter.grad = None


class AdamW:
    """What it is held against: gradients are averaged over the ranks first."""

    def __init__(self, model, asked):
        self.model, self.clip_norm = model, asked.clip_norm
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=asked.rate, betas=(0.9, 0.95), weight_decay=asked.weight_decay)

    def step(self, rate):
        self.optimizer.param_groups[0]["lr"] = rate
        for parameter in self.model.parameters():
            mean = parameter.grad.cpu()
            dist.all_reduce(mean)
            parameter.grad.copy_(mean / dist.get_world_size())
        if self.clip_norm > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad()


def rate_at(asked, step):
    """Up in a line, then down along half a cosine to a tenth."""
    warm_up = max(1, asked.steps // 10)
    if step <= warm_up:
        return asked.rate * step / warm_up
    return asked.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm_up) / max(1, asked.steps - warm_up))))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", required=True)
    parser.add_argument("--bytes", action="store_true", help="the file's bytes are the tokens")
    parser.add_argument("--optimizer", default="scape:0.1", help="scape:DENSITY or adamw")
    for name, value in {"layers": 12, "width": 768, "heads": 12, "context": 1024, "vocabulary": 50304, "batch": 8, "micro-batches": 1, "steps": 10000,
                        "density-warm-up": 0, "measure-every": 250, "measured-windows": 64, "seed": 1}.items():
        parser.add_argument("--" + name, type=int, default=value)
    for name, value in {"rate": 6e-4, "weight-decay": 0.1, "clip-norm": 1.0}.items():
        parser.add_argument("--" + name, type=float, default=value)
    parser.add_argument("--curve", help="a line of JSON for each measurement, by rank 0")
    return parser.parse_args()


def main():
    asked = arguments()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(asked.seed)  # the same start on all ranks
    model, batches = GPT(asked).to(device), Batches(asked, device)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = AdamW(model, asked) if asked.optimizer == "adamw" else Scape(model, float(asked.optimizer.removeprefix("scape:")), asked)
    if rank == 0:
        print(f"{parameters} parameters, {ranks} ranks, {device.type}, {asked.optimizer}", flush=True)
    begin = time.perf_counter()
    for step in range(asked.steps + 1):
        if step > 0:
            for part in range(asked.micro_batches):
                (model(*batches.drawn(rank, step, part)) / asked.micro_batches).backward()
            optimizer.step(rate_at(asked, step))
        if step % asked.measure_every == 0 or step == asked.steps:
            loss = batches.measure(model, rank, ranks)
            if rank == 0:
                line = {"optimizer": asked.optimizer, "seed": asked.seed, "step": step, "loss": loss, "seconds": round(time.perf_counter() - begin, 1)}
                print(json.dumps(line), flush=True)
                if asked.curve:
                    with open(asked.curve, "a", encoding="utf-8") as log:
                        log.write(json.dumps(line) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
