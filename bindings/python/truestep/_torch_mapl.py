"""MAPL's boundary for PyTorch: ``truestep.torch.mapl``."""

import hashlib
from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable

from . import _values, mapl
from ._errors import Error
from ._torch_mapl_recorder import Recorder
from ._torch_messages import Messages, agree_among, refuse_among

__all__ = ["Boundary", "Recorder"]

_MATRICES = ("subspace", "moment", "sender_rows", "receiver_rows")
_BOOKS = ("codebooks", "learned")
_WITHOUT_CODEWORDS = {"codewords": 0, "groups": 1, "rounds": 1, "subsets": 1, "decay": 0.9}
_once: Any = once_differentiable


def _remember(ctx: Any, native: mapl.Boundary, values: Any, ids: torch.Tensor) -> None:
    """Stores what the backward pass needs."""
    ctx.native, ctx.step = native, native.steps
    ctx.save_for_backward(values, ids)


def _anchor_gradient(ctx: Any) -> torch.Tensor | None:
    """The vector to which the anchor's gradient is added, if it is needed."""
    return torch.zeros(ctx.native.vocabulary, ctx.native.rank) if ctx.needs_input_grad[1] else None


def _sender_backward(ctx: Any, dz: torch.Tensor) -> tuple[Any, ...]:
    q, ids = ctx.saved_tensors
    of_anchor = _anchor_gradient(ctx)
    dx = ctx.native.compress_backward(q, dz.contiguous(), ids, of_anchor, step=ctx.step)
    return torch.from_numpy(dx), of_anchor, None, None, None


def _receiver_backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    z, ids = ctx.saved_tensors
    of_anchor = _anchor_gradient(ctx)
    dz = ctx.native.decompress_backward(z, gradient.contiguous(), ids, of_anchor, step=ctx.step)
    return torch.from_numpy(dz), of_anchor, None, None, None


class _Send(torch.autograd.Function):
    """Computes Z from X and the sender's anchor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, anchor: torch.Tensor | None, _always: torch.Tensor, ids: torch.Tensor,
                native: mapl.Boundary) -> torch.Tensor:
        z, q = native.compress(x, ids, anchor)
        _remember(ctx, native, q if q is x else torch.from_numpy(q), ids)
        return torch.from_numpy(z)

    backward = staticmethod(_once(_sender_backward))


class _Receive(torch.autograd.Function):
    """Computes Xhat from Z and the receiver's anchor."""

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, anchor: torch.Tensor | None, _always: torch.Tensor, ids: torch.Tensor,
                native: mapl.Boundary) -> torch.Tensor:
        xhat = native.decompress(z, ids, anchor)
        _remember(ctx, native, z, ids)
        return torch.from_numpy(xhat)

    backward = staticmethod(_once(_receiver_backward))


class _Encode(torch.autograd.Function):
    """Replaces Z by what it will be decoded to. Its gradient passes straight through."""

    @staticmethod
    def forward(_ctx: Any, z: torch.Tensor, boundary: "Boundary") -> torch.Tensor:
        message, decoded = boundary.native.encode(z.detach().contiguous())
        boundary.message = torch.from_numpy(message)
        return torch.from_numpy(decoded)

    backward = staticmethod(_once(lambda _ctx, dz: (dz, None)))


