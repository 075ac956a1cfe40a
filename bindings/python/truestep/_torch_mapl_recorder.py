"""Records a boundary of MAPL while PyTorch trains through it: in one process, or in two with a stage each."""

from typing import TYPE_CHECKING, Any

import torch

from . import mapl
from ._errors import Error
from ._torch_messages import Messages

if TYPE_CHECKING:
    from ._torch_mapl import Boundary

# What a trace has of each, in this order, whichever came first: so that one process and two write the same bytes.
_OF_MICRO = ("X", "Z", "indices", "codewords", "Xhat", "G", "dZ", "dX")
_OF_STEP = ("m", "A", "C", "L", "A_receiver", "C_receiver", "gradient_sender", "gradient_receiver", "E_sender", "E_receiver")


class Recorder:
    """Looks on as a boundary trains, and writes a trace that `truestep verify --level rel` takes.

        recorder = truestep.torch.mapl.Recorder(boundary)   # between two steps; boundary.recorder = None ends it
        for step in range(5):
            ...                                          # send, receive, backward, boundary.step(rate)
        recorder.write("run.safetensors")

    In a pipeline both processes make one before the same step. Each records its side; at the end the sender's writes what both have seen:

        recorder.write("run.safetensors", receiver=1)    # the stage before
        recorder.write(sender=0)                         # the stage behind; back when the trace is written
    """

    def __init__(self, boundary: "Boundary", source: str = "truestep.torch.mapl.Boundary") -> None:
        self._boundary, self._source = boundary, source
        self._initial: mapl.State | None = None  # of the first micro-batch, or step
        self._steps: list[dict[str, Any]] = []
        self._sent: list[dict[str, Any]] = []
        self._received: list[dict[str, Any]] = []
        self._step: dict[str, Any] = {}
        boundary.recorder = self

    def begins(self) -> None:
        """Runs before a step: a state may have been loaded since the recorder was made."""
        if self._initial is None:
            self._initial = self._boundary.native.state

    @property
    def _start(self) -> mapl.State:
        return self._boundary.native.state if self._initial is None else self._initial

    def write(self, path: Any = None, *, receiver: int | None = None, sender: int | None = None, group: Any = None) -> None:
        """Writes all completed steps. With ranks of torch.distributed, as in Boundary.step: the receiver's
        side, which passes sender=, gives its part to the sender's, which writes. Parts that do not fit
        together are refused on both."""
        if (path is None) != (sender is not None) or (receiver is not None and sender is not None):
            raise Error("Recorder: write takes a path, with receiver= where that is another process; there write(sender=), without a path")
        if sender is not None:
            messages = Messages(sender, group)
            messages.send_object({"first": self._start.steps, "steps": self._steps})
            refusal = messages.receive_object()
            if refusal:
                raise Error(refusal)
        elif receiver is not None:
            messages, refusal = Messages(receiver, group), "the sender's side could not write the trace"
            theirs = messages.receive_object()
            try:
                self._write(path, self._joined(theirs["first"], theirs["steps"]))
                refusal = ""
            except Exception as error:
                refusal = str(error)
                raise
            finally:  # the other side waits
                messages.send_object(refusal)
        else:
            for step in self._steps:
                if step["side"] != "both":
                    raise Error(f"{path}: not written: this process has recorded the {step['side']}'s side; write(path, receiver=) on the sender's "
                                "and write(sender=) on the receiver's bring both together")
            self._write(path, self._steps)

    def sent(self, x: torch.Tensor, ids: torch.Tensor, z: torch.Tensor) -> None:
        batch: dict[str, Any] = {"ids": ids.detach().clone(), "X": x.detach().clone(), "Z": z.detach().clone()}
        for what, tensor in (("dX", x), ("dZ", z)):
            if tensor.requires_grad:
                _watch(tensor, batch, what)
        if self._boundary.message is not None:
            batch["message"] = self._boundary.message.clone()
        self._sent.append(batch)

    def received(self, ids: torch.Tensor, xhat: torch.Tensor) -> None:
        batch = {"tokens": ids.numel(), "Xhat": xhat.detach().clone()}
        if xhat.requires_grad:
            _watch(xhat, batch, "G")
        self._received.append(batch)

    def ends(self, side: str) -> None:
        """Runs before the step: records returned gradients, and the tables through which they came."""
        self.begins()
        if side == "both":
            _fit(len(self._steps) + 1, self._sent, self._received)
        for batches, of, needed in ((self._sent, "sender", "dZ"), (self._received, "receiver", "G")):
            if side not in (of, "both") and batches:
                raise Error(f"Recorder: the step is the {side}'s, and this process has also been the {of}; give each side a process, or step(rate)")
            for number, batch in enumerate(batches):
                if needed not in batch:
                    raise Error(f"Recorder: no gradient has come back of micro-batch {number}; call backward before boundary.step")
        native, anchors = self._boundary.native, self._boundary.settings["anchors"]
        self._step = {"side": side, "sent": self._sent, "received": self._received}
        if side != "receiver":
            self._step["gradient_sender"] = torch.from_numpy(native.part("sender"))
            if anchors != "none":
                self._step["E_sender"] = _copy(self._boundary._table("sender"))
        if side != "sender":
            self._step["gradient_receiver"] = torch.from_numpy(native.part("receiver"))
            if anchors == "two":
                self._step["E_receiver"] = _copy(self._boundary._table("receiver"))

    def ended(self, rate: float | None) -> None:
        state = self._boundary.native.state
        on = "_receiver" if self._step["side"] == "receiver" else ""
        self._step |= {"rate": rate, f"A{on}": torch.from_numpy(state.subspace)}
        if self._boundary.native.codewords:
            self._step[f"C{on}"] = torch.from_numpy(state.codebooks)
        if not on:
            self._step["m"] = torch.from_numpy(state.moment)
            if self._boundary.native.codewords:
                self._step["L"] = torch.from_numpy(state.learned)
        self._steps.append(self._step)
        self._sent, self._received, self._step = [], [], {}

    def _joined(self, first: int, theirs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The sender's steps with the receiver's part of each."""
        if (first, len(theirs)) != (self._start.steps, len(self._steps)):
            raise Error(f"Recorder: the sender's side has recorded {len(self._steps)} steps behind step {self._start.steps}, and the receiver's "
                        f"{len(theirs)} behind step {first}; begin and write both recorders at the same steps")
        for number, (mine, other) in enumerate(zip(self._steps, theirs), 1):
            if (mine["side"], other["side"]) != ("sender", "receiver"):
                raise Error(f"Recorder: step {number} is the {mine['side']}'s on the sender's side and the {other['side']}'s on the receiver's; "
                            "say step(rate, receiver=) on one and step(sender=) on the other")
            _fit(number, mine["sent"], other["received"])
        steps = [other | mine | {"received": other["received"]} for mine, other in zip(self._steps, theirs)]
        for name in ("A", "C"):  # the same on both sides, or else for the judge to see
            if all(torch.equal(step[name], step[f"{name}_receiver"]) for step in steps if name in step):
                steps = [{key: value for key, value in step.items() if key != f"{name}_receiver"} for step in steps]
        return steps

    def _write(self, path: Any, steps: list[dict[str, Any]]) -> None:
        settings, state, coded = self._boundary.settings, self._start, self._boundary.native.codewords > 0
        inner = mapl.Recorder(settings, state.subspace, moment=state.moment, source=self._source,
                              sender_rows=state.sender_rows if state.sender_rows.size else None,
                              receiver_rows=state.receiver_rows if settings["anchors"] == "two" else None,
                              codebooks=state.codebooks if coded else None, learned=state.learned if coded else None,
                              micro_batches_before=state.micro_batches)
        for step in steps:
            for sent, received in zip(step["sent"], step["received"]):
                batch = sent | received
                if "message" in sent:
                    batch |= inner.of_message(sent["message"], sent["ids"].numel())
                inner.micro_batch(sent["ids"], **{name: batch[name] for name in _OF_MICRO if name in batch})
            inner.step(step["rate"], **{name: step[name] for name in _OF_STEP if name in step})
        inner.write(path)


def _fit(number: int, sent: list[dict[str, Any]], received: list[dict[str, Any]]) -> None:
    """Checks that the micro-batches of a step fit on both sides."""
    tokens = [batch["ids"].numel() for batch in sent], [batch["tokens"] for batch in received]
    if tokens[0] != tokens[1]:
        raise Error(f"Recorder: in step {number} micro-batches of {tokens[0]} tokens were sent, and of {tokens[1]} received; what is received has "
                    "to be what was sent, in its order")


def _copy(table: Any) -> torch.Tensor:
    copy: torch.Tensor = table.detach().clone()
    return copy


def _watch(tensor: Any, batch: dict[str, Any], what: str) -> None:
    def keep(gradient: torch.Tensor) -> None:
        batch[what] = gradient.clone()
    tensor.register_hook(keep)
