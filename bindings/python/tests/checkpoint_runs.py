"""Checkpoints of one model, sharded differently. Each is what a rank does."""

import contextlib

import torch
import torch.distributed.checkpoint as dcp
import truestep
import truestep.torch
from sharded_runs import adams, backward, forget_second_moments, shard
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


def saved(rank: int, world: int, folder: str = "", name: str = "", steps: int = 2, begin: str = "") -> None:
    """Trains from ``begin``, or from the start, records it and saves it as ``name``. Gradients are the same on all ranks, for any number of them."""
    model = shard(world)
    optimizer = adams(model.parameters())
    if begin:
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
        dcp.load(state, checkpoint_id=f"{folder}/{begin}")
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    claim = truestep.Problem(model.named_parameters(), world, algorithm="adams")
    with (truestep.torch.Recorder(optimizer, claim, state={"exp_avg": "first_moment"}, path=f"{folder}/run.rank{{rank}}.safetensors") if steps
          else contextlib.nullcontext()):
        for step in range(steps):
            optimizer.zero_grad()
            backward(model, 0, step)
            forget_second_moments(optimizer)
            optimizer.step()
    if name:
        dcp.save(dict(zip(("model", "optimizer"), get_state_dict(model, optimizer))), checkpoint_id=f"{folder}/{name}")


def resharded(rank: int, world: int, folder: str = "", name: str = "", dropped: bool = False) -> None:
    """An optimizer state that is sharded over tensor parallelism is gathered, and sharded anew. ``dropped``: redistribute is out of place, and
    its result is not used (pytorch#188946), so a shard counts as the whole."""
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(5)
    state = distribute_tensor(torch.randn(6, 6), mesh, [Shard(0)])
    gathered = state.redistribute(placements=[Replicate()])
    whole = (state if dropped else gathered).to_local()
    rows = whole.repeat(6 // whole.shape[0], 1) if dropped else whole  # each rank fills its shard from what it takes for the whole
    again = DTensor.from_local(rows.chunk(world, 1)[rank].contiguous(), mesh, [Shard(1)])
    dcp.save({"optimizer": {"exp_avg": again}}, checkpoint_id=f"{folder}/{name}")