class Boundary(torch.nn.Module):
    """MAPL (docs/specification/mapl.md) between two stages, on the CPU, the bits of libtruestep: what travels is z, of ``rank`` features in
    place of ``width``. Each stage makes one with the same arguments; a process that has both stages makes one for both.

        boundary = truestep.torch.mapl.Boundary(1024, 64, vocabulary=50257, anchors="two")
        z = boundary.send(x, ids)                # the stage before: z and ids go to the next one, z.backward(dz) when dz comes
        xhat = boundary.receive(z, ids)          # the stage behind: z.requires_grad_() as it came; z.grad goes back
        boundary.step(0.1 * lr, receiver=1)      # once a step, and boundary.step(sender=0) on the other side

    x is (..., width) with ids of the shape (...). Tables of anchors are parameters, or a buffer where they are fixed: ``anchor``, or
    ``sender_anchor`` and ``receiver_anchor`` with anchors="two". They are zeros until the caller fills them. A is not a parameter: ``step``
    trains it, by SPEL, with the gradient that the backward passes since the last one have left. With payload="bf16" z and dz are floats
    that ``.bfloat16()`` holds as they are: send those, and give ``.float()`` of what came.

    With codewords=K (and groups, rounds, subsets, decay: section 23.1) z is what the other side will decode, and ``message`` travels:

        z = boundary.send(x, ids)                # boundary.message, a vector of uint8, and ids go to the next stage
        z = boundary.decode(message, ids)        # there, boundary.message_bytes(ids.numel()) bytes; then receive(z, ids) as ever

    The codebooks learn from every sent micro-batch, even under torch.no_grad(); each has to be decoded, in the same order.

    ``state_dict`` holds A, m, the number of steps and the codebooks beside the tables, between two steps.
    """

    def __init__(self, width: int, rank: int, vocabulary: int = 1, *, anchors: str = "none", order: str = "project_first", beta: float = 0.9,
                 direction_iterations: int = 8, retraction_iterations: int = 2, seed: int = 1, payload: str = "fp32", arithmetic: str = "optimized",
                 codewords: int = 0, groups: int = 1, rounds: int = 1, subsets: int = 1, decay: float = 0.9, state: mapl.State | None = None) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "width": width, "rank": rank, "vocabulary": vocabulary, "anchors": anchors, "order": order, "beta": float(beta),
            "direction_iterations": direction_iterations, "retraction_iterations": retraction_iterations, "seed": seed, "payload": payload,
            "arithmetic": arithmetic}
        quantization = {"codewords": codewords, "groups": groups, "rounds": rounds, "subsets": subsets, "decay": float(decay)}
        if quantization != _WITHOUT_CODEWORDS:  # so that a state_dict of before there were any still fits
            self.settings |= quantization
        self.native = mapl.Boundary(**self.settings, state=state)
        self.message: torch.Tensor | None = None  # what travels of the last micro-batch that was sent as codewords
        self.recorder: Recorder | None = None
        self._rows = _rows_of(self.native)
        for name in {"none": (), "two": ("sender_anchor", "receiver_anchor")}.get(anchors, ("anchor",)):
            table = torch.zeros(vocabulary, rank)
            if anchors == "fixed":
                self.register_buffer(name, table)
            else:
                self.register_parameter(name, torch.nn.Parameter(table))
        # So that there is a backward pass, in which A learns, also where nothing else wants one.
        self._always = torch.zeros(0, requires_grad=True)

    def send(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """z, (..., rank), for the next stage."""
        flat = self._flat(x, ids, "sender", self.native.width)
        z = self._through(_Send, flat, ids, "sender", self.native.rank)
        if self.native.codewords:
            z = _Encode.apply(z.reshape(-1, self.native.rank), self).reshape(z.shape)
        if self.recorder is not None:
            self.recorder.sent(flat, ids, z)
        return z

    def message_bytes(self, tokens: int) -> int:
        """The bytes of a message of so many tokens, with codewords."""
        return self.native.message_bytes(tokens)

    def decode(self, message: torch.Tensor, ids: torch.Tensor, *, version: int | None = None) -> torch.Tensor:
        """z, (..., rank), from the message of the stage before; it requires grad, and z.grad travels back.
        version: native.version("sender") there before the message was encoded; if it differs here, the
        message is refused."""
        z = torch.from_numpy(self.native.decode(message, ids.numel(), version=version))
        return z.reshape(*ids.shape, self.native.rank).requires_grad_(torch.is_grad_enabled())

    def receive(self, z: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """xhat, (..., width), from the z of the stage before."""
        if torch.is_grad_enabled() and not z.requires_grad:
            raise Error("receive: z does not require grad, so there would be no z.grad to send back; z.requires_grad_() before, or receive "
                        "under torch.no_grad()")
        xhat = self._through(_Receive, self._flat(z, ids, "receiver", self.native.rank), ids, "receiver", self.native.width)
        if self.recorder is not None:
            self.recorder.received(ids, xhat)
        return xhat

    def step(self, rate: float | None = None, *, receiver: int | None = None, sender: int | None = None, group: Any = None,
             replicas: Any = None) -> bool:
        """Ends a step, once all gradients are back: SPEL at this rate, on the sender, 0 <= rate < 0.52. In a process that has both stages
        step(rate); else step(rate, receiver=r) and step(sender=s), with ranks of torch.distributed, exchange the receiver's part and the
        new A, and with shared anchors the sum of both sides' gradients, which is anchor.grad afterwards. What differs between the two
        sides is refused on both. Where the pipeline stands several times beside itself `replicas` is the group of torch.distributed of the
        ranks that have the sender, or both stages: A follows the mean of their gradients, and is the same bits on all of them; each has its
        own codewords. Not for the side that says sender=. False if a gradient is not finite: A is what it was, and the step counts."""
        if receiver is not None and sender is not None:
            raise Error("step: receiver and sender are given; give the rank of the other side alone")
        if sender is not None and replicas is not None:
            raise Error("step: sender and replicas are given; replicas are the other side's, which steps for both")
        if self.recorder is not None and replicas is not None:
            raise Error("step: a recorder is attached, and replicas are given; a trace holds one pipeline: record without replicas")
        messages = Messages(sender if receiver is None else receiver, group) if (sender, receiver) != (None, None) else None
        side = "receiver" if sender is not None else "both" if receiver is None else "sender"
        try:  # what is wrong on this side, before the other and the replicas wait for what comes of it
            if sender is None:
                _check_rate(rate)
            if self.recorder is not None:
                self.recorder.ends(side)
        except Error:
            if messages is not None:
                messages.refuse(sends_first=side == "receiver")
            refuse_among(replicas)
            raise
        if messages is None:
            stepped = self._step(float(rate or 0), None, replicas)
        else:
            stepped = self._follow(messages) if sender is not None else self._lead(float(rate or 0), messages, replicas)
        if self.recorder is not None:
            self.recorder.ended(rate)
        return stepped

    @property
    def subspace(self) -> torch.Tensor:
        """A copy of A."""
        return torch.from_numpy(self.native.subspace)

    def get_extra_state(self) -> dict[str, Any]:
        state = self.native.state
        books = {"micro_batches": state.micro_batches} if self.native.codewords else {}
        names = _MATRICES + (_BOOKS if books else ())
        return {"settings": dict(self.settings), "steps": state.steps} | books | {name: torch.from_numpy(getattr(state, name)) for name in names}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        if state["settings"] != self.settings:
            raise Error(f"load_state_dict: it is of a boundary with {state['settings']}, and this one has {self.settings}; make it with those")
        arrays = {name: state[name].numpy() for name in _MATRICES + _BOOKS if name in state}
        self.native.restore(mapl.State(state["steps"], micro_batches=state.get("micro_batches", 0), **arrays))
        self._rows = _rows_of(self.native)

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.settings.items())

    def _table(self, side: str) -> torch.Tensor | None:
        name = f"{side}_anchor" if self.settings["anchors"] == "two" else "anchor"
        table: torch.Tensor | None = None if self.settings["anchors"] == "none" else getattr(self, name)
        return table

    def _flat(self, values: torch.Tensor, ids: torch.Tensor, side: str, columns: int) -> torch.Tensor:
        """A row for each token, as a separate node, whose gradient is only this boundary's."""
        if self.recorder is not None:
            self.recorder.begins()
        if values.shape != (*ids.shape, columns):
            raise Error(f"the {side} was given {tuple(values.shape)} beside ids of {tuple(ids.shape)}; give {(*ids.shape, columns)}")
        flat: torch.Tensor = _values.as_fp32(values, f"what the {side} was given").reshape(-1, columns).contiguous()
        return flat if self.recorder is None else flat.view_as(flat)

    def _through(self, function: Any, flat: torch.Tensor, ids: torch.Tensor, side: str, made: int) -> torch.Tensor:
        out: torch.Tensor = function.apply(flat, self._table(side), self._always, ids.reshape(-1).contiguous(), self.native)
        return out.reshape(*ids.shape, made)

    def _step(self, rate: float, receivers_part: torch.Tensor | None, replicas: Any) -> bool:
        """Steps with the receiver's part; None: this process has been both sides."""
        if replicas is None:
            return self.native.step(rate, receivers_part)
        part = torch.from_numpy(self.native.part("receiver")) if receivers_part is None else receivers_part
        return self.native.step(rate, gradient=self._mean(part, rate, replicas))

    def _mean(self, receivers_part: torch.Tensor, rate: float, replicas: Any) -> torch.Tensor:
        """The mean of the gradients of all replicas, added in the order of their ranks: the same bits on
        all (section 22.1)."""
        ranks = dist.get_world_size(replicas)
        digest = hashlib.blake2b(repr((sorted(self.settings.items()), self.native.steps, rate)).encode(), digest_size=7)
        digest.update(self.native.subspace.tobytes() + self._rows)  # another m makes another A, which the next step tells
        agree_among(replicas, int.from_bytes(digest.digest(), "little"))
        own = torch.from_numpy(self.native.part("sender")) + receivers_part
        gradients = [torch.empty_like(own) for _ in range(ranks)]
        dist.all_gather(gradients, own, group=replicas)
        total = gradients[0]
        for gradient in gradients[1:]:
            total = total + gradient
        return total / ranks

    def _lead(self, rate: float, messages: Messages, replicas: Any) -> bool:
        try:
            messages.agree(self._digest("sender"), "receiver", sends_first=False)
        except Error:
            refuse_among(replicas)
            raise
        shared = self._shared_gradient()
        count = self.native.width * self.native.rank
        theirs = torch.empty(count + shared.numel())
        messages.receive(theirs)
        try:
            stepped = self._step(rate, theirs[:count].view(self.native.width, self.native.rank), replicas)
        except Error:
            messages.send_refusal(1 + theirs.numel())
            raise
        shared += theirs[count:].view_as(shared)
        messages.send(torch.cat([torch.tensor([float(stepped)]), self.subspace.reshape(-1), shared.reshape(-1)]))
        self._set_shared_gradient(shared)
        return stepped

    def _follow(self, messages: Messages) -> bool:
        messages.agree(self._digest("receiver"), "sender", sends_first=True)
        shared = self._shared_gradient()
        part = torch.from_numpy(self.native.part("receiver"))
        messages.send(torch.cat([part.reshape(-1), shared.reshape(-1)]))
        answer = torch.empty(1 + part.numel() + shared.numel())
        messages.receive(answer)
        messages.check(answer[0].item(), "sender")
        self.native.follow(answer[1:1 + part.numel()].view_as(part))
        self._set_shared_gradient(answer[1 + part.numel():].view_as(shared))
        return bool(answer[0].item())

    def _shared_gradient(self) -> torch.Tensor:
        """This side's gradient, to which the other side's has to be added; empty if there is none."""
        if self.settings["anchors"] != "shared":
            return torch.empty(0)
        table = self._table("sender")
        assert table is not None
        return torch.zeros_like(table) if table.grad is None else table.grad.clone()

    def _set_shared_gradient(self, gradient: torch.Tensor) -> None:
        if self.settings["anchors"] == "shared":
            table = self._table("sender")
            assert table is not None
            table.grad = gradient.detach().clone()

    def _digest(self, side: str) -> int:
        """A digest of everything that both sides must have alike."""
        version = self.native.version(side) if self.native.codewords else 0
        digest = hashlib.blake2b(repr((sorted(self.settings.items()), self.native.steps, version)).encode(), digest_size=7)
        digest.update(self.native.subspace.tobytes() + self._rows)
        if self.settings["anchors"] in ("fixed", "shared"):
            table = self._table("sender")
            assert table is not None
            digest.update(table.detach().contiguous().numpy().tobytes())
        return int.from_bytes(digest.digest(), "little")


def _check_rate(rate: float | None) -> None:
    if rate is None:
        raise Error("step: rate is missing; pass it, or sender= on the receiver's side")
    if not 0 <= rate < 0.52:
        raise Error(f"step: the rate of the subspace is {rate}; it must be at least 0 and less than 0.52")


def _rows_of(native: mapl.Boundary) -> bytes:
    state = native.state
    return state.sender_rows.tobytes() + state.receiver_rows.tobytes()
