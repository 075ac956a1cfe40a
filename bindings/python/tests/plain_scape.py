"""SCAPE as somebody may write it in PyTorch: sections 4 and 5 of docs/specification/, over torch.distributed. It shares nothing with the
package. MISTAKES are such as are made in training code."""

import math
from typing import Any

import torch
import torch.distributed as dist

MISTAKES = {"twice": "the gradient is averaged twice", "residual": "one rank keeps no residual", "decay": "the last rank skips its decay",
            "late": "the mask is used one step late", "clip": "each rank clips by the norm of its own part",
            "signed": "the greatest values are selected in place of the greatest magnitudes", "fresh": "the residual forgets the old one"}


def fp32(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64).to(torch.float32)


def sum_of_squares(values: torch.Tensor) -> float:
    """Section 5, version 2 of the norm: in blocks of 4096 values 256 lanes, which are added as a tree, and so are the blocks."""
    blocks = []
    for block in values.double().square().split(4096):
        lanes = torch.zeros(256, dtype=torch.float64)
        for row in torch.nn.functional.pad(block, (0, -len(block) % 256)).view(-1, 256):
            lanes = lanes + row
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
        blocks.append(lanes.item())
    while len(blocks) > 1:
        blocks = [sum(blocks[i:i + 2]) for i in range(0, len(blocks), 2)]
    return blocks[0] if blocks else 0.0


class PlainScape(torch.optim.Optimizer):
    """Without bias correction. Gradients are each rank's own; `state` has what a recorder asks for."""

    def __init__(self, params: Any, *, lr: float, density: float, clip_norm: float, weight_decay: float, mistake: str = "") -> None:
        super().__init__(list(params), {"lr": lr})
        self._density, self._clip, self._weight_decay, self._mistake = density, clip_norm, weight_decay, mistake
        self._all = self.param_groups[0]["params"]
        self._rank, self._ranks = dist.get_rank(), dist.get_world_size()
        size = sum(p.numel() for p in self._all)
        self._m, self._e = torch.zeros(size), torch.zeros(size)
        self._mask: Any = None
        self._waiting: list[torch.Tensor] = []
        self.norm = 0.0  # of the last mean gradient, by which it was clipped

    def _range(self) -> tuple[int, int]:
        size = self._m.numel()
        part = -(-size // self._ranks)
        return min(size, self._rank * part), min(size, (self._rank + 1) * part)

    def _segments(self) -> list[tuple[int, int, bool]]:
        """The tensors, cut at the borders of this rank's range; norms and biases are always dense."""
        first, last = self._range()
        segments, begin = [], 0
        for p in self._all:
            end = begin + p.numel()
            if max(begin, first) < min(end, last):
                segments.append((max(begin, first), min(end, last), p.dim() < 2))
            begin = end
        return segments

    def _gathered(self, mine: torch.Tensor) -> list[torch.Tensor]:
        parts = [torch.empty_like(mine) for _ in range(self._ranks)]
        dist.all_gather(parts, mine)
        return parts

    def _made_of(self, c: torch.Tensor) -> torch.Tensor:
        """The greatest magnitudes of each segment, as its owner sees them; of equal ones the first."""
        mine = torch.zeros(len(c), dtype=torch.uint8)
        for begin, end, dense in self._segments():
            k = end - begin if dense else min(end - begin, max(1, math.floor(self._density * (end - begin))))
            mine[begin + torch.sort(c[begin:end] if self._mistake == "signed" else c[begin:end].abs(), descending=True, stable=True).indices[:k]] = 1
        return torch.stack(self._gathered(mine)).any(dim=0)

    def _mean_of(self, packed: torch.Tensor) -> torch.Tensor:
        parts = self._gathered(packed)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        mean = total / fp32(float(self._ranks))
        return mean / fp32(float(self._ranks)) if self._mistake == "twice" else mean

    def _norm_of(self, ghat: torch.Tensor, mask: torch.Tensor) -> float:
        if self._mistake == "clip":
            first, last = self._range()
            before = int(mask[:first].sum())
            ghat = ghat[before:before + int(mask[first:last].sum())]
        return math.sqrt(sum_of_squares(ghat))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        rate = self.param_groups[0]["lr"]
        b1, a1, b2, a2, eps, lr = map(fp32, (0.9, 1 - 0.9, 0.95, 1 - 0.95, 1e-8, rate))
        w, g = (torch.cat([t.reshape(-1) for t in tensors]) for tensors in (self._all, [p.grad for p in self._all]))
        m = self._m
        c = ((b1 * m) + (a1 * g)) + self._e
        made = self._made_of(c)
        if not self._waiting:
            self._waiting = [self._made_of(c)] * (2 if self._mistake == "late" else 1)
        mask = self._waiting.pop(0)
        self._waiting.append(made)

        M, before = self._mean_of(c[mask]), m[mask]
        ghat = (M - (b1 * before)) / a1
        self._e = torch.where(mask, torch.zeros(()), (b1 * m) + (a1 * g) if self._mistake == "fresh" else c)
        if self._mistake == "residual" and self._rank == 1:
            self._e = torch.zeros_like(c)
        if self._clip > 0.0:
            self.norm = self._norm_of(ghat, mask)
            ghat = ghat * fp32(min(1.0, self._clip / (self.norm + 1e-6)))
            M = (b1 * before) + (a1 * ghat)
        v = (b2 * (before * before)) + (a2 * (ghat * ghat))
        # PyTorch's root of fp32 may be an ULP off; of doubles, rounded, it is IEEE's.
        u = M / (torch.sqrt(v.double()).float() + eps)
        if self._mistake != "decay" or self._rank != self._ranks - 1:
            w = w * fp32(1.0 - rate * self._weight_decay)
        w[mask] = w[mask] - (lr * u)
        self._m = torch.zeros_like(m)
        self._m[mask] = M
        shown = {"first_moment": self._m, "residual": self._e, "mask": mask.float(), "next_mask": self._waiting[0].float()}
        begin = 0
        for p in self._all:
            end = begin + p.numel()
            p.copy_(w[begin:end].view_as(p))
            self.state[p] = {name: values[begin:end].view_as(p) for name, values in shown.items()}
            begin = end
