"""AdamS as somebody may write it in PyTorch."""

import torch


class PlainAdamS(torch.optim.Optimizer):
    """Section 3 without bias correction, in PyTorch's own arithmetic."""

    def __init__(self, params: object, mistake: bool) -> None:
        super().__init__(params, {"lr": 0.01})
        self._mistake = mistake

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        b1, a1, b2, a2, eps = (torch.tensor(value, dtype=torch.float64).to(torch.float32)
                               for value in (0.9, 1 - 0.9, 0.95, 1 - 0.95, 1e-8))
        rate = torch.tensor(self.param_groups[0]["lr"], dtype=torch.float32)
        for p in self.param_groups[0]["params"]:
            m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
            new = (b1 * m) + (a1 * p.grad)
            square = new if self._mistake else m
            v = (b2 * (square * square)) + (a2 * (p.grad * p.grad))
            p.copy_(p - rate * (new / (v.sqrt() + eps)))
            self.state[p]["exp_avg"] = new
