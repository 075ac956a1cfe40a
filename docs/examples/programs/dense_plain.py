#!/usr/bin/env python3
"""SGD, Adam, AdamW and Muon as a program that the gate runs, a process a rank. Standard library only.

The first half is the protocol of docs/program-protocol.md, and stays as it is when your optimizer goes in; the second is
the rules in plain Python. Its ranks talk over sockets of their own: the gate sees nothing of that.

    build/release/bin/truestep check dense --program 'python3 docs/examples/programs/dense_plain.py' --cases 20 --workers 1,2,3
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
MISTAKE = os.environ.get("MISTAKE", "")  # "decay", "tree", "momentum" or "checkpoint": something for the gate to find


# --- The protocol. ----------------------------------------------------------------------------------------------------

def read_floats(path):
    values = array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return list(values)


def write(path, values):
    with open(path, "wb") as file:
        file.write(array("f", values).tobytes())


def answer(message, optimizer):
    """The answer to one message, without its id."""
    do = message["do"]
    if do == "hello":
        return {"did": "hello", "protocol": 1, "name": "plain-python", "level": "exact",
                "shows": ["parameters", "copies", "first_moment", "second_moment"], "knows": ["starts"], "left_out": {}}
    if do == "case":
        return optimizer.begin(message, read_floats(message["parameters"]))
    if do == "step":
        return optimizer.step([read_floats(path) for path in message["gradients"]], message["learning_rates"])
    if do == "view":
        shown = {"parameters": optimizer.w, "first_moment": optimizer.m, "second_moment": optimizer.v,
                 "copies": [bf16(value) for value in optimizer.w]}
        for what, path in message["into"].items():
            write(path, shown[what])
        return {"did": "view", "step": optimizer.t}
    if do == "save":
        optimizer.save(message["folder"])
        return {"did": "save"}
    if do == "restore":
        optimizer.restore(message["folder"])
        return {"did": "restore"}
    return {"did": "error", "text": "there is no message " + do}


def main():
    optimizer = Dense()
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "end":
            break
        print(json.dumps({"id": message["id"], **answer(message, optimizer)}), flush=True)


# --- Ranks that talk: everybody tells rank 0, which tells everybody. --------------------------------------------------

class Ranks:
    def __init__(self):
        path = os.path.join(os.environ["TRUESTEP_RENDEZVOUS"], "hub")
        self.others = []
        if RANK == 0:
            hub = socket.socket(socket.AF_UNIX)
            hub.bind(path + ".new")
            hub.listen(RANKS)
            os.rename(path + ".new", path)  # who sees it can connect
            accepted = [hub.accept()[0] for _ in range(RANKS - 1)]
            self.others = sorted(accepted, key=lambda other: self.receive(other))
        else:
            while not os.path.exists(path):
                time.sleep(0.002)
            hub = socket.socket(socket.AF_UNIX)
            hub.connect(path)
            self.others = [hub]
            self.send(hub, struct.pack(">i", RANK))

    @staticmethod
    def send(to, data):
        to.sendall(struct.pack("=q", len(data)) + data)

    @staticmethod
    def receive(other):
        def exactly(count):
            data = bytearray()
            while len(data) < count:
                part = other.recv(count - len(data))
                if not part:
                    raise EOFError("another rank is gone")
                data += part
            return bytes(data)
        return exactly(struct.unpack("=q", exactly(8))[0])

    def all_gather(self, data):
        """Every rank's bytes, in the order of the ranks, on every rank."""
        if RANK == 0:
            all_data = [data] + [self.receive(other) for other in self.others]
            for other in self.others:
                for part in all_data:
                    self.send(other, part)
            return all_data
        self.send(self.others[0], data)
        return [self.receive(self.others[0]) for _ in range(RANKS)]


# --- Arithmetic: section 5 of docs/specification/. --------------------------------------------------------------------

def fp32(value):
    """Rounded once. Sums, products, quotients and roots of two fp32 numbers may be made in double first."""
    return array("f", [value])[0]


def bf16(value):
    """Eight significant bits and the exponents of fp32, nearest, ties to even."""
    if value == 0.0 or not math.isfinite(value):
        return value
    quantum = math.ldexp(1.0, max(math.frexp(value)[1] - 8, -133))
    return fp32(math.copysign(round(value / quantum) * quantum, value))


def plus(a, b):
    return [fp32(x + y) for x, y in zip(a, b)]


def times(factor, values):
    return [fp32(factor * value) for value in values]


def power(base, exponent):
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def in_tree(level):
    """Sum i of the next level is that of 2i and 2i + 1; an odd last one moves up."""
    while len(level) > 1:
        odd = [level[-1]] if len(level) % 2 else []
        level = [plus(left, right) for left, right in zip(level[0::2], level[1::2])] + odd
    return level[0]


def in_order(all_values):
    total = all_values[0]
    for values in all_values[1:]:
        total = plus(total, values)
    return total


