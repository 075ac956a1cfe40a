"""Two stages with a boundary of MAPL between them, trained in one process or in two over gloo. Started by test_ranks_mapl.py:

    training_mapl.py RANK SIZE FOLDER [MISTAKE]

For each of CASES what the stages, tables and the subspace came to is saved as FOLDER/SIZE-<number>-<stage>.pt. MISTAKE, in two processes: "part"
(the receiver's part of the gradient of A does not arrive), "micro" (gradients of one micro-batch are taken for the other's), "ids" (the
receiver takes the ids of the next token), "seed" (the receiver begins with another subspace), "leaves" (the receiver ends after two steps),
"order" (codewords: the receiver decodes the messages in the other order), "late" (the receiver's recorder begins a step later), "another" (the
receiver goes on with another A than the sender's after the last step), "rate" (the sender's rate is NaN in the third step). Each run is recorded, too, as FOLDER/SIZE-<number>.safetensors.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import truestep.torch.mapl

STEPS, MICRO, TOKENS, VOCABULARY, WIDTH, RANK = 5, 2, 24, 23, 16, 4
CASES: list[dict[str, Any]] = [{"anchors": "none"}, {"anchors": "fixed"}, {"anchors": "two", "order": "momentum_first"}, {"anchors": "shared"},
                               {"anchors": "two", "codewords": 6, "groups": 2, "rounds": 2, "subsets": 3}]
RATE = 0.05


def make_boundary(case: dict[str, Any], **instead: Any) -> truestep.torch.mapl.Boundary:
    boundary = truestep.torch.mapl.Boundary(WIDTH, RANK, VOCABULARY, **(case | instead))
    torch.manual_seed(7)
    with torch.no_grad():
        for table in [*boundary.parameters(), *boundary.buffers()]:
            table.copy_(torch.randn(VOCABULARY, RANK))
    return boundary


class Stage:
    """Stage 0 embeds, and sends; stage 1 tells the next token from what it receives."""

    def __init__(self, stage: int, boundary: truestep.torch.mapl.Boundary) -> None:
        torch.manual_seed(10 + stage)
        layers = (torch.nn.Embedding(VOCABULARY, WIDTH), torch.nn.Tanh()), (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, VOCABULARY))
        self.stage, self.layers, self.boundary = stage, torch.nn.Sequential(*layers[stage]), boundary
        own = {"none": [], "fixed": [], "shared": ["anchor"], "two": [("sender_anchor", "receiver_anchor")[stage]]}[boundary.settings["anchors"]]
        self.tables = [getattr(boundary, name) for name in own]
        self.optimizer = torch.optim.SGD([*self.layers.parameters(), *self.tables], lr=0.5)

    def send(self, ids: torch.Tensor) -> torch.Tensor:
        return self.boundary.send(self.layers(ids), ids)

    def loss(self, z: torch.Tensor, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.layers(self.boundary.receive(z, ids)), targets)

    def save(self, folder: Path, size: int, number: int) -> None:
        torch.save({"layers": [p.detach() for p in self.layers.parameters()], "tables": [t.detach() for t in self.tables],
                    "subspace": self.boundary.subspace, "codebooks": torch.from_numpy(self.boundary.native.state.codebooks)}, folder / f"{size}-{number}-{self.stage}.pt")


def batch(step: int, micro: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1000 + step * MICRO + micro)
    tokens = torch.randint(0, VOCABULARY, (TOKENS + 1,))
    return tokens[:-1], (3 * tokens[:-1] + 1) % VOCABULARY


def in_one(case: dict[str, Any], folder: Path, number: int) -> None:
    """With a boundary for both stages; of a shared anchor, whose gradients are summed by side, one each, stepped by hand."""
    shared = case["anchors"] == "shared"
    before = make_boundary(case)
    first, second = Stage(0, before), Stage(1, make_boundary(case) if shared else before)
    recorder = None if shared else truestep.torch.mapl.Recorder(before)
    for step in range(STEPS):
        for stage in (first, second):
            stage.optimizer.zero_grad()
        losses = []
        for micro in range(MICRO):
            ids, targets = batch(step, micro)
            losses.append(second.loss(first.send(ids), ids, targets))
        for loss in losses:
            loss.backward()
        if shared:
            assert before.native.step(RATE, second.boundary.native.part("receiver")), "the step"
            second.boundary.native.follow(before.native.subspace)
            total = first.tables[0].grad + second.tables[0].grad
            first.tables[0].grad, second.tables[0].grad = total, total.clone()
        else:
            assert before.step(RATE), "the step"
        for stage in (first, second):
            stage.optimizer.step()
    for stage in (first, second):
        stage.save(folder, 1, number)
    if recorder is not None:
        recorder.write(folder / f"1-{number}.safetensors")


def sends(stage: Stage, mistake: str, trace: Path) -> None:
    recorder = truestep.torch.mapl.Recorder(stage.boundary)
    for step in range(STEPS):
        stage.optimizer.zero_grad()
        under_way = []
        for micro in range(MICRO):
            ids, _ = batch(step, micro)
            z = stage.send(ids)
            dist.send(z.detach() if stage.boundary.message is None else stage.boundary.message, 1)
            dist.send(ids, 1)
            under_way.append(z)
        for z in under_way[::-1] if mistake == "micro" else under_way:
            dz = torch.empty_like(z)
            dist.recv(dz, 1)
            z.backward(dz)
        assert stage.boundary.step(float("nan") if mistake == "rate" and step == 2 else RATE, receiver=1), "the step"
        stage.optimizer.step()
    recorder.write(trace, receiver=1)


def receives(stage: Stage, mistake: str, trace: Path) -> None:
    for step in range(STEPS):
        if step == (1 if mistake == "late" else 0):
            recorder = truestep.torch.mapl.Recorder(stage.boundary)
        if mistake == "leaves" and step == 2:
            os._exit(7)
        stage.optimizer.zero_grad()
        under_way = []
        arrived = []
        coded = stage.boundary.native.codewords > 0
        for micro in range(MICRO):
            ids = torch.empty(TOKENS, dtype=torch.int64)
            came = torch.empty(stage.boundary.message_bytes(TOKENS), dtype=torch.uint8) if coded else torch.empty(TOKENS, RANK)
            dist.recv(came, 0)
            dist.recv(ids, 0)
            assert torch.equal(ids, batch(step, micro)[0]), "ids"
            arrived.append((came, ids))
        decoded = [stage.boundary.decode(*one) if coded else one[0].requires_grad_() for one in (arrived[::-1] if mistake == "order" else arrived)]
        for micro, (_, ids) in enumerate(arrived):
            z = decoded[-1 - micro if mistake == "order" else micro]
            under_way.append((z, stage.loss(z, ids.roll(1) if mistake == "ids" else ids, batch(step, micro)[1])))
        for z, loss in under_way:
            loss.backward()
            dist.send(z.grad, 0)
        if mistake == "part":
            stage.boundary.native.forget()
        if mistake == "another" and step == STEPS - 1:
            follow = stage.boundary.native.follow
            stage.boundary.native.follow = lambda subspace: follow(subspace.nextafter(torch.ones(())))  # type: ignore[method-assign]
        assert stage.boundary.step(sender=0), "the step"
        stage.optimizer.step()
    recorder.write(sender=0)
    assert trace.exists(), "back before it is written"


def main() -> None:
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    mistake = sys.argv[4] if len(sys.argv) > 4 else ""
    torch.set_num_threads(1)
    if size == 1:
        for number, case in enumerate(CASES):
            in_one(case, folder, number)
        return
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    for number, case in enumerate(CASES[4:] if mistake == "order" else CASES[2:3] if mistake else CASES):
        stage = Stage(rank, make_boundary(case, **({"seed": 2} if mistake == "seed" and rank == 1 else {})))
        (sends, receives)[rank](stage, mistake, folder / f"2-{CASES.index(case)}.safetensors")
        stage.save(folder, size, CASES.index(case))
    dist.destroy_process_group()


main()
