"""DeepSpeed on gloo ranks and CPUs, recorded as the dense training that its config claims."""

import os
import sys
from typing import Any

os.environ.update(DS_ACCELERATOR="cpu", TORCHDYNAMO_DISABLE="1")  # Muon would be compiled in C++
import deepspeed  # noqa: E402
import deepspeed.comm.torch  # noqa: E402
import torch  # noqa: E402
import truestep.integrations  # noqa: E402
import truestep.torch  # noqa: E402

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined] # else each run compiles a reduction in C++
RATE = 0.02


def start(rank: int, world: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)


def train(rank: int, world: int, folder: str = "", stage: int = 2, optimizer: str = "SGD", parts: int = 1) -> None:
    start(rank, world)
    torch.manual_seed(1)
    # Three matrices of one shape: the border of two ranks is inside of the second, and a release gathers them as if all had one
    model = torch.nn.Sequential(*[module for _ in range(3) for module in (torch.nn.Linear(8, 8), torch.nn.Tanh())])
    settings: dict[str, Any] = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": parts, "gradient_clipping": 0.0, "zero_allow_untested_optimizer": True,
                                "zero_optimization": {"stage": stage, "reduce_scatter": optimizer != "Muon" or stage < 3}}
    named = list(model.named_parameters())
    if optimizer == "Muon":
        for _, p in named:
            p.use_muon = p.ndim == 2  # type: ignore[attr-defined]
        claimed: Any = [torch.optim.Muon([(name, p) for name, p in named if p.ndim == 2], lr=RATE, weight_decay=0.1),
                        torch.optim.AdamW([(name, p) for name, p in named if p.ndim != 2], lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)]
        settings["optimizer"] = {"type": "Muon", "params": {"lr": RATE, "momentum": 0.95, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8,
                                                            "ns_method": "standard", "torch_adam": True}}
    else:
        claimed = getattr(torch.optim, optimizer)(named, lr=RATE)
    claim = truestep.torch.claim(claimed, workers=world)
    engine, *_ = deepspeed.initialize(model=model, optimizer=None if optimizer == "Muon" else claimed, model_parameters=model.parameters(), config=settings)
    record = truestep.integrations.DeepSpeed(engine, claim)
    torch.manual_seed(10 + rank)
    for _ in range(3 * parts):
        engine.backward(engine(torch.randn(4, 8)).square().sum())
        engine.step()
    record.write(f"{folder}/run.safetensors")
