"""Values that are spread over ranks: DTensors, as the parameters of FSDP2 are, and the state of a ZeroRedundancyOptimizer."""

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _values
from ._errors import Error

Part = tuple[list[int], list[int]]  # of each dimension where the part begins, and how long it is
_SIGN = 1 << 63


def is_sharded(tensor: Any) -> bool:
    """Whether it is a DTensor, whose placements say which rank has which values."""
    return hasattr(tensor, "placements") and hasattr(tensor, "full_tensor")


def of_this_rank(tensor: Any) -> Any:
    """The plain tensor that this rank holds."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def check_placements(tensor: Any, what: str) -> None:
    """Refuses a DTensor whose values no rank has."""
    for dimension, place in enumerate(tensor.placements if is_sharded(tensor) else ()):
        if place.is_partial():
            name = (tensor.device_mesh.mesh_dim_names or {dimension: dimension})[dimension]
            raise Error(f"{what}: it is partial over the mesh dimension {name}, so that its values are the sum over ranks of what each rank has, and that "
                        "sum is not made yet; redistribute it to Replicate or Shard first")


def check_exact(tensor: Any, what: str) -> None:
    """As _values.check_exact, of a DTensor by what this rank has of it."""
    check_placements(tensor, what)
    _values.check_exact(of_this_rank(tensor), what)


def whole(tensor: Any, what: str) -> Any:
    """All values of a tensor. The shards of a DTensor are gathered, on all ranks of its mesh together. Nothing crosses a dimension that
    replicates, so ranks whose copies differ get different values."""
    if not is_sharded(tensor):
        return tensor
    check_placements(tensor, what)
    return tensor.detach().full_tensor()


def part_of(tensor: Any) -> Part | None:
    """Which block of the whole this rank holds; None where it is not one block."""
    if any(not place.is_replicate() and type(place).__name__ != "Shard" for place in tensor.placements):
        return None  # FSDP2 over tensor parallelism on the same dimension takes strided shards
    begins, lengths = [0] * tensor.dim(), list(tensor.shape)
    coordinate = tensor.device_mesh.get_coordinate()
    for number, place in enumerate(tensor.placements):
        if place.is_shard():
            length = lengths[place.dim]
            chunk = -(-length // tensor.device_mesh.size(number))  # as torch.chunk cuts
            first = min(chunk * coordinate[number], length)
            begins[place.dim] += first
            lengths[place.dim] = min(chunk, length - first)
    return begins, lengths


def indices(shape: Sequence[int], part: Part, device: Any) -> torch.Tensor:
    """The coordinates that the values of a block have in the flat whole."""
    result = torch.zeros((), dtype=torch.int64, device=device)
    stride = 1
    for length, begin, count in zip(reversed(shape), reversed(part[0]), reversed(part[1])):
        along = torch.arange(begin, begin + count, dtype=torch.int64, device=device) * stride
        result = along.reshape(-1, *[1] * result.dim()) + result
        stride *= length
    return result.reshape(-1)


def add_over_shards(sums: list[int], tensors: Sequence[Any]) -> list[int]:
    """Adds numbers modulo 2^64 over the ranks that hold other shards of the same tensor, those of all tensors of a mesh together."""
    alike: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if is_sharded(tensor) and part_of(tensor) is not None:
            dimensions = tuple(number for number, place in enumerate(tensor.placements) if place.is_shard())
            alike.setdefault((tensor.device_mesh, dimensions), []).append(i)
    for (mesh, dimensions), members in alike.items():
        numbers = torch.tensor([(sums[i] ^ _SIGN) - _SIGN for i in members], dtype=torch.int64, device=mesh.device_type)
        for dimension in dimensions:
            dist.all_reduce(numbers, group=mesh.get_group(dimension))
        for i, number in zip(members, numbers.tolist()):
            sums[i] = number % (1 << 64)
    return sums


def sharding_modules(things: Iterable[Any] | None = None) -> list[Any]:
    """Those that FSDP2's fully_shard has sharded; by default of all that live, since an optimizer does not know its model."""
    from torch.distributed.fsdp import FSDPModule
    return [thing for thing in (gc.get_objects() if things is None else things) if issubclass(type(thing), FSDPModule)]


