"""Megatron Core's distributed optimizer on gloo ranks and CPUs, recorded as the AdamW that it claims to be.

Its modules ask for CUDA where they mean the device of their tensors: OnCpus answers with the CPU. Nothing else of them is replaced."""

import contextlib
import functools
from typing import Any
from unittest import mock

import torch
import truestep.integrations
import truestep.torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer import TransformerConfig
from torch.overrides import TorchFunctionMode


class OnCpus(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = dict(options or {})
        if "cuda" in str(options.get("device")):
            options["device"] = "cpu"
        result = function(*arguments, **options)
        return result.replace("torch.", "torch.cuda.") if function is torch.Tensor.type and len(arguments) == 1 else result


@contextlib.contextmanager
def on_cpus() -> Any:
    with mock.patch.multiple(torch.cuda, current_device=lambda: "cpu", current_stream=mock.MagicMock(), synchronize=lambda: None), OnCpus():
        yield


def lose(group: Any, reduce: Any, *arguments: Any, **options: Any) -> None:
    for bucket in group.buckets:
        bucket.grad_data.zero_()
    reduce(*arguments, **options)


def train(rank: int, world: int, folder: str = "", distributed: bool = True, parts: int = 1, overlap: bool = False, clip: float = 0.0,
          loses: bool = False) -> None:
    """``loses``: what rank 1 gives to the reduction is zero."""
    parallel_state.initialize_model_parallel()
    torch.manual_seed(1)
    config = TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1, use_cpu_initialization=True)
    model = torch.nn.Sequential(torch.nn.Linear(8, 10), torch.nn.ReLU(), torch.nn.Linear(10, 6))
    with on_cpus():
        ddp = DistributedDataParallel(config, DistributedDataParallelConfig(use_distributed_optimizer=distributed, overlap_grad_reduce=overlap), model)
        optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=0.02, weight_decay=0.1, clip_grad=clip, use_distributed_optimizer=distributed), [ddp],
                                           config_overrides={})
        claim = truestep.torch.claim(torch.optim.AdamW(model.named_parameters(), lr=0.02, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1), clip_norm=clip)
        if loses and rank == 1:
            for group in ddp.bucket_groups:
                group.start_grad_sync = functools.partial(lose, group, group.start_grad_sync)
        record = truestep.integrations.Megatron(ddp, optimizer, claim)
        torch.manual_seed(10 + rank)
        for _ in range(3):
            ddp.zero_grad_buffer()
            optimizer.zero_grad()
            for part in range(parts):
                with ddp.no_sync() if part + 1 < parts else contextlib.nullcontext():
                    (ddp(torch.randn(4, 8)).square().sum() / parts).backward()
            ddp.finish_grad_sync()
            optimizer.step()
        record.write(f"{folder}/run.safetensors")
