"""Trainings whose parameters or optimizer state are spread over ranks. Each is what a rank does."""

import re

import needs
import torch
import torch.distributed as dist
import truestep
import truestep.torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

try:
    import torch._dynamo  # noqa: F401 - which each rank would load for itself
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
except ImportError:
    fully_shard = None

STEPS = 3


def model_of() -> torch.nn.Sequential:
    """Rows that no number of ranks divides."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(10, 7), torch.nn.ReLU(), torch.nn.Linear(7, 5, bias=False), torch.nn.LayerNorm(5))


def adams(parameters: object) -> torch.optim.AdamW:
    return torch.optim.AdamW(parameters, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1, foreach=False)


def forget_second_moments(optimizer: torch.optim.Optimizer) -> None:
    """Of AdamW this makes AdamS, which keeps none: its v is that of m before the step."""
    for state in optimizer.state.values():
        state["exp_avg_sq"] = state["exp_avg"].square()


def backward(model: torch.nn.Module, rank: int, step: int, part: int = 0) -> None:
    torch.manual_seed(1000 * part + 100 * step + rank)
    model(torch.randn(6, 10)).float().square().sum().backward()


def shard(world: int, hybrid: bool = False, reshard: bool = True, bf16: str = "") -> torch.nn.Module:
    """``bf16``: "parameters", or "reduction" too."""
    model = model_of()
    mesh = init_device_mesh(needs.DEVICE, (2, world // 2), mesh_dim_names=("copies", "shards")) if hybrid else init_device_mesh(needs.DEVICE, (world,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if bf16 else None, reduce_dtype=torch.bfloat16 if bf16 == "reduction" else torch.float32)
    for layer in (model[0], model):
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    return model


def sharded(rank: int, world: int, folder: str = "", own: bool = True, mistake: str = "", parts: int = 1, start: int = 1, sample: object = None,
            path: bool = True, **options: object) -> None:
    model = shard(world, **options)
    optimizer = adams(model.parameters())
    claim = truestep.Problem(model.named_parameters(), world, algorithm="adams")
    recorder = truestep.torch.Recorder(optimizer, claim, state={"exp_avg": "first_moment"}, start=start, sample=sample,
                                       path=f"{folder}/run.rank{{rank}}.safetensors" if path else None)
    if own:
        recorder.own_gradients(model)
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        for part in range(parts):
            model.set_requires_gradient_sync(part == parts - 1)
            backward(model, rank, step, part)
        forget_second_moments(optimizer)
        if mistake == "sum":  # as a reduce-scatter over gloo gave it before PyTorch 2.15
            for parameter in model.parameters():
                parameter.grad *= world
        if mistake == "gradient" and step == 2 and rank == 1:
            next(model.parameters()).grad.to_local()[0, 3] *= 1.5
        optimizer.step()
        if mistake == "drift" and step == 2 and rank == world - 1:
            with torch.no_grad():
                list(model.parameters())[2].to_local()[0, 1] += 1
    recorder.close() if path else recorder.write(f"{folder}/run.safetensors")


def drawn(rank: int, world: int, folder: str = "", seeds: object = ()) -> None:
    """Right runs of three lines, by their seeds."""
    from checked_runs import Drawn
    proved = 0
    for seed in seeds:
        run = Drawn(seed, world, sharded=True)
        try:
            run.run(rank, seed, folder=folder)
            proved += 1
        except (AssertionError, truestep.Error) as error:
            if "is not proved true" not in str(error):  # a rate of 0 leaves nothing to compare
                raise AssertionError(f"seed {seed}: {run}") from error
    assert 2 * proved >= len(seeds), proved


class Unreduced:
    """A reduce-scatter of FSDP2 that leaves each rank its own part."""

    def allocate(self, size: object, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: object, **_: object) -> None:
        output_tensor.copy_(input_tensor.view(dist.get_world_size(group), -1)[dist.get_rank(group)])


def wrong(kind: type, mistake: str, rank: int) -> type:
    class Wrong(kind):
        @torch.no_grad()
        def step(self, closure: object = None) -> None:
            parameters = [p for group in self.param_groups for p in group["params"]]
            before = [p.to_local().clone() for p in parameters]
            super().step()
            if mistake == "shards":  # each rank takes its rows for a whole matrix
                mine = [torch.nn.Parameter(p.detach().to_local()) for p in parameters]
                for p, whole, old in zip(mine, parameters, before):
                    p.grad = whole.grad.to_local()
                    p.copy_(old)
                kind(mine, lr=self.param_groups[0]["lr"]).step()
            if mistake == "update" and rank == 1:
                parameters[0].to_local()[1, 2] += 0.01
    return Wrong


def clip_by(parameters: list[torch.Tensor], norm: float, local: bool) -> None:
    if not local:
        torch.nn.utils.clip_grad_norm_(parameters, norm)
        return
    mine = [p.grad.to_local() for p in parameters]
    share = norm / float(torch.cat([gradient.reshape(-1) for gradient in mine]).norm())
    for gradient in mine:
        gradient.mul_(min(share, 1.0))


def claimed(rank: int, world: int, folder: str = "", kind: str = "AdamW", mistake: str = "", clip: float = 0.0, text: str = "", probe: bool = False,
            **options: object) -> None:
    """Three lines say that it is true or, with ``text``, what is not. ``probe``: gradients that zero_grad() takes away before each step."""
    model = shard(world, **options)
    named = list(model.named_parameters())
    of_kind = [(name, p) for name, p in named if kind != "Muon" or p.ndim == 2]
    made = getattr(torch.optim, kind)
    optimizers = [(wrong(made, mistake, rank) if mistake in ("shards", "update") else made)(of_kind, lr=0.02)]
    if kind == "Muon":
        optimizers.append(torch.optim.AdamW([(name, p) for name, p in named if p.ndim != 2], lr=0.01))
    if mistake == "unreduced":
        model[0].set_custom_reduce_scatter(Unreduced())
    try:
        with truestep.torch.checking(optimizers, clip_norm=clip, folder=folder):
            for step in range(1, STEPS + 1):
                for part in (1, 0) if probe else (0,):
                    for optimizer in optimizers:
                        optimizer.zero_grad(set_to_none=step != 2)
                    backward(model, rank, step, part)
                if mistake == "sum":
                    for _, p in named:
                        p.grad *= world
                if clip:
                    clip_by([p for _, p in named], clip, mistake == "local norm")
                for optimizer in optimizers:
                    optimizer.step()
                if mistake == "drift" and step == 2 and rank == world - 1:
                    with torch.no_grad():
                        list(model.parameters())[2].to_local()[0, 1] += 1
    except AssertionError as error:
        assert text and re.search(text, str(error)), error
    else:
        assert not text, text


def prints(rank: int, world: int, folder: str = "", name: str = "run", plain: bool = False, mistake: str = "", **options: object) -> None:
    """Gradients are given, so that the run is the same for all sharding."""
    model = model_of() if plain else shard(world, **options)
    optimizer = adams(model.named_parameters())
    fingerprints = truestep.torch.Fingerprints(optimizer, f"{folder}/{name}.rank{{rank}}.prints", state=["exp_avg"],
                                               replicated=["gradient", "parameters", "exp_avg"])
    for step in range(STEPS):
        torch.manual_seed(step)
        for parameter in model.parameters():
            gradient = torch.randn(parameter.shape)
            parameter.grad = gradient if plain else distribute_tensor(gradient, parameter.device_mesh, parameter.placements)
        optimizer.step()
        if mistake == "drift" and step == 1 and rank == world - 1:
            with torch.no_grad():
                list(model.parameters())[2].to_local()[0, 1] += 1
    fingerprints.close()


def placements(rank: int, world: int, folder: str = "") -> None:
    """Every block and every placement has the fingerprint of the whole."""
    from truestep import _fingerprints, _torch_sharded
    torch.manual_seed(2)
    for shape in ((7, 5), (3, 4, 5), (1,), (6,), (2, 9)):
        tensor = torch.randn(shape)
        for mesh_shape in ((world,), (2, world // 2)) if world % 2 == 0 else ((world,),):
            mesh = init_device_mesh(needs.DEVICE, mesh_shape)
            for chosen in ([Replicate()], *[[Shard(d)] for d in range(len(shape))]) if mesh.ndim == 1 else (
                    [Replicate(), Shard(0)], [Shard(len(shape) - 1), Shard(0)], [Shard(0), Shard(0)], [Shard(0), Replicate()]):
                spread = distribute_tensor(tensor, mesh, chosen)
                (found,) = _torch_sharded.add_over_shards([_fingerprints._of_part(spread, 11)], [spread])
                assert found == truestep.torch.fingerprint(tensor, 11), (shape, chosen)
                assert torch.equal(_torch_sharded.whole(spread, "test"), tensor), (shape, chosen)
    partial = DTensor.from_local(torch.ones(3), init_device_mesh(needs.DEVICE, (world,), mesh_dim_names=("data",)), [Partial()])
    try:
        _torch_sharded.whole(partial, "a gradient")
        raise AssertionError("a partial tensor was taken")
    except truestep.Error as error:
        assert "it is partial over the mesh dimension data" in str(error), error


def refusals(rank: int, world: int, folder: str = "") -> None:
    model = shard(world)
    optimizer = adams(model.parameters())
    for workers, options, text in ((world + 1, {}, f"on a mesh of {world} ranks"), (world, {"on_error": "warn", "path": "run.rank{rank}.x"}, "on_error is 'warn'")):
        try:
            truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters(), workers, algorithm="adams"), **options)
            raise AssertionError(text)
        except truestep.Error as error:
            assert text in str(error), error
    recorder = truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters(), world, algorithm="adams"))
    try:
        recorder.own_gradients(model[0])
        raise AssertionError("a part of the model")
    except truestep.Error as error:
        assert "3 of the optimizer's parameters are of no module" in str(error), error
    recorder.own_gradients(model)
    for parameter in model.parameters():  # that nobody has computed
        parameter.grad = torch.ones_like(parameter)
    try:
        optimizer.step()
        raise AssertionError("gradients that were not seen")
    except truestep.Error as error:
        assert "own_gradients has not seen the gradient of every parameter" in str(error), error


def claim_refusals(rank: int, world: int, folder: str = "") -> None:
    def begun(model: torch.nn.Module, parameters: object = None, **options: object) -> None:
        optimizer = torch.optim.AdamW(model.parameters() if parameters is None else parameters)
        with truestep.torch.checking(optimizer, folder=folder, **options):
            backward(model, rank, 1)
            optimizer.step()

    def apart() -> None:
        model = shard(world)
        for p in model.parameters():  # that no module has computed
            p.grad = torch.ones_like(p)
        optimizer = torch.optim.AdamW(model.parameters())
        with truestep.torch.checking(optimizer, folder=folder):
            model[0](torch.randn(2, 10)).sum().backward()
            optimizer.step()

    before = model_of()
    old = list(before.parameters())
    fully_shard(before, mesh=init_device_mesh("cpu", (world,)))
    spread = model_of()
    for module in spread.modules():
        for name, p in list(module.named_parameters(recurse=False)):
            module._parameters[name] = torch.nn.Parameter(distribute_tensor(p, init_device_mesh("cpu", (world,)), [Replicate()]))
    for call, text in ((lambda: begun(shard(world, bf16="reduction")), "FSDP2 reduces gradients in bfloat16, which is within no level"),
                       (lambda: begun(before, old), "has no gradient in this step"),
                       (lambda: begun(spread), "5 of the optimizer's parameters are of no module that FSDP2"),
                       (lambda: begun(shard(world), claim=truestep.torch.claim(torch.optim.SGD(shard(world).parameters()), workers=world + 1)), "on a mesh of"),
                       (lambda: begun(shard(world), on_error="warn"), "on_error is 'warn'"), (apart, "this rank has made no gradient of")):
        try:
            call()
            raise AssertionError(text)
        except truestep.Error as error:
            assert text in str(error), error


def zero(rank: int, world: int, folder: str = "", mistake: str = "", warm: int = 0, dtype: torch.dtype = torch.float32) -> None:
    """ZeroRedundancyOptimizer behind DistributedDataParallel."""
    model = DistributedDataParallel(model_of())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1, foreach=False)
    for step in range(warm):
        backward(model, rank, step)
        optimizer.step()
        optimizer.zero_grad()
    claim = truestep.Problem(model.named_parameters(), world, algorithm="adams")
    with truestep.torch.Recorder(optimizer, claim, state={"exp_avg": "first_moment"}, path=f"{folder}/run.rank{{rank}}.safetensors") as recorder, \
            truestep.torch.Fingerprints(optimizer, f"{folder}/run.rank{{rank}}.prints", state=["exp_avg"], replicated=["parameters", "exp_avg"]):
        model.register_comm_hook(None, recorder.comm_hook())
        for step in range(1, STEPS + 1):
            optimizer.zero_grad()
            backward(model, rank, step)
            forget_second_moments(optimizer.optim)
            if mistake == "alone" and step == 2:
                optimizer._sync_params = lambda: None  # what the owner stepped reaches no other rank
            if mistake == "gradient" and step == 2 and rank == 0:
                for parameter in optimizer.optim.param_groups[0]["params"]:
                    parameter.grad *= 2
            optimizer.step()


def zero_refusals(rank: int, world: int, folder: str = "") -> None:
    """Each is refused on every rank, whatever the rank itself has of the state and of gradients."""
    for kind, name, warm, text in ((torch.optim.SGD, "momentum_buffer", True, "its number of steps is unknown without 'step'"),
                                   (torch.optim.AdamW, "step", False, "is no tensor of its shape"),
                                   (torch.optim.AdamW, "missing", False, "which AdamW keeps on no rank")):
        model = model_of()
        optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, lr=1e-2, **({"momentum": 0.9} if kind is torch.optim.SGD else {}))

        def step(model: torch.nn.Module = model, optimizer: torch.optim.Optimizer = optimizer) -> None:
            optimizer.zero_grad()
            if rank == 0:  # the others have no gradient, and no state of what they own
                backward(model, rank, 0)
            optimizer.step()
        if warm:
            step()
        truestep.torch.Recorder(optimizer, truestep.Problem(model.named_parameters(), world, algorithm="adams"), state={name: "first_moment"},
                                path=f"{folder}/run.rank{{rank}}.safetensors")
        try:
            step()
            raise AssertionError(text)
        except truestep.Error as error:
            assert text in str(error), error
