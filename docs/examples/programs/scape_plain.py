#!/usr/bin/env python3
"""SCAPE as a program that the gate runs, a process a rank. Standard library only.

The first half is the protocol of docs/program-protocol.md, and stays as it is when your optimizer goes in; the second is
SCAPE in plain Python. Its ranks talk over sockets of their own: the gate sees nothing of that.

    build/release/bin/truestep check --program 'python3 docs/examples/programs/scape_plain.py' --cases 20 --workers 1,2,3 --tensors a:13,b:5:dense
"""

import json
import math
import os
import socket
import struct
import sys
import time
import zlib
from array import array

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MISTAKE = os.environ.get("MISTAKE", "")  # "residual", "order" or "damage": something for the gate to find


# --- The protocol. ----------------------------------------------------------------------------------------------------

def read_floats(path):
    values = array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return list(values)


def write(path, values):
    with open(path, "wb") as file:
        file.write(values)


def bits_of(mask):
    """Bit i is (byte i/8 >> i%8) & 1; none is set beyond the last coordinate."""
    packed = bytearray((len(mask) + 7) // 8)
    for i, selected in enumerate(mask):
        packed[i // 8] |= selected << i % 8
    return bytes(packed)


def answer(message, optimizer):
    """What is said to one message: a line with its id, and what was done."""
    do = message["do"]
    if do == "hello":
        return {"did": "hello", "protocol": 1, "name": "plain-python", "level": "exact",
                "shows": ["parameters", "moment", "residual", "mask", "next_mask"], "knows": ["norm", "groups", "damage", "starts"], "left_out": {}}
    if do == "case":
        return optimizer.begin(message, read_floats(message["parameters"]))
    if do == "step":
        return optimizer.step(read_floats(message["gradient"]), message["learning_rate"], message["next_density"])
    if do == "view":
        shown = {"parameters": lambda: array("f", optimizer.w).tobytes(),
                 "moment": lambda: array("f", optimizer.m).tobytes(),
                 "residual": lambda: array("f", optimizer.e).tobytes(),
                 "mask": lambda: bits_of(optimizer.mask),
                 "next_mask": lambda: bits_of(optimizer.next_mask or optimizer.mask)}
        for what, path in message["into"].items():
            write(path, shown[what]())
        return {"did": "view", "step": optimizer.t}
    if do == "save":
        optimizer.save(message["folder"])
        return {"did": "save"}
    if do == "restore":
        return optimizer.restore(message["folder"])
    return {"did": "error", "text": "there is no message " + do}


def main():
    optimizer = Scape()
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


# --- SCAPE: sections 4, 5 and 7 of docs/specification/. ---------------------------------------------------------------

def checked(data):
    return struct.pack("=I", zlib.crc32(data)) + data


def read_checked(path):
    with open(path, "rb") as file:
        data = file.read()
    if checked(data[4:]) != data and MISTAKE != "damage":
        raise ValueError(path + " is damaged")
    return data[4:]


def fp32(value):
    """Rounded once. Sums, products, quotients and roots of two fp32 numbers may be made in double first."""
    return array("f", [value])[0]


def added(values):
    """In fp32, one after another."""
    total = values[0]
    for value in values[1:]:
        total = fp32(total + value)
    return total


def power(base, exponent):
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def norm(values, version):
    """Section 5: blocks of 4096 values, in each 256 lanes, which are added pairwise; the blocks' sums as a tree."""
    sums = []
    for begin in range(0, len(values), 4096):
        block = values[begin:begin + 4096]
        lanes = [0.0] * 256
        for i, value in enumerate(block):
            lanes[i % 256] += value * value
        width = 128
        while width:
            for lane in range(width):
                lanes[lane] += lanes[lane + width]
            width //= 2
        sums.append(lanes[0])
    while version == 2 and len(sums) > 1:
        odd = [sums.pop()] if len(sums) % 2 else []
        sums = [left + right for left, right in zip(sums[0::2], sums[1::2])] + odd
    total = 0.0
    for one in sums:  # in version 1 one after another
        total += one
    return math.sqrt(total)


class Scape:
    def __init__(self):
        self.ranks = Ranks()

    def begin(self, case, parameters):
        self.case = case
        self.size = case["size"]
        self.t = 0                         # steps taken
        self.halted = False
        self.w = parameters                # the same on all ranks
        self.m = [0.0] * self.size         # the same on all ranks
        self.e = [0.0] * self.size         # this rank's own
        self.mask = [False] * self.size    # S_t
        self.next_mask = None              # S_{t+1}; none before the first step
        # Section 8.14: begun is only with the same on all ranks.
        common = {key: value for key, value in case.items() if key not in ("id", "rank", "parameters")}
        given = self.ranks.all_gather(json.dumps(common).encode() + array("f", parameters).tobytes())
        if MISTAKE == "starts":
            return {"did": "case"}
        if any(other != given[0] for other in given):
            return {"did": "refused", "text": "the ranks were given different cases"}
        if not all(map(math.isfinite, parameters)):
            return {"did": "refused", "text": "a parameter is not finite"}
        return {"did": "case"}

    def refusal(self, g):
        """Section 4.1: the lowest rank's lowest index is named, by all."""
        bad = next((i for i, x in enumerate(g) if not abs(x) <= 2.0 ** 56), -1)
        for rank, data in enumerate(self.ranks.all_gather(struct.pack("=q", bad))):
            index = struct.unpack("=q", data)[0]
            if index >= 0:
                return {"did": "refused", "rank": rank, "index": index}
        return None

    def make_mask(self, c, density):
        """Owners select in their segments; all get all of it."""
        mine = [False] * self.size
        for segment in self.case["segments"]:
            if segment["owner"] != RANK:
                continue
            begin, end = segment["begin"], segment["end"]
            n = end - begin
            k = n if segment["always_dense"] else min(n, max(1, math.floor(density * n)))
            for i in sorted(range(begin, end), key=lambda i: (-abs(c[i]), i))[:k]:
                mine[i] = True
        masks = self.ranks.all_gather(bytes(mine))
        return [any(of_one) for of_one in zip(*masks)]

    def step(self, g, learning_rate, next_density):
        if self.halted:
            return {"did": "halted", "text": "w or m is no number; restore a checkpoint"}
        refused = self.refusal(g)
        if refused:
            return refused
        case, t, m, w = self.case, self.t + 1, self.m, self.w
        beta1, beta2 = case["beta1"], case["beta2"]
        b1, a1, b2, a2 = fp32(beta1), fp32(1.0 - beta1), fp32(beta2), fp32(1.0 - beta2)
        lr, eps, decay = fp32(learning_rate), fp32(case["epsilon"]), fp32(1.0 - learning_rate * case["weight_decay"])
        inv1 = invs2 = 1.0
        if case["bias_correction"] != "none":
            inv1 = fp32(1.0 / (1.0 - power(beta1, t)))
        if case["bias_correction"] == "adam":
            invs2 = fp32(1.0 / math.sqrt(1.0 - power(beta2, t)))

        # 2. Local.   3. The next mask; the first one at once.
        c = [fp32(fp32(fp32(b1 * m[i]) + fp32(a1 * g[i])) + self.e[i]) for i in range(self.size)]
        mask = self.next_mask
        if mask is None:
            mask = [True] * self.size if case["density"] >= 1.0 else self.make_mask(c, case["density"])
        next_mask = self.make_mask(c, next_density)
        # 4. Exchange: the mean, added in the order of the ranks.   5. Reconstruction.
        on = [i for i in range(self.size) if mask[i]]
        parts = [array("f", data) for data in self.ranks.all_gather(array("f", [c[i] for i in on]).tobytes())]
        if MISTAKE == "order":
            parts.reverse()
        M, ghat = {}, {}
        for at, i in enumerate(on):
            values = [part[at] for part in parts]
            for size in case["groups"]:  # which are added before they are added to each other
                values.append(added(values[:size]))
                del values[:size]
            total = added(values)
            M[i] = fp32(total / fp32(RANKS))
            ghat[i] = fp32(fp32(M[i] - fp32(b1 * m[i])) / a1)
        # 6. Residual.
        self.e = [0.0 if mask[i] and MISTAKE != "residual" else c[i] for i in range(self.size)]
        # 7. Clip.
        if case["clip_norm"] > 0.0:
            s = fp32(min(1.0, case["clip_norm"] / (norm([ghat[i] for i in on], case["norm"]) + 1e-6)))
            for i in on:
                ghat[i] = fp32(ghat[i] * s)
                M[i] = fp32(fp32(b1 * m[i]) + fp32(a1 * ghat[i]))
        # 8. Update.
        for i in range(self.size):
            w[i] = fp32(w[i] * decay)
        for i in on:
            g2 = fp32(a2 * fp32(ghat[i] * ghat[i]))
            q = fp32(m[i] * inv1) if case["bias_correction"] == "momentum" else m[i]
            v = fp32(fp32(b2 * fp32(q * q)) + g2)
            u = fp32(fp32(M[i] * inv1) / fp32(fp32(fp32(math.sqrt(v)) * invs2) + eps))
            w[i] = fp32(w[i] - fp32(lr * u))
        self.m = [M.get(i, 0.0) for i in range(self.size)]
        self.mask, self.next_mask, self.t = mask, next_mask, t
        self.halted = not all(map(math.isfinite, w)) or not all(map(math.isfinite, self.m))
        if self.halted:
            return {"did": "halted", "text": f"w or m is not finite in step {t}"}
        return {"did": "taken"}

    # Section 7: a file a rank, and one of what is the same on all, each with a checksum before it.

    def save(self, folder):
        write(os.path.join(folder, f"rank{RANK}"), checked(array("f", self.e).tobytes()))
        if RANK == 0:
            state = {"t": self.t, "ranks": RANKS, "w": self.w, "m": self.m, "next_mask": self.next_mask,
                     "halted": self.halted}
            write(os.path.join(folder, "common"), checked(json.dumps(state).encode()))

    def restore(self, folder):
        """Of what is damaged, for any rank, nothing is taken by any."""
        damage, state, old = b"", {}, []
        try:
            state = json.loads(read_checked(os.path.join(folder, "common")))
            old = [array("f", read_checked(os.path.join(folder, f"rank{rank}"))) for rank in range(state["ranks"])]
        except ValueError as error:
            damage = str(error).encode()
        damages = [text for text in self.ranks.all_gather(damage) if text]
        if damages:
            return {"did": "refused", "text": damages[0].decode()}
        self.t, self.w, self.m, self.halted = state["t"], state["w"], state["m"], state["halted"]
        self.next_mask = state["next_mask"]
        if state["ranks"] == RANKS:
            self.e = list(old[RANK])
            return {"did": "restore"}
        for i in range(self.size):
            total = old[0][i]
            for other in old[1:]:
                total = fp32(total + other[i])
            self.e[i] = fp32(total / fp32(len(old)))
        return {"did": "restore"}


main()