class OwnGradients:
    """Takes each rank's own gradients under FSDP2, before they are reduced: those of the whole parameters that are there while a module
    computes."""

    def __init__(self, modules: Iterable[Any], parameters: Sequence[torch.Tensor], take: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        self._take = take
        self._heard: dict[torch.Tensor, Any] = {}
        self._hooks: list[Any] = []
        wanted, missing = set(parameters), set(parameters)
        for module in modules:
            module.reshard()  # after a forward pass without a backward one the root has its whole parameters still
            owned = [(inside, name, p) for inside in module.modules() for name, p in inside._parameters.items() if p is not None and p in wanted]
            missing -= {p for _, _, p in owned}
            if owned:
                self._check_reduction(module)
                self._hooks.append(module.register_forward_pre_hook(self._listener(owned)))
        if missing:
            self.remove()
            raise Error(f"Recorder: {len(missing)} of the optimizer's parameters are of no module that FSDP2's fully_shard has sharded; make the optimizer "
                        "after fully_shard, of that model's parameters, and begin outside of forward and backward")

    @staticmethod
    def _check_reduction(module: Any) -> None:
        policy = getattr(module._get_fsdp_state(), "_mp_policy", None)
        dtype = policy and (policy.reduce_dtype or (policy.param_dtype if torch.__version__ < (2, 15) else None))  # type: ignore[operator]
        if dtype not in (None, torch.float32):
            raise Error(f"Recorder: FSDP2 reduces gradients in {str(dtype).replace('torch.', '')}, which is within no level of fp32; give "
                        "MixedPrecisionPolicy(reduce_dtype=torch.float32), or record the reduced gradients (Recorder without own_gradients)")

    def _listener(self, owned: Sequence[tuple[torch.nn.Module, str, torch.Tensor]]) -> Callable[..., None]:
        def listen(module: Any, _inputs: Any) -> None:
            for inside, name, parameter in owned:
                now = inside._parameters[name]
                known = self._heard.get(parameter)
                if now is None or now is parameter or not now.requires_grad or (known is not None and known() is now):
                    continue
                self._heard[parameter] = weakref.ref(now)
                self._hooks.append(now.register_hook(lambda gradient, parameter=parameter: self._checked(parameter, gradient)))  # type: ignore[no-untyped-call]
        return listen

    def _checked(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        if is_sharded(gradient):
            raise Error("Recorder: a module computes with parameters that are sharded (tensor parallelism), and a rank has no gradient of its own of "
                        "a whole parameter; leave own_gradients out, and the reduced gradients are recorded")
        self._take(parameter, gradient)

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()


def spreads_state(optimizer: Any) -> bool:
    """Whether each parameter's state is kept on one rank alone, by an optimizer inside."""
    return any(kind.__name__ == "ZeroRedundancyOptimizer" for kind in type(optimizer).__mro__)


def greatest(numbers: list[int], groups: Sequence[Any], device: Any) -> list[int]:
    """Of each number the greatest that a rank of these groups has. What ranks decide by it they decide alike, and none waits for another."""
    most = torch.tensor(numbers, dtype=torch.int64, device=device)
    for group in groups:
        dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    return most.tolist()


def _fits(kept: Any, parameter: torch.Tensor) -> bool:
    try:
        _values.check_exact(kept, "")
    except Error:
        return False
    return bool(kept.shape == parameter.shape)


def state_on_ranks(optimizer: Any, parameters: list[torch.Tensor], name: str, who: str) -> Iterator[torch.Tensor | None]:
    """Each parameter's state from the rank that has it, one after the other, on all ranks together."""
    group, states, kind = optimizer.process_group, optimizer.optim.state, type(optimizer.optim).__name__
    device, rank = parameters[0].device, dist.get_rank(group)
    mine = [rank if name in states.get(p, {}) else -1 for p in parameters]
    misfits = [i for i, p in enumerate(parameters) if mine[i] == rank and not _fits(states[p][name], p)]
    *owners, misfit, given = greatest([*mine, misfits[0] if misfits else -1, int(any(p.grad is not None for p in parameters))], [group], device)
    if misfit >= 0:
        raise Error(f"{who}: state names {name!r}, and what {kind} keeps by that name of parameter {misfit} is no tensor of its shape "
                    f"{list(parameters[misfit].shape)} whose values fp32 holds; name one that is")
    if given and max(owners) < 0:
        raise Error(f"{who}: state names {name!r}, which {kind} keeps on no rank; there are "
                    f"{', '.join(sorted({key for state in states.values() for key in state})) or 'none'}")
    for parameter, owner in zip(parameters, owners):
        if owner < 0:
            yield None
            continue
        values = torch.empty(parameter.shape, dtype=torch.float32, device=device)
        if rank == owner:
            values.copy_(states[parameter][name])
        dist.broadcast(values, dist.get_global_rank(group, owner), group=group)
        yield values


def inner(optimizer: Any) -> Any:
    """The optimizer that keeps the state."""
    return optimizer.optim if spreads_state(optimizer) else optimizer


def steps_on_ranks(optimizer: Any, steps: list[int]) -> list[int]:
    """The numbers of steps that parameters have; where a rank has a part of them, the greatest that any rank counted."""
    if not spreads_state(optimizer):
        return steps
    (most,) = greatest([max(steps, default=-1)], [optimizer.process_group], optimizer.param_groups[0]["params"][0].device)
    return [most] if most >= 0 else []  # of none a rank has counted


def on_any_rank(optimizer: Any, parameters: Sequence[Any], here: bool) -> bool:
    """Whether it is so on any rank that has a part of the parameters or their state."""
    groups = [optimizer.process_group] if spreads_state(optimizer) else []
    for mesh in dict.fromkeys(p.device_mesh for p in parameters if is_sharded(p)):
        groups += [mesh.get_group(dimension) for dimension in range(mesh.ndim)]
    return bool(greatest([int(here)], groups, parameters[0].device)[0])


def check_recordable(optimizer: Any, parameters: Sequence[Any], workers: int, state: Mapping[str, str], warns: bool) -> None:
    """Checks what holds only where ranks have parts: each of them takes part in every step."""
    spreads = spreads_state(optimizer)
    if spreads and "parameters" in state.values():
        raise Error("Recorder: state names master parameters, and ZeroRedundancyOptimizer keeps them on one rank each; record fp32 parameters")
    meshes = [p.device_mesh for p in parameters if is_sharded(p)]
    if warns and (spreads or meshes):
        raise Error("Recorder: on_error is 'warn', and ranks gather what is sharded at each step, which one alone cannot leave; leave it out")
    for mesh in meshes:
        if mesh.size() != workers:
            raise Error(f"Recorder: the parameters are on a mesh of {mesh.size()} ranks, and the problem has {workers} workers; give workers={mesh.size()}")
