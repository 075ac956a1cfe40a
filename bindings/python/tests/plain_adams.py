"""AdamS as somebody may write it in PyTorch."""

import torch


class PlainAdamS(torch.optim.Optimizer):
    """Section 3 without bias correction, in PyTorch's own arithmetic. ``mistake``: True, the new moment in the denominator; "lr" or
    "weight_decay", that of the first param group for all."""

    def __init__(self, params: object, mistake: object) -> None:
        super().__init__(params, {"lr": 0.01, "weight_decay": 0.0})
        self._mistake = mistake

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        b1, a1, b2, a2, eps = (torch.tensor(value, dtype=torch.float64).to(torch.float32)
                               for value in (0.9, 1 - 0.9, 0.95, 1 - 0.95, 1e-8))
        for group in self.param_groups:
            lr, weight_decay = ((self.param_groups[0] if self._mistake == key else group)[key] for key in ("lr", "weight_decay"))
            rate, decay = torch.tensor([lr, 1 - lr * weight_decay], dtype=torch.float64).to(torch.float32)
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                new = (b1 * m) + (a1 * p.grad)
                square = new if self._mistake is True else m
                v = (b2 * (square * square)) + (a2 * (p.grad * p.grad))
                p.copy_(p * decay - rate * (new / (v.sqrt() + eps)))
                self.state[p]["exp_avg"] = new
