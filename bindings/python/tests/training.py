"""A small transformer, trained by ranks over gloo. Started by test_ranks.py, a process a rank:

    training.py RANK SIZE FOLDER [MISTAKE]

Records the run to FOLDER/run.safetensors. MISTAKE: "drift" (one rank decays its parameters once more), "residual" (the residual of one
rank is lost), "average" (gradients are averaged over ranks before the step, and recorded as they were), "leaves" (a rank ends), "rate" (the rate of one rank is NaN),
"closure" (what makes the gradients of one rank raises). "parts" is
none: micro-batches, another number of them on each rank, of which the last is exchanged in buckets while it is made; "zeroed" is one of
that: a bucket of rank 1 goes without its values.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import truestep
import truestep.torch

STEPS = 5


class Model(torch.nn.Module):
    """Embedding, one layer of attention, norm and head: 2-d weights, biases and norms, and a size that 3 does not divide."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(23, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 17, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(8, 23)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.embed(tokens)))


def make_mistake(mistake: str, step: int, rank: int, optimizer: truestep.torch.Scape) -> None:
    """Before a step."""
    native = optimizer.native
    if mistake == "leaves" and step == 3 and rank == 1:
        os._exit(7)
    if mistake == "rate" and step == 3 and rank == 1:
        optimizer.param_groups[0]["lr"] = float("nan")
    if mistake == "drift" and step == 3 and rank == 1:
        native.parameters[5] *= 1.5
    if mistake == "residual" and step == 3:
        residual = native.residual * (0.0 if rank == 1 else 1.0)
        native.restore(step=native.steps, parameters=native.parameters.copy(), first_moment=native.first_moment,
                       residual=residual.astype("float32"), mask=native.mask, next_mask=native.next_mask)


def train_in_parts(rank: int, folder: Path, mistake: str) -> None:
    torch.manual_seed(3)
    model = Model()
    groups = [{"params": list(part.named_parameters(name))} for name, part in model.named_children()]
    optimizer = truestep.torch.Scape(groups, lr=0.02, density=("geometric", 0.5, 0.05, 4), clip_norm=0.8, overlap=True)
    recorder = truestep.torch.Recorder(optimizer)
    torch.manual_seed(100 + rank)
    bucket = optimizer.native.bucket
    if mistake == "zeroed" and rank == 1:
        optimizer.native.bucket = lambda tensors, values: bucket(  # type: ignore[method-assign]
            tensors, [torch.zeros_like(v) if optimizer.native.steps == 2 and 0 in tensors else v for v in values])

    def backward() -> None:
        tokens = torch.randint(0, 23, (4, 6))
        torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()

    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        with optimizer.no_sync():
            for _ in range((rank + step) % 3):
                backward()
            if step == 4:  # what stands so far is a part, and what comes another
                optimizer.accumulate()
        backward()
        optimizer.step()
    recorder.write(folder / "run.safetensors")
    backward()  # of a step that is never taken: it ends with the process


def train(rank: int, size: int, folder: Path, mistake: str) -> None:
    torch.manual_seed(3)
    model = Model()
    optimizer = truestep.torch.Scape(model.named_parameters(), lr=0.02, density=("geometric", 0.5, 0.05, 4), clip_norm=0.8)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, STEPS)
    if mistake == "closure":
        optimizer.step(lambda: 1 / (1 - rank))
    recorder = truestep.torch.Recorder(optimizer)
    if mistake == "average":
        average_inside(optimizer.native)
    torch.manual_seed(100 + rank)  # each rank has its own data
    for step in range(1, STEPS + 1):
        tokens = torch.randint(0, 23, (4, 6))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()
        make_mistake(mistake, step, rank, optimizer)
        if not mistake and step == 2:
            check_refused(optimizer, rank)
        optimizer.step()
        schedule.step()
    recorder.write(folder / "run.safetensors")
    if not mistake:
        check_restart(model, optimizer, rank)


def check_refused(optimizer: truestep.torch.Scape, rank: int) -> None:
    """A gradient of rank 1 is not finite: every rank hears of it, nothing changes, and the good step that follows is taken."""
    before = optimizer.native.parameters.copy()
    gradient = optimizer.param_groups[0]["params"][0].grad
    good = float(gradient[0, 3])
    gradient[0, 3] = float("nan") if rank == 1 else good
    try:
        optimizer.step()
        raise AssertionError("a NaN was taken")
    except truestep.RefusedStep as refused:
        assert "rank 1, tensor embed.weight, index 3" in str(refused), refused
    assert before.tobytes() == optimizer.native.parameters.tobytes(), "parameters after a refused step"
    gradient[0, 3] = good


def average_inside(native: Any) -> None:
    """As behind DistributedDataParallel, but that the recorder sees each rank's own gradients."""
    step = native.step

    def averaged(gradients: list[torch.Tensor], learning_rate: float) -> None:
        for gradient in gradients:
            dist.all_reduce(gradient)
            gradient /= dist.get_world_size()
        step(gradients, learning_rate)
    native.step = averaged


def check_restart(model: Model, optimizer: truestep.torch.Scape, rank: int) -> None:
    """A state_dict in a new optimizer of a new model goes on with the same bits."""
    twin = Model()
    twin.load_state_dict(model.state_dict())
    other = truestep.torch.Scape(twin.named_parameters(), lr=0.02, density=("geometric", 0.5, 0.05, 4), clip_norm=0.8)
    other.load_state_dict(optimizer.state_dict())
    torch.manual_seed(200 + rank)
    for _ in range(3):
        tokens = torch.randint(0, 23, (4, 6))
        for network, stepped in ((model, optimizer), (twin, other)):
            stepped.zero_grad()
            torch.nn.functional.cross_entropy(network(tokens).flatten(0, 1), tokens.flatten()).backward()
            stepped.step()
        assert optimizer.native.parameters.tobytes() == other.native.parameters.tobytes(), "parameters after a restart"
        assert optimizer.native.residual.tobytes() == other.native.residual.tobytes(), "residual after a restart"


def main() -> None:
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    mistake = sys.argv[4] if len(sys.argv) > 4 else ""
    if mistake in ("parts", "zeroed"):
        train_in_parts(rank, folder, mistake)
    else:
        with truestep.timeline(folder / "timeline.json"):
            train(rank, size, folder, mistake)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