def norm(tensors):
    """Blocks of 4096 values of a tensor, in each 256 lanes, which are added pairwise; the blocks' sums as a tree."""
    sums = []
    for values in tensors:
        for begin in range(0, len(values), 4096):
            lanes = [0.0] * 256
            for i, value in enumerate(values[begin:begin + 4096]):
                lanes[i % 256] += value * value
            width = 128
            while width:
                for lane in range(width):
                    lanes[lane] += lanes[lane + width]
                width //= 2
            sums.append(lanes[0])
    while len(sums) > 1:
        odd = [sums.pop()] if len(sums) % 2 else []
        sums = [left + right for left, right in zip(sums[0::2], sums[1::2])] + odd
    return math.sqrt(sums[0])


# --- Muon's orthogonalization: section 37, of matrices that are lists of rows. ----------------------------------------

def product(a, b):
    """a b^T, each sum from 0 in ascending order."""
    def dot(row, other):
        total = 0.0
        for x, y in zip(row, other):
            total = fp32(total + fp32(x * y))
        return total
    return [[dot(row, other) for other in b] for row in a]


def transposed(matrix):
    return [list(column) for column in zip(*matrix)]


POLAR_EXPRESS = [(8.28721201814563, -23.595886519098837, 17.300387312530933),
                 (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
                 (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
                 (3.3184196573706015, -2.488488024314874, 0.51004894012372),
                 (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
                 (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
                 (1.8750014808534479, -1.2500016453999487, 0.3750001645474248)]


def polynomial(group, t):
    if group["orthogonalization"] == "newton_schulz":
        return group["a"], group["b"], group["c"]
    if t >= len(POLAR_EXPRESS):
        return 1.875, -1.25, 0.375
    a, b, c = POLAR_EXPRESS[t]
    return a / 1.01, b / 1.01 ** 3, c / 1.01 ** 5


def orthogonalized(group, u):
    if len(u) > len(u[0]):
        return transposed(orthogonalized(group, transposed(u)))
    rounds = bf16 if group["iteration"] == "bf16" else lambda value: value

    def kept(matrix):
        return [[rounds(value) for value in row] for row in matrix]

    x = kept(u)
    squares = 0.0
    for row in x:
        for value in row:
            squares += value * value
    newton_schulz = group["orthogonalization"] == "newton_schulz"
    size = math.sqrt(squares)
    scale = rounds(max(size, group["epsilon"]) if newton_schulz else 1.01 * size + group["epsilon"])
    x = kept([[fp32(value / scale) for value in row] for row in x])
    for t in range(group["iterations"]):
        a, b, c = map(fp32, polynomial(group, t))
        g = kept(product(x, x))
        inner = kept([plus(times(b, row), times(c, square)) for row, square in zip(g, product(g, transposed(g)))])
        x = kept([plus(times(a, row), more) for row, more in zip(x, product(inner, transposed(x)))])
    return x


def rate_factor(scale, rows, columns):
    return {"original": math.sqrt(max(1.0, rows / columns)), "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns)),
            "spectral_unclamped": math.sqrt(rows / columns), "none": 1.0}[scale]


# --- One step: sections 35 and 36. ------------------------------------------------------------------------------------

class Dense:
    def __init__(self):
        self.ranks = Ranks()

    def begin(self, case, parameters):
        self.case = case
        self.t = 0                          # steps taken
        self.halted = False
        self.w = parameters                 # the fp32 masters; all of the state is the same on all ranks
        self.m = [0.0] * case["size"]
        self.v = [0.0] * case["size"]
        self.tensors = []                   # begin, end, shape and the number of its group
        end = 0
        for tensor in case["tensors"]:
            begin, end = end, end + math.prod(tensor["shape"])
            group = next(i for i, group in enumerate(case["groups"]) if tensor["role"] in group["roles"])
            self.tensors.append((begin, end, tensor["shape"], group))
        # Begun is only with the same on all ranks.
        common = {key: value for key, value in case.items() if key not in ("id", "rank", "parameters")}
        given = self.ranks.all_gather(json.dumps(common).encode() + array("f", parameters).tobytes())
        for rank, other in enumerate(given):
            if other != given[0]:
                return {"did": "refused", "text": f"rank {rank} was given another case than rank 0"}
        return {"did": "case"}

    def mean(self, gradients):
        """Section 35.2. Every rank gets all gradients, and adds them in the order that the case names."""
        size = self.case["size"]
        flat = array("f", [value for gradient in gradients for value in gradient])
        gathered = [array("f", data).tolist() for data in self.ranks.all_gather(flat.tobytes())]
        of_ranks = [[one[begin:begin + size] for begin in range(0, len(one), size)] for one in gathered]
        every = [gradient for of_rank in of_ranks for gradient in of_rank]
        if self.case["order"] == "tree" and MISTAKE != "tree":
            total = in_tree(every)
        else:
            total = in_order([in_order(of_rank) for of_rank in of_ranks])
        divisor = len(every) if self.case["accumulation"] == "mean" else RANKS
        return [fp32(value / divisor) for value in total]

    def step(self, gradients, learning_rates):
        if self.halted:
            return {"did": "halted", "text": "a parameter or moment is not finite; restore a checkpoint"}
        good = all(abs(value) <= 2.0 ** 56 for gradient in gradients for value in gradient)
        if b"bad" in self.ranks.all_gather(b"good" if good else b"bad"):
            return {"did": "refused"}
        ghat = self.mean(gradients)
        clip = self.case["clip_norm"]
        if clip > 0.0:
            total = norm([ghat[begin:end] for begin, end, _, _ in self.tensors])
            ghat = times(fp32(min(1.0, clip / (total + 1e-6))), ghat)
        self.t += 1
        for begin, end, shape, number in self.tensors:
            group, rate = self.case["groups"][number], learning_rates[number]
            parts = [values[begin:end] for values in (ghat, self.w, self.m, self.v)]
            rule = {"sgd": self.sgd, "adam": self.adam, "adamw": self.adam, "muon": self.muon}[group["rule"]]
            self.w[begin:end], self.m[begin:end], self.v[begin:end] = rule(group, rate, shape, *parts)
        self.halted = not all(map(math.isfinite, self.w + self.m))
        if self.halted:
            return {"did": "halted", "text": f"a parameter or moment is not finite after step {self.t}"}
        return {"did": "taken"}

    def sgd(self, group, rate, _, g, w, m, v):
        wd, mu, rest, lr = map(fp32, (group["weight_decay"], group["momentum"], 1.0 - group["dampening"], rate))
        if group["weight_decay"] > 0.0:
            g = plus(g, times(wd, w))
        u = g
        if group["momentum"] > 0.0:
            first = self.t == 1 and MISTAKE != "momentum"
            m = g if first else plus(times(mu, m), times(rest, g))
            u = plus(g, times(mu, m)) if group["nesterov"] else m
        return [fp32(x - fp32(lr * y)) for x, y in zip(w, u)], m, v

    def adam(self, group, rate, _, g, w, m, v):
        beta1, beta2 = group["beta1"], group["beta2"]
        b1, a1, b2, a2 = map(fp32, (beta1, 1.0 - beta1, beta2, 1.0 - beta2))
        eps, lr, wd, decay = map(fp32, (group["epsilon"], rate, group["weight_decay"], 1.0 - rate * group["weight_decay"]))
        inv1 = fp32(1.0 / (1.0 - power(beta1, self.t)))
        invs2 = fp32(1.0 / math.sqrt(1.0 - power(beta2, self.t)))
        decoupled = group["rule"] == "adamw" and MISTAKE != "decay"
        if not decoupled and group["weight_decay"] > 0.0:
            g = plus(g, times(wd, w))
        m = plus(times(b1, m), times(a1, g))
        v = plus(times(b2, v), times(a2, [fp32(value * value) for value in g]))
        roots = [fp32(math.sqrt(value)) for value in v]
        if group["epsilon_place"] == "corrected":
            below = [fp32(fp32(root * invs2) + eps) for root in roots]
        else:
            below = [fp32(fp32(root + eps) * invs2) for root in roots]
        u = [fp32(fp32(x * inv1) / y) for x, y in zip(m, below)]
        if decoupled:
            w = times(decay, w)
        return [fp32(x - fp32(lr * y)) for x, y in zip(w, u)], m, v

    def muon(self, group, rate, shape, g, w, m, v):
        mu, rest, decay = map(fp32, (group["momentum"], 1.0 - group["momentum"], 1.0 - rate * group["weight_decay"]))
        rows, columns = shape
        m = plus(times(mu, m), times(rest, g))
        u = plus(times(mu, m), times(rest, g)) if group["nesterov"] else m
        o = orthogonalized(group, [u[begin:begin + columns] for begin in range(0, rows * columns, columns)])
        by = fp32(rate * rate_factor(group["scale"], rows, columns))
        flat = [value for row in o for value in row]
        return [fp32(fp32(x * decay) - fp32(by * y)) for x, y in zip(w, flat)], m, v

    # Section 39: one file, which any number of ranks reads.

    def save(self, folder):
        if RANK == 0:
            with open(os.path.join(folder, "state.json"), "w", encoding="ascii") as file:
                json.dump({"w": self.w, "m": self.m, "v": self.v, "t": self.t}, file)

    def restore(self, folder):
        with open(os.path.join(folder, "state.json"), encoding="ascii") as file:
            state = json.load(file)
        self.w, self.m, self.v = state["w"], state["m"], state["v"]
        self.t = 0 if MISTAKE == "checkpoint" else state["t"]
        self.halted = False


main()
