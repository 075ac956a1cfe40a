"""A small transformer learns a real text behind DistributedDataParallel, with SCAPE as somebody else has written it. Started by
test_real_run.py, a process a rank:

    real_run.py RANK SIZE FOLDER [MISTAKE]

Leaves at each depth what a rank has of the same steps: FOLDER/run.rank<r>.safetensors, everything, FOLDER/part.rank<r>.safetensors, a sample, and
FOLDER/run.rank<r>.prints, fingerprints. MISTAKE: one of plain_scape.MISTAKES.
"""

import gc
import pydoc_data.topics
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from plain_scape import PlainScape
from torch.nn.parallel import DistributedDataParallel

import truestep
import truestep.torch

STEPS, BATCH, LENGTH = 4, 4, 32
DENSITY, CLIP, DECAY = 0.1, 0.1, 0.1  # clips every step, whatever Python's text is like
SAMPLE = 0.2


class Transformer(torch.nn.Module):
    """Of letters: embeddings, a layer of attention that does not look ahead, norms and a head."""

    def __init__(self, letters: int) -> None:
        super().__init__()
        self.letter, self.place = torch.nn.Embedding(letters, 16), torch.nn.Embedding(LENGTH, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 40, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(16, letters)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        ahead = torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), diagonal=1)
        return self.head(self.layer(self.letter(text) + self.place(torch.arange(LENGTH)), ahead))


def text_of_python() -> tuple[torch.Tensor, int]:
    """Python's own language reference, as numbers of letters: what every Python has, and no network is asked for."""
    text = "".join(pydoc_data.topics.topics[name] for name in ("assignment", "class", "for", "function", "import", "try", "with"))
    letters = sorted(set(text))
    return torch.tensor([letters.index(letter) for letter in text]), len(letters)


def own_gradients(_state: Any, bucket: Any) -> Any:
    """DDP's hook in place of the mean: the optimizer exchanges by itself."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def train(rank: int, size: int, folder: Path, mistake: str) -> None:
    text, letters = text_of_python()
    torch.manual_seed(rank)  # DDP gives everybody rank 0's
    ddp = DistributedDataParallel(Transformer(letters))
    model = ddp.module
    optimizer = PlainScape(model.parameters(), lr=0.01, density=DENSITY, clip_norm=CLIP, weight_decay=DECAY, mistake=mistake)
    problem = truestep.Problem([truestep.Tensor(name, p.numel(), p.dim() < 2) for name, p in model.named_parameters()], size, density=DENSITY,
                            clip_norm=CLIP, weight_decay=DECAY, bias_correction="none")
    results = {name: name for name in ("first_moment", "residual", "mask", "next_mask")}
    with truestep.torch.Recorder(optimizer, problem, path=folder / "run.rank{rank}.safetensors", state=results) as recorder, \
            truestep.torch.Recorder(optimizer, problem, path=folder / "part.rank{rank}.safetensors", state=results, sample=SAMPLE,
                                 norm=lambda: optimizer.norm) as part, \
            truestep.torch.Fingerprints(optimizer, folder / "run.rank{rank}.prints", state=["first_moment", "residual", "mask"],
                                     replicated=["parameters", "first_moment", "mask"]):
        ddp.register_comm_hook(None, recorder.comm_hook(part.comm_hook(own_gradients)))
        torch.manual_seed(100 + rank)  # each rank reads elsewhere
        for _ in range(STEPS):
            places = torch.randint(0, len(text) - LENGTH - 1, (BATCH,)).tolist()
            seen, next_ones = (torch.stack([text[place + ahead:place + ahead + LENGTH] for place in places]) for ahead in (0, 1))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(ddp(seen).flatten(0, 1), next_ones.flatten()).backward()
            optimizer.step()


def main() -> None:
    rank, size, folder, mistake = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), (sys.argv[4:] or [""])[0]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    train(rank, size, folder, mistake)
    gc.collect()  # DDP and its hooks, before the interpreter ends under gloo's threads: see recording.py
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
