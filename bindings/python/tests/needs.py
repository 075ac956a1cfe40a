"""A test that needs what is not there is skipped: status 77, and the reason in one line."""

import importlib
import importlib.util
import os
import re
import sys
from typing import Any, NoReturn

TORCH = (1, 13)  # as in pyproject.toml: Debian's
DEVICE = os.environ.get("TRUESTEP_TEST_DEVICE", "cpu")  # test_cuda.py sets it


def _skip(reason: str) -> NoReturn:
    print(f"SKIPPED: {sys.executable} has {reason}; ci/torch makes an environment that will do")
    sys.exit(77)


def module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        _skip(f"no {name} ({error})")


def skip(reason: str) -> NoReturn:
    """Of what is no module."""
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def numpy() -> None:
    module("numpy")


def torch() -> None:
    module("numpy")
    version = str(module("torch").__version__)
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < TORCH:
        _skip(f"torch {version}, older than {TORCH[0]}.{TORCH[1]}")


def fsdp2() -> bool:
    """Whether PyTorch has it. Debian's, under Python 3.11, cannot even import the FSDP before it."""
    import torch
    return int(torch.__version__.split(".")[0]) >= 2 and importlib.util.find_spec("torch.distributed.fsdp._fully_shard") is not None


def backend(world: int) -> str:
    """Of ranks that share one device: NCCL gives each rank a device of its own."""
    return "nccl" if DEVICE == "cuda" and world == 1 else "gloo"


def on_device() -> None:
    """From here on this process makes its tensors on the device of the tests."""
    if DEVICE != "cpu":
        import torch
        torch.set_default_device(DEVICE)
