#!/usr/bin/env python3
"""GASLoC as a program that the gate runs, a process a worker. Standard library only.

The first half is the protocol of docs/program-protocol.md, and stays as it is when your optimizer goes in; the second is
GASLoC in plain Python. Its workers talk over sockets of their own, each with its neighbours alone.

    build/release/bin/truestep check gasloc --program 'python3 docs/examples/programs/gasloc_plain.py' --cases 20 --workers 1,2,3,4
"""

import json
import math
import os
import socket
import struct
import sys
import time
from array import array

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MISTAKE = os.environ.get("MISTAKE", "")  # "before", "stale" or "checkpoint": something for the gate to find


# --- The protocol. ----------------------------------------------------------------------------------------------------

def read_floats(path):
    values = array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return list(values)


def write(path, values):
    with open(path, "wb") as file:
        file.write(array("f", values).tobytes())


def answer(message, worker):
    """What is said to one message: a line with its id, and what was done."""
    do = message["do"]
    if do == "hello":
        return {"did": "hello", "protocol": 1, "name": "plain-python", "level": "exact",
                "shows": ["parameters", "before", "first_moment", "second_moment"], "left_out": {}}
    if do == "case":
        worker.begin(message, read_floats(message["parameters"]))
        return {"did": "case"}
    if do == "round":
        gradients = [read_floats(path) for path in message["gradients"]]
        return worker.round(gradients, message["learning_rates"], message["edges"])
    if do == "view":
        shown = {"parameters": worker.theta, "before": worker.before, "first_moment": worker.m, "second_moment": worker.v}
        for what, path in message["into"].items():
            write(path, shown[what])
        return {"did": "view", "rounds": worker.rounds, "inner_steps": worker.s}
    if do == "save":
        worker.save(message["folder"])
        return {"did": "save"}
    if do == "restore":
        worker.restore(message["folder"])
        return {"did": "restore"}
    return {"did": "error", "text": "there is no message " + do}


def main():
    worker = Worker()
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "end":
            break
        print(json.dumps({"id": message["id"], **answer(message, worker)}), flush=True)


# --- Workers that talk: a socket for each two. ------------------------------------------------------------------------

class Peers:
    def __init__(self):
        self.sockets = {}
        door = socket.socket(socket.AF_UNIX)
        door.bind(self.path(RANK) + ".new")
        door.listen(RANKS)
        os.rename(self.path(RANK) + ".new", self.path(RANK))  # who sees it can connect
        for other in range(RANK):
            while not os.path.exists(self.path(other)):
                time.sleep(0.002)
            self.sockets[other] = socket.socket(socket.AF_UNIX)
            self.sockets[other].connect(self.path(other))
            self.sockets[other].sendall(struct.pack("=i", RANK))
        for _ in range(RANK + 1, RANKS):
            accepted = door.accept()[0]
            self.sockets[struct.unpack("=i", self.exactly(accepted, 4))[0]] = accepted

    @staticmethod
    def path(rank):
        return os.path.join(os.environ["TRUESTEP_RENDEZVOUS"], f"worker{rank}")

    @staticmethod
    def exactly(other, count):
        data = bytearray()
        while len(data) < count:
            part = other.recv(count - len(data))
            if not part:
                raise EOFError("another worker is gone")
            data += part
        return bytes(data)

    def send(self, to, data):
        self.sockets[to].sendall(struct.pack("=q", len(data)) + data)

    def receive(self, start):
        return self.exactly(self.sockets[start], struct.unpack("=q", self.exactly(self.sockets[start], 8))[0])

    def swap(self, edges, data):
        """What each neighbour says. Whoever takes the edges in one order, and of two lets the lower speak first, waits in no circle."""
        heard = {}
        for a, b in sorted((min(a, b), max(a, b)) for a, b, _ in edges):
            if RANK == a:
                self.send(b, data)
                heard[b] = self.receive(b)
            elif RANK == b:
                heard[a] = self.receive(a)
                self.send(a, data)
        return heard


# --- GASLoC: sections 12, 13, 5 and 16 of docs/specification/. --------------------------------------------------------

def fp32(value):
    """Rounded once. Sums, products, quotients and roots of two fp32 numbers may be made in double first."""
    return array("f", [value])[0]


def power(base, exponent):
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


