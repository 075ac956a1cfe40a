#!/usr/bin/env python3
"""MAPL as a program that the gate runs, a process a stage. Standard library only.

The first half is the protocol of docs/program-protocol.md, and stays as it is when your boundary goes in; the second is
MAPL in plain Python. Its stages talk over sockets of their own, each with its neighbours alone; the stages' networks
are the gate's.

    build/release/bin/truestep check mapl --program 'python3 docs/examples/programs/mapl_plain.py' --cases 20 --workers 2,3
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
MISTAKE = os.environ.get("MISTAKE", "")  # "receiver", "stale", "sign" or "learned": something for the gate to find


# --- The protocol. ----------------------------------------------------------------------------------------------------

def read(path, kind="f"):
    values = array(kind)
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return list(values)


def write(path, values, kind="f"):
    with open(path, "wb") as file:
        file.write(array(kind, values).tobytes())


def answer(message, sides):
    """What is said to one message: a line with its id, and what was done."""
    do = message["do"]
    if do == "hello":
        return {"did": "hello", "protocol": 1, "name": "plain-python", "level": "exact", "knows": ["payload", "codewords"]}
    if do == "begin":
        kind = Sender if message["side"] == "sender" else Receiver
        sides[message["side"]] = kind(sides["peers"], message)
        return {"did": "begin"}
    side, into = sides[message["side"]], message.get("into", {})
    if do == "compress":
        made = side.compress(message["micro"], rows(read(message["activations"]), side.D), read(message["ids"], "I"))
        for what, path in into.items():
            write(path, made[what], "I" if what == "indices" else "f")
    elif do == "decompress":
        xhat, ids = side.decompress(message["micro"])
        write(into["activations"], flat(xhat))
        write(into["ids"], ids, "I")
    elif do == "return":
        write(into["dz"], flat(side.give_back(message["micro"], rows(read(message["gradient"]), side.D))))
    elif do == "gradient":
        write(into["gradient"], flat(side.take_back(message["micro"])))
    elif do == "end":
        return {"did": "end", "updated": side.end(message.get("rate"))}
    elif do == "anchor":
        side.E = rows(read(message["values"]), side.r)
    elif do == "view":
        for what, path in into.items():
            write(path, side.shown(what))
    else:
        return {"did": "error", "text": "there is no message " + do}
    return {"did": do}


def main():
    sides = {"peers": Peers()}
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "end" and "side" not in message:
            break
        print(json.dumps({"id": message["id"], **answer(message, sides)}), flush=True)


# --- Stages that talk: a socket for each two neighbours. ----------------------------------------------------------------

class Peers:
    """What is sent waits in the socket for whoever wants it; what is more than the system lets wait there keeps its sender waiting, too."""

    def __init__(self):
        self.sockets = {}
        door = socket.socket(socket.AF_UNIX)
        door.bind(self.path(RANK) + ".new")
        door.listen(1)
        os.rename(self.path(RANK) + ".new", self.path(RANK))  # who sees it can connect
        if RANK > 0:
            while not os.path.exists(self.path(RANK - 1)):
                time.sleep(0.002)
            self.sockets[RANK - 1] = socket.socket(socket.AF_UNIX)
            self.sockets[RANK - 1].connect(self.path(RANK - 1))
        if RANK + 1 < RANKS:
            self.sockets[RANK + 1] = door.accept()[0]
        for one in self.sockets.values():
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)

    @staticmethod
    def path(rank):
        return os.path.join(os.environ["TRUESTEP_RENDEZVOUS"], f"stage{rank}")

    def send(self, to, data):
        self.sockets[to].sendall(struct.pack("=q", len(data)) + data)

    def exactly(self, start, count):
        data = bytearray()
        while len(data) < count:
            part = self.sockets[start].recv(count - len(data))
            if not part:
                raise EOFError(f"stage {start} is gone")
            data += part
        return bytes(data)

    def receive(self, start):
        return self.exactly(start, struct.unpack("=q", self.exactly(start, 8))[0])


# --- MAPL: sections 22 to 24 of docs/specification/mapl.md. Sums in double, rounded once. -------------------------------

def fp32(value):
    try:
        return array("f", [value])[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def bf16(value):
    """8 significant bits, of two the even one: the upper half of an fp32."""
    bits = struct.unpack("=I", struct.pack("=f", fp32(value)))[0]
    return struct.unpack("=f", struct.pack("=I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0]


def rows(values, width):
    return [values[i:i + width] for i in range(0, len(values), width)] if width else []


def flat(matrix):
    return [value for row in matrix for value in row]


def turned(matrix):
    return [list(column) for column in zip(*matrix)]


def product(a, b):
    columns = turned(b)
    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]


def added(a, b, factor=1.0):
    return [[x + factor * y for x, y in zip(one, other)] for one, other in zip(a, b)]


def rounded(matrix, how=fp32):
    return [[how(value) for value in row] for row in matrix]


POLYNOMIALS = [(8.28721201814563, -23.595886519098837, 17.300387312530933), (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
               (3.9486908534822946, -2.908902115962949, 0.5518191394370137), (3.3184196573706015, -2.488488024314874, 0.51004894012372),
               (2.300652019954817, -1.6689039845747493, 0.4188073119525673), (1.891301407787398, -1.2679958271945868, 0.37680408948524835),
               (1.8750014808534479, -1.2500016453999487, 0.3750001645474248)]
ENDLESS = (1.875, -1.25, 0.375)


def iterated(x, c0, c1, c2):
    s = product(turned(x), x)
    inner = added([[c1 * a for a in row] for row in s], product(s, s), c2)
    return added([[c0 * a for a in row] for row in x], product(x, inner))


def polar(m, iterations):
    norm = 1.01 * math.sqrt(sum(value * value for value in flat(m))) + 1e-7
    x = [[value / norm for value in row] for row in m]
    for t in range(iterations):
        c0, c1, c2 = POLYNOMIALS[t] if t < len(POLYNOMIALS) else ENDLESS
        scale = 1.01 if t < len(POLYNOMIALS) else 1.0
        x = iterated(x, c0 / scale, c1 / scale ** 3, c2 / scale ** 5)
    return x


def tangent(a, m):
    inner = product(turned(a), m)
    return added(m, product(a, [[(inner[i][j] + inner[j][i]) / 2 for j in range(len(inner))] for i in range(len(inner))]), -1.0)


def summed(values):
    total = 0.0
    for value in values:
        total = fp32(total + value)
    return total


def nearest(v, book):
    """Of those that are as near the lowest; each operation rounded, for that decides which."""
    distances = [summed(fp32(fp32(a - b) ** 2) for a, b in zip(v, values)) for values in book]
    return distances.index(min(distances))


MASK = (1 << 64) - 1


def mix64(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


class Side:
    awaited = False

    def __init__(self, peers, case):
        self.peers, self.case, self.peer = peers, case, case["peer"]
        self.D, self.r, self.K = case["width"], case["subspace_rank"], case["codewords"]
        self.A = rows(read(case["subspace"]), self.r)
        self.anchored = case["anchors"] != "none"
        self.E = rows(read(case["anchor"]), self.r) if self.anchored else []
        self.P = rows(read(case["rows"]), self.D) if self.anchored else []
        self.sent = bf16 if case["payload"] == "bf16" else fp32
        self.gone = case["micro_batches"]
        if self.K:
            self.C = self.books(read(case["codebooks"]))
        self.clear()

    def clear(self):
        self.part = [[0.0] * self.r for _ in range(self.D)]
        self.dE = [[0.0] * self.r for _ in self.E]
        self.under_way = {}

    def books(self, values):
        """By group and round, one behind the other, each K codewords."""
        width = self.r // self.case["groups"]
        return [rows(book, width) for book in rows(values, self.K * width)]

    def of_anchor(self, ids):
        return product([self.E[token] for token in ids], self.P)

    def train(self, ids, gradient, sign):
        if self.anchored:
            for token, row in zip(ids, product(gradient, turned(self.P))):
                self.dE[token] = [old + sign * new for old, new in zip(self.dE[token], row)]

    def turn(self):
        """The codewords that go with this micro-batch, by their place in the order of this turn."""
        case = self.case
        turn, place = divmod(self.gone, case["subsets"])
        start = mix64(case["seed"] ^ mix64(turn))
        order = sorted(range(self.K), key=lambda j: mix64((start + j * 0x9E3779B97F4A7C15) & MASK))
        share = self.K // case["subsets"]
        return order[place * share:(place + 1) * share]

    def decoded(self, indices):
        """The sum of the chosen codewords, in the order of the rounds."""
        groups, rounds = self.case["groups"], self.case["rounds"]
        z = []
        for chosen in rows(indices, groups * rounds):
            words = [self.C[book][word] for book, word in enumerate(chosen)]
            z.append([summed(column) for of_group in rows(words, rounds) for column in zip(*of_group)])
        return z

    def put(self, codewords):
        """What has come of L is of C from the next micro-batch on."""
        width, turn = self.r // self.case["groups"], self.turn()
        for book, words in enumerate(rows(codewords, len(turn) * width)):
            for word, values in zip(turn, rows(words, width)):
                self.C[book][word] = values
        self.gone += 1

    def settled(self):
        """The receiver's new A is waited for when it is needed."""
        if self.awaited:
            heard = self.heard(self.r)
            self.A = self.A if MISTAKE == "stale" else heard[:self.D]
            self.dE_made = heard[self.D:] if self.case["anchors"] == "shared" else self.dE_made
            self.awaited = False

    def shown(self, what):
        self.settled()
        return {"subspace": lambda: flat(self.A), "anchor": lambda: flat(self.E), "anchor_gradient": lambda: flat(self.dE_made),
                "codebooks": lambda: flat(flat(self.C)), "moment": lambda: flat(self.m), "learned": lambda: flat(flat(self.L)),
                "subspace_gradient": lambda: flat(self.g)}[what]()

    def say(self, *matrices):
        self.peers.send(self.peer, b"".join(array("f", flat(rounded(matrix))).tobytes() for matrix in matrices))

    def heard(self, width):
        return rows(list(array("f", self.peers.receive(self.peer))), width)


