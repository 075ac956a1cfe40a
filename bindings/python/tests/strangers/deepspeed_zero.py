"""DeepSpeed on gloo ranks and CPUs, recorded as data parallelism with SGD."""

import os
import sys
from typing import Any

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed  # noqa: E402
import deepspeed.comm.torch  # noqa: E402
import torch  # noqa: E402
import truestep.integrations  # noqa: E402

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # type: ignore[attr-defined] # else each run compiles a reduction in C++


def model_of(bias: bool) -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 8, bias=bias), torch.nn.ReLU(), torch.nn.Linear(8, 4, bias=bias))


def start(rank: int, world: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False)


def train(rank: int, world: int, folder: str = "", stage: int = 2, optimizer: str = "SGD", parts: int = 1) -> None:
    start(rank, world)
    model = model_of(optimizer == "SGD")  # Muon's biases go to Adam
    settings: dict[str, Any] = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": parts, "gradient_clipping": 0.0, "zero_allow_untested_optimizer": True,
                                "zero_optimization": {"stage": stage}}
    given = None
    if optimizer == "SGD":
        given = torch.optim.SGD(model.parameters(), lr=0.1)
    else:
        settings["optimizer"] = {"type": optimizer, "params": {"lr": 0.02, "momentum": 0.0, "weight_decay": 0.0}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=given, model_parameters=model.parameters(), config=settings)
    record = truestep.integrations.DeepSpeed(engine, rule="sgd")
    torch.manual_seed(10 + rank)
    for _ in range(3 * parts):
        engine.backward(engine(torch.randn(4, 8)).square().sum())
        engine.step()
    record.write(f"{folder}/run.safetensors")