class Worker:
    def __init__(self):
        self.peers = Peers()

    def begin(self, case, parameters):
        self.case = case
        self.theta = parameters
        self.before = list(parameters)
        self.m = [] if case["inner"] == "sgd" else [0.0] * case["size"]
        self.v = [0.0] * case["size"] if case["inner"] == "adamw" else []
        self.s = self.rounds = 0
        self.ended = None                       # the answer to every round, once there is one
        self.last_y = {}                        # of neighbours; for a mistake

    def inner(self, x, m, v, s, g, learning_rate):
        """One inner step, the s-th of this worker's life."""
        case, inner = self.case, self.case["inner"]
        beta1, beta2 = case["beta1"], case["beta2"]
        b1, a1, b2, a2 = fp32(beta1), fp32(1.0 - beta1), fp32(beta2), fp32(1.0 - beta2)
        lr, eps, decay = fp32(learning_rate), fp32(case["epsilon"]), fp32(1.0 - learning_rate * case["weight_decay"])
        correction = "adam" if inner == "adamw" else case["bias_correction"]
        inv1 = 1.0 if correction == "none" else fp32(1.0 / (1.0 - power(beta1, s)))
        invs2 = fp32(1.0 / math.sqrt(1.0 - power(beta2, s))) if correction == "adam" else 1.0
        for i in range(len(x)):
            u = g[i]
            if inner != "sgd":
                old, m[i] = m[i], fp32(fp32(b1 * m[i]) + fp32(a1 * g[i]))
                g2 = fp32(a2 * fp32(g[i] * g[i]))
                if inner == "adamw":
                    second = v[i] = fp32(fp32(b2 * v[i]) + g2)
                else:
                    q = fp32(old * inv1) if correction == "momentum" else old
                    second = fp32(fp32(b2 * fp32(q * q)) + g2)
                u = fp32(fp32(m[i] * inv1) / fp32(fp32(fp32(math.sqrt(second)) * invs2) + eps))
            x[i] = fp32(fp32(x[i] * decay) - fp32(lr * u))

    def round(self, gradients, learning_rates, edges):
        if self.ended:
            self.peers.swap(edges, b"")         # a neighbour that waits hears of it
            return self.ended
        case, theta = self.case, self.theta
        # 1. Check.
        skipped = not all(math.isfinite(value) for g in gradients for value in g)
        if skipped:
            gradients = []
        # 2. Inner.   3. Drift.
        x, m, v = list(theta), list(self.m), list(self.v)
        for h, g in enumerate(gradients):
            self.inner(x, m, v, self.s + h + 1, g, learning_rates[h])
        eta, gamma, a = fp32(case["eta"]), fp32(case["gamma"]), fp32(case["alpha"] / 2)
        y = [fp32(old + fp32(eta * fp32(new - old))) for old, new in zip(theta, x)] if gradients else list(theta)
        # 4. Gossip: neighbours ascending.
        weights = {a_ + b_ - RANK: fp32(weight) for a_, b_, weight in edges if RANK in (a_, b_)}
        heard = self.peers.swap(edges, b"y" + array("f", y).tobytes())
        for j in weights:
            if not heard[j]:
                self.ended = {"did": "alone", "text": f"worker {j} has ended"}
                return self.ended
        acc = [0.0] * len(y)
        for j in sorted(weights):
            fresh = array("f", heard[j][1:])
            of_j = self.last_y.get(j, fresh) if MISTAKE == "stale" else fresh
            self.last_y[j] = fresh
            acc = [fp32(sum_ + fp32(weights[j] * fp32(mine - other))) for sum_, mine, other in zip(acc, y, of_j)]
        z = [fp32(mine - fp32(a * sum_)) for mine, sum_ in zip(y, acc)] if weights else y
        # 5. Momentum.
        moves = z if case["momentum"] == "gossiped" else y
        self.theta = z
        if gamma != 0.0:
            self.theta = [fp32(of_z + fp32(gamma * fp32(now - last))) for of_z, now, last in zip(z, moves, self.before)]
        if MISTAKE != "before":
            self.before = list(moves)
        self.m, self.v = m, v
        self.s += len(gradients)
        self.rounds += 1
        # 6. Halt.
        if not all(map(math.isfinite, self.theta)):
            self.ended = {"did": "halted", "text": f"theta is not finite after round {self.rounds}"}
            return self.ended
        return {"did": "round", "skipped": skipped}

    # Section 16: a file a worker.

    def save(self, folder):
        state = {"theta": self.theta, "before": self.before, "m": self.m, "v": self.v, "s": self.s, "rounds": self.rounds}
        if MISTAKE == "checkpoint":
            state["before"] = self.theta
        with open(os.path.join(folder, f"worker{RANK}.json"), "w", encoding="ascii") as file:
            json.dump(state, file)

    def restore(self, folder):
        old = []
        for rank in range(len(os.listdir(folder))):
            with open(os.path.join(folder, f"worker{rank}.json"), encoding="ascii") as file:
                old.append(json.load(file))
        if len(old) == RANKS:
            new = old[RANK]
        else:
            new = {"s": max(state["s"] for state in old), "rounds": old[0]["rounds"]}
            for what in ("theta", "before", "m", "v"):
                total = old[0][what]
                for state in old[1:]:
                    total = [fp32(sum_ + value) for sum_, value in zip(total, state[what])]
                new[what] = [fp32(sum_ / fp32(len(old))) for sum_ in total]
        self.theta, self.before, self.m, self.v = (new[what] for what in ("theta", "before", "m", "v"))
        self.s, self.rounds = new["s"], new["rounds"]


main()