class Sender(Side):
    def __init__(self, peers, case):
        super().__init__(peers, case)
        self.m = rows(read(case["moment"]), self.r)
        if self.K:
            self.L = self.books(read(case["learned"]))

    def compress(self, micro, x, ids):
        q = added(x, self.of_anchor(ids), -1.0) if self.anchored and x else x
        z = rounded(product(q, self.A), fp32 if self.K else self.sent)
        self.under_way[micro] = q, ids
        if not self.K:
            self.peers.send(self.peer, struct.pack("=q", len(ids)) + array("I", ids).tobytes() + array("f", flat(z)).tobytes())
            return {"z": flat(z)}
        indices = self.encoded(z)
        codewords = [value for book in self.L for word in self.turn() for value in book[word]]
        self.peers.send(self.peer, struct.pack("=q", len(ids)) + array("I", ids + indices).tobytes() + array("f", codewords).tobytes())
        self.put(codewords)
        return {"indices": indices, "codewords": codewords}

    def encoded(self, z):
        """The nearest codewords of C; L learns from what each round was given."""
        groups, rounds, rho = self.case["groups"], self.case["rounds"], fp32(self.case["decay"])
        rest = fp32(1.0 - self.case["decay"])
        chosen = [[0] * (groups * rounds) for _ in z]
        for group in range(groups):
            width = self.r // groups
            left = [row[group * width:(group + 1) * width] for row in z]
            for step in range(rounds):
                book = group * rounds + step
                for token, v in enumerate(left):
                    chosen[token][book] = nearest(v, (self.L if MISTAKE == "learned" else self.C)[book])
                for word in sorted({of[book] for of in chosen} - {0}):
                    those = [v for of, v in zip(chosen, left) if of[book] == word]
                    mean = [fp32(summed(values) / len(those)) for values in zip(*those)]
                    self.L[book][word] = [fp32(fp32(rho * old) + fp32(rest * new)) for old, new in zip(self.L[book][word], mean)]
                left = [[fp32(a - b) for a, b in zip(v, self.C[book][of[book]])] for v, of in zip(left, chosen)]
        return flat(chosen)

    def take_back(self, micro):
        q, ids = self.under_way.pop(micro)
        dz = self.heard(self.r)
        dx = rounded(product(dz, turned(self.A)))
        self.part = added(self.part, product(turned(q), dz)) if q else self.part
        self.train(ids, dx, 1.0 if MISTAKE == "sign" else -1.0)
        return dx

    def end(self, rate):
        heard = self.heard(self.r)
        self.g = rounded(heard[:self.D] if MISTAKE == "receiver" else added(rounded(self.part), heard[:self.D]))
        self.dE_made = rounded(self.dE)
        if self.case["anchors"] == "shared":
            self.dE_made = rounded(added(self.dE_made, heard[self.D:]))
        updated = self.follow(rate)
        self.say(self.A, self.dE_made if self.case["anchors"] == "shared" else [])
        self.clear()
        return updated

    def follow(self, rate):
        beta, case = self.case["beta"], self.case
        first = case["order"] == "project_first"
        g = tangent(self.A, self.g) if first else self.g
        m = rounded([[beta * old + (1.0 - beta) * new for old, new in zip(a, b)] for a, b in zip(self.m, g)])
        d = polar(m if first else tangent(self.A, m), case["direction_iterations"])
        made = added(self.A, d, -rate)
        for _ in range(case["retraction_iterations"]):
            made = iterated(made, *ENDLESS)
        made = rounded(made)
        updated = all(map(math.isfinite, flat(self.g) + flat(m) + flat(made)))
        if updated:
            self.m, self.A = m, made
        return updated


class Receiver(Side):
    def decompress(self, micro):
        self.settled()
        data = self.peers.receive(self.peer)
        count = struct.unpack_from("=q", data)[0]
        numbers = array("I", data[8:8 + 4 * count * (1 + (self.case["groups"] * self.case["rounds"] if self.K else 0))])
        values = list(array("f", data[8 + 4 * len(numbers):]))
        ids = list(numbers[:count])
        z = self.decoded(list(numbers[count:])) if self.K else rows(values, self.r)
        xhat = product(z, turned(self.A))
        xhat = rounded(added(xhat, self.of_anchor(ids)) if self.anchored and z else xhat)
        if self.K:
            self.put(values)
        self.under_way[micro] = z, ids
        return xhat, ids

    def give_back(self, micro, g):
        z, ids = self.under_way.pop(micro)
        dz = rounded(product(g, self.A), self.sent)
        self.say(dz)
        self.part = added(self.part, product(turned(g), z)) if z else self.part
        self.train(ids, g, 1.0)
        return dz

    def end(self, _):
        self.dE_made = rounded(self.dE)
        self.say(self.part, self.dE_made if self.case["anchors"] == "shared" else [])
        self.clear()
        self.awaited = True
        return True


main()
