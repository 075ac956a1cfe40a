"""torchtitan's trainer with a small Llama 3 under FSDP, on gloo ranks and CPUs, recorded as the AdamW that its config claims.

The trainer asks for an accelerator and its memory, and for tokens of a data set: here it gets the CPU, no figures, and random tokens. FlexAttention has no
backward pass on CPUs; torchtitan's other attention takes its place."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
import torch._utils

torch._utils._get_available_device_type = lambda: "cpu"  # which torchtitan reads when it is loaded
import truestep.integrations  # noqa: E402
from torch.distributed.fsdp import FSDPModule  # noqa: E402
from torchtitan.components import metrics  # noqa: E402
from torchtitan.components.checkpoint import CheckpointManager  # noqa: E402
from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.loss import CrossEntropyLoss  # noqa: E402
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.config import ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed import utils  # noqa: E402
from torchtitan.models import llama3  # noqa: E402
from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

VOCABULARY, WIDTH, LENGTH = 64, 32, 16


class RandomTokens(BaseDataLoader):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config: Any, *, dp_rank: int, local_batch_size: int, **_: Any) -> None:
        self.generator, self.rows = torch.Generator().manual_seed(10 + dp_rank), local_batch_size

    def __iter__(self) -> Iterator[Any]:
        while True:
            tokens = torch.randint(VOCABULARY, (self.rows, LENGTH + 1), generator=self.generator)
            yield {"input": tokens[:, :-1]}, tokens[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, _: dict[str, Any]) -> None:
        pass


class NoTokenizer(BaseTokenizer):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config: Any, **_: Any) -> None:
        super().__init__()

    def encode(self, *_: Any) -> list[int]:
        return []

    def decode(self, *_: Any) -> str:
        return ""

    def get_vocab_size(self) -> int:
        return VOCABULARY


def model_spec() -> Any:
    """The registry's model for debugging, with one narrow layer."""
    with mock.patch.object(llama3, "get_attention_config", lambda _: ScaledDotProductAttention.Config()):
        spec = llama3.model_registry("debugmodel")
        layers = llama3._build_llama3_layers(n_layers=1, dim=WIDTH, n_heads=4, hidden_dim=2 * WIDTH, attn_backend="flex",
                                             rope=llama3.ComplexRoPE.Config(dim=WIDTH // 4, max_seq_len=64, theta=500000, scaling="none"))
    model = spec.model
    model.dim, model.vocab_size, model.layers = WIDTH, VOCABULARY, layers
    model.tok_embeddings.num_embeddings, model.tok_embeddings.embedding_dim = VOCABULARY, WIDTH
    model.norm.normalized_shape, model.lm_head.in_features, model.lm_head.out_features = WIDTH, WIDTH, VOCABULARY
    return spec


def train(rank: int, world: int, folder: str = "", parts: int = 1, replicas: int = 1, max_norm: float = 1.0, averages: bool = False) -> None:
    """``averages``: FSDP divides by the ranks, and the loss is divided by the tokens of all ranks already."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    config = Trainer.Config(
        loss=CrossEntropyLoss.Config(global_vocab_size=VOCABULARY), model_spec=model_spec(), optimizer=default_adamw(lr=8e-4), dump_folder=folder,
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=1), tokenizer=NoTokenizer.Config(), dataloader=RandomTokens.Config(),
        training=TrainingConfig(local_batch_size=2, global_batch_size=2 * world * parts, seq_len=LENGTH, steps=3, max_norm=max_norm, mixed_precision_param="float32",
                                disable_cuda_graphs=True),
        parallelism=ParallelismConfig(data_parallel_replicate_degree=replicas), checkpoint=CheckpointManager.Config(enable=False), activation_checkpoint=None)
    config.optimizer.implementation = "foreach"
    no_memory = mock.Mock(device_name="CPU", get_peak_stats=lambda: metrics.DeviceMemStats(0, 0, 0, 0, 0, 0))
    with (mock.patch.object(metrics, "build_device_memory_monitor", lambda: no_memory),
          mock.patch.object(utils, "set_pg_timeouts", lambda **_: None)):  # whose barrier names a device by its number
        trainer = Trainer(config)
        for module in trainer.model_parts[0].modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)  # gloo has no sum with a factor, which is 1 here
                module.set_gradient_divide_factor(float(world) if averages else 1.0)
        record = truestep.integrations.Torchtitan(trainer)
        trainer.train()
        record.write(f"{folder}/run.safetensors")
        trainer.close()
