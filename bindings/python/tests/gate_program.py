"""This package's optimizer, worker and boundary as a program that the gate runs, a process a rank (docs/program-protocol.md): what C and
Python do between the caller and the optimized code has to be right for the whole gradients that the gate draws."""

import json
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import needs

needs.numpy()
import numpy as np  # noqa: E402
import truestep  # noqa: E402

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
Message = dict[str, Any]


def floats(path: str, *shape: int) -> Any:
    return np.fromfile(path, np.float32).reshape(shape or -1)


class Links:
    """A connection to each other rank. A thread takes what comes, so that no send waits for a receiver that is sending itself."""

    def __init__(self) -> None:
        self.case = 0
        rendezvous = Path(os.environ["TRUESTEP_RENDEZVOUS"])
        door = Listener(str(rendezvous / f"{RANK}.new"), backlog=RANKS)
        os.link(rendezvous / f"{RANK}.new", rendezvous / str(RANK))  # a rank that sees this name can connect
        self._links: dict[int, Connection] = {}
        for other in range(RANK):
            while not (rendezvous / str(other)).exists():
                time.sleep(0.002)
            self._links[other] = Client(str(rendezvous / str(other)))
            self._links[other].send(RANK)
        while len(self._links) < RANKS - 1:
            accepted = door.accept()
            self._links[accepted.recv()] = accepted
        self._come: dict[int, queue.Queue[Any]] = {other: queue.Queue() for other in self._links}
        self._waiting: dict[Any, Any] = {}
        self._gone: set[int] = set()
        for other in self._links:
            threading.Thread(target=self._listen, args=(other,), daemon=True).start()

    def _listen(self, other: int) -> None:
        try:
            while True:
                self._come[other].put(self._links[other].recv())
        except (EOFError, OSError):
            self._come[other].put((self.case, None, None))

    def next_case(self) -> None:
        """What is still on its way is of an earlier one, which has ended early."""
        self.case += 1
        self._waiting.clear()
        self._gone.clear()

    def send(self, peer: int, key: Any, data: Any) -> None:
        self._links[peer].send((self.case, key, data))

    def leave(self) -> None:
        """Tells ranks that wait for this one that nothing more will come in this case."""
        for peer in self._links:
            self.send(peer, None, None)

    def receive(self, peer: int, key: Any) -> Any:
        while (peer, key) not in self._waiting:
            if peer in self._gone:
                raise EOFError(f"rank {peer} is gone")
            case, came, data = self._come[peer].get()
            if case == self.case and came is None:
                self._gone.add(peer)
            elif case == self.case:
                self._waiting[peer, came] = data
        return self._waiting.pop((peer, key))


class Ranks(truestep.Communicator):
    def __init__(self, links: Links) -> None:
        self.rank, self.size, self._links, self._started = RANK, RANKS, links, 0

    def start_all_to_all(self, traffic: int, send: list[Any], receive: list[Any]) -> Callable[[], None]:
        self._started += 1
        key = self._started, traffic
        others = [rank for rank in range(RANKS) if rank != RANK]
        for rank in others:
            self._links.send(rank, key, send[rank].tobytes())
        receive[RANK][:] = send[RANK]

        def wait() -> None:
            for rank in others:
                receive[rank][:] = np.frombuffer(self._links.receive(rank, key), np.uint8)
        return wait

    def start_all_gather(self, traffic: int, send: Any, receive: list[Any]) -> Callable[[], None]:
        return self.start_all_to_all(traffic, [send] * RANKS, receive)


class Neighbours(truestep.gasloc.Peers):
    def __init__(self, links: Links) -> None:
        self.rank, self.size, self._links = RANK, RANKS, links

    def start_send(self, traffic: int, peer: int, number: int, data: Any) -> Callable[[], None]:
        self._links.send(peer, (traffic, number), data.tobytes())
        return lambda: None

    def start_receive(self, traffic: int, peer: int, number: int, into: Any) -> Callable[[], None]:
        def wait() -> None:
            into[:] = np.frombuffer(self._links.receive(peer, (traffic, number)), np.uint8)
        return wait


class System:
    hello: Message

    def __init__(self, links: Links) -> None:
        self.links = links

    def answer(self, asked: Message) -> Message:
        return getattr(self, asked["do"])(asked) or {}


class SCAPE(System):
    hello = {"shows": ["parameters", "moment", "residual", "mask", "next_mask"],
             "knows": ["norm", "payload", "e5m2", "both", "groups", "damage", "starts"],
             "left_out": dict.fromkeys(("owners", "symmetry.rank_order"), "libtruestep settles which rank owns a segment")}
    SETTINGS = ("beta1", "beta2", "epsilon", "weight_decay", "clip_norm", "norm", "payload", "groups", "bias_correction")

    optimizer: Any = None
    halted: Message | None = None

    def case(self, case: Message) -> Message | None:
        if self.optimizer is not None:
            self.optimizer.close()  # its last mask may be under way, whose messages are of that case
        self.links.next_case()
        self.asked, self.density, self.optimizer, self.halted = case, case["density"], None, None
        try:
            self.optimizer = self.make(floats(case["parameters"]))
        except truestep.Error as error:
            return {"did": "refused", "text": str(error)}
        return None

    def make(self, parameters: Any) -> truestep.Optimizer:
        """Of a schedule that goes from the first step's density to self.density in the second, and stays there."""
        tensors = [(tensor["name"], tensor["size"], tensor["always_dense"]) for tensor in self.asked["tensors"]]
        settings = {key: self.asked[key] for key in self.SETTINGS if self.asked[key] != []}
        first = self.asked["density"]
        density = first if first == self.density else ("linear", first, self.density, 1)
        # It ends at first + (density - first), which may round below the density: the small tensors of test_gate.py show no difference.
        size, share = self.asked["size"], -(-self.asked["size"] // RANKS)
        shares = [[min(rank * share, size), min((rank + 1) * share, size)] for rank in range(RANKS)]
        partition = "by_shard" if self.asked["ranges"] == shares else "by_tensor"
        problem = truestep.Problem(tensors, RANKS, density=density, partition=partition, **settings)
        return truestep.Optimizer(problem, parameters, Ranks(self.links))

    def change_density(self, density: float) -> None:
        if density == self.density:
            return
        old, self.density = self.optimizer, density
        self.optimizer = self.make(np.zeros(self.asked["size"], np.float32) if self.halted else old.parameters)
        if old.steps > 0 and not self.halted:
            self.optimizer.restore(step=old.steps, parameters=old.parameters, first_moment=old.first_moment, residual=old.residual,
                                   mask=old.mask, next_mask=old.next_mask, exponent=old.exponent)
        old.close()

    def step(self, asked: Message) -> Message:
        if self.halted:
            return self.halted
        self.change_density(asked["next_density"])
        try:
            self.take(floats(asked["gradient"]), asked["learning_rate"])
        except truestep.RefusedStep as error:
            place = re.search(r"rank (\d+).*\(coordinate (\d+)\)", str(error))
            assert place is not None, error
            return {"did": "refused", "rank": int(place[1]), "index": int(place[2])}
        except truestep.Halted as error:
            self.halted = {"did": "halted", "text": str(error)}
            return self.halted
        return {"did": "taken"}

    def take(self, gradient: Any, rate: float) -> None:
        self.optimizer.step(gradient, rate)

    def view(self, asked: Message) -> Message:
        for what, path in asked["into"].items():
            shown = getattr(self.optimizer, "first_moment" if what == "moment" else what)
            (np.packbits(shown, bitorder="little") if shown.dtype == bool else shown).tofile(path)
        return {"step": self.optimizer.steps}

    def save(self, asked: Message) -> None:
        folder = Path(asked["folder"], repr(self.density))  # a checkpoint fits its schedule alone
        folder.mkdir(exist_ok=True)
        self.optimizer.save(folder)

    def restore(self, asked: Message) -> Message | None:
        folder = next(Path(asked["folder"]).iterdir())
        self.change_density(float(folder.name))
        try:
            self.optimizer.load(next(folder.iterdir()))
        except truestep.Error as error:
            return {"did": "refused", "text": str(error)}
        self.halted = None
        return None


class GASLoC(System):
    hello = {"shows": ["parameters", "before", "first_moment", "second_moment"]}
    SETTINGS = ("inner", "beta1", "beta2", "epsilon", "weight_decay", "bias_correction", "eta", "alpha", "gamma", "momentum", "law", "seed")

    def case(self, case: Message) -> None:
        self.links.next_case()
        self.ended: Message | None = None
        settings = {key: case[key] for key in self.SETTINGS if key in case}
        graphs = 16 * case.get("graphs", [])  # C begins anew behind the last edge; no case has more rounds than these
        edges = [(number, *edge) for number, graph in enumerate(graphs, 1) for edge in graph]
        if graphs and not edges:
            settings["law"] = "none"
        self.size = case["size"]
        problem = truestep.gasloc.Problem([("theta", max(self.size, 1))], RANKS, edges=edges, allow_unstable=True, **settings)
        self.worker = truestep.gasloc.Worker(problem, self.read(case["parameters"]), Neighbours(self.links))

    def read(self, path: str) -> Any:
        """C refuses a model without parameters, so it gets one parameter in place of none."""
        return floats(path) if self.size > 0 else np.zeros(1, np.float32)

    def round(self, asked: Message) -> Message:
        if self.ended:
            return self.ended
        for path, rate in zip(asked["gradients"], asked["learning_rates"]):
            self.worker.step(self.read(path), rate)
        try:
            return {"skipped": self.worker.round().skipped}
        except truestep.Halted as error:
            self.ended = {"did": "halted", "text": str(error)}
            self.state = self.worker.state
        except truestep.Aborted as error:
            self.ended = {"did": "alone", "text": str(error)}
        self.links.leave()
        return self.ended

    def view(self, asked: Message) -> Message:
        if not self.ended:  # a worker that was left alone in a round keeps the state before it
            self.state = self.worker.state
        for what, path in asked["into"].items():
            getattr(self.state, what)[:self.size].tofile(path)
        return {"rounds": self.state.rounds if self.ended else self.worker.rounds, "inner_steps": self.state.inner_steps}

    def save(self, asked: Message) -> None:
        self.worker.save(asked["folder"])

    def restore(self, asked: Message) -> None:
        self.worker.load(next(Path(asked["folder"]).iterdir()))


class Side:
    """A side of a boundary."""

    def __init__(self, links: Links, begin: Message, case: int) -> None:
        self.links, self.peer, self.side, self.case = links, begin["peer"], begin["side"], case
        width, rank, words = begin["width"], begin["subspace_rank"], begin["codewords"]
        self.table = (begin["vocabulary"], rank)
        self.anchors, self.words, self.books = begin["anchors"], words, begin["groups"] * begin["rounds"]
        state = {"steps": begin["steps"], "subspace": floats(begin["subspace"], width, rank), "micro_batches": begin["micro_batches"]}
        if "moment" in begin:
            state["moment"] = floats(begin["moment"], width, rank)
        if self.anchors != "none":
            self.anchor: Any = floats(begin["anchor"], *self.table)
            apart = self.anchors == "two" and self.side == "receiver"
            state["receiver_rows" if apart else "sender_rows"] = floats(begin["rows"], rank, width)
        else:
            self.anchor = None
        shape = (self.books, words, rank // begin["groups"])
        state |= {what: floats(begin[what], *shape) for what in ("codebooks", "learned") if what in begin}
        settings = {key: begin[key] for key in ("vocabulary", "anchors", "order", "payload", "beta", "direction_iterations", "retraction_iterations", "seed")}
        if words:
            settings |= {key: begin[key] for key in ("codewords", "groups", "rounds", "subsets", "decay")}
        self.boundary = truestep.mapl.Boundary(width, rank, state=truestep.mapl.State(**state), **settings)
        self.under_way: dict[int, tuple[Any, Any, int]] = {}
        self.sent = self.received = 0
        self.new_step()

    def send(self, data: Any) -> None:
        self.sent += 1
        self.links.send(self.peer, (self.case, self.sent), data)

    def receive(self) -> Any:
        self.received += 1
        return self.links.receive(self.peer, (self.case, self.received))

    def new_step(self) -> None:
        self.dE = np.zeros(self.table, np.float32) if self.anchors in ("shared", "two") else None

    def compress(self, asked: Message) -> None:
        ids, into = np.fromfile(asked["ids"], np.uint32), asked["into"]
        x = floats(asked["activations"], len(ids), self.boundary.width)
        z, q = self.boundary.compress(x, ids, self.anchor)
        self.under_way[asked["micro"]] = q, ids, self.boundary.steps
        if not self.words:
            self.send((ids, z))
            z.tofile(into["z"])
            return
        message, _ = self.boundary.encode(z)
        self.send((ids, message))
        each, count = (self.words - 1).bit_length(), len(ids) * self.books  # section 23.1: indices, then codewords
        bits = np.unpackbits(message[:(count * each + 7) // 8], bitorder="little")[:count * each].reshape(count, each)
        (bits.astype(np.uint32) << np.arange(each, dtype=np.uint32)).sum(axis=1, dtype=np.uint32).tofile(into["indices"])
        message[(count * each + 7) // 8:].tofile(into["codewords"])

    def decompress(self, asked: Message) -> None:
        ids, z = self.receive()
        if self.words:
            z = self.boundary.decode(z, len(ids))
        self.boundary.decompress(z, ids, self.anchor).tofile(asked["into"]["activations"])
        ids.tofile(asked["into"]["ids"])
        self.under_way[asked["micro"]] = z, ids, self.boundary.steps

    def give_back(self, asked: Message) -> None:
        z, ids, step = self.under_way.pop(asked["micro"])
        dz = self.boundary.decompress_backward(z, floats(asked["gradient"], len(ids), self.boundary.width), ids, self.dE, step=step)
        self.send(dz)
        dz.tofile(asked["into"]["dz"])

    def gradient(self, asked: Message) -> None:
        q, ids, step = self.under_way.pop(asked["micro"])
        self.boundary.compress_backward(q, self.receive(), ids, self.dE, step=step).tofile(asked["into"]["gradient"])

    def end(self, asked: Message) -> Message:
        updated, self.dE_made = True, self.dE
        if self.side == "receiver":
            self.send((self.boundary.part("receiver"), self.dE))
            subspace, dE = self.receive()
            self.boundary.follow(subspace)
        else:
            part, dE = self.receive()
            self.g = self.boundary.part("sender") + part
            updated = self.boundary.step(asked["rate"], part)
            dE = self.dE + dE if self.anchors == "shared" else None
            self.send((self.boundary.subspace, dE))
        if self.anchors == "shared":
            self.dE_made = dE
        self.new_step()
        return {"updated": updated}

    def train(self, asked: Message) -> None:
        self.anchor = floats(asked["values"], *self.table)

    def view(self, asked: Message) -> None:
        for what, path in asked["into"].items():
            shown = {"anchor": lambda: self.anchor, "anchor_gradient": lambda: self.dE_made, "subspace_gradient": lambda: self.g}
            shown.get(what, lambda: getattr(self.boundary.state, what))().tofile(path)


class MAPL(System):
    hello = {"knows": ["payload", "codewords"]}
    CALLS = {"return": Side.give_back, "anchor": Side.train}

    def __init__(self, links: Links) -> None:
        super().__init__(links)
        self.sides: dict[str, Side] = {}
        self.cases = {"sender": 0, "receiver": 0}

    def answer(self, asked: Message) -> Message:
        do, side = asked["do"], asked["side"]
        if do == "begin":
            self.cases[side] += 1  # both sides of a boundary count alike; messages of an earlier case may be on their way
            self.sides[side] = Side(self.links, asked, self.cases[side])
            return {}
        return (self.CALLS.get(do) or getattr(Side, do))(self.sides[side], asked) or {}


def main(systems: dict[str, Callable[[Links], System]]) -> None:
    links = Links()
    system: System | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["do"] == "end" and "side" not in asked:
            break
        if asked["do"] == "hello":
            system = systems[asked["system"]](links)
            made = {"protocol": 1, "name": "package", "level": "exact", **system.hello}
        else:
            assert system is not None
            made = system.answer(asked)
        print(json.dumps({"id": asked["id"], "did": asked["do"], **made}), flush=True)


if __name__ == "__main__":
    main({"scape": SCAPE, "gasloc": GASLoC, "mapl": MAPL})
