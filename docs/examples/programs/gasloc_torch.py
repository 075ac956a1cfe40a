#!/usr/bin/env python3
"""GASLoC over torch.distributed (gloo, messages between two ranks) as a program that the gate runs, a process a worker.

    build/release/bin/truestep check gasloc --program 'python3 docs/examples/programs/gasloc_torch.py' --workers 1,2,3 --cases 20
"""

import json
import math
import os
import sys

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MISTAKE = os.environ.get("MISTAKE", "")  # "sign" or "in_place": something for the gate to find


# --- The protocol of docs/program-protocol.md. ------------------------------------------------------------------------

def read_floats(path):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    return torch.frombuffer(data, dtype=torch.float32) if data else torch.zeros(0)


def write(path, tensor):
    with open(path, "wb") as file:
        file.write(tensor.contiguous().numpy().tobytes())


def answer(message, worker):
    do = message["do"]
    if do == "hello":
        return {"did": "hello", "protocol": 1, "name": "torch", "level": "exact",
                "shows": ["parameters", "before", "first_moment", "second_moment"],
                "left_out": {"restart": "this example saves no checkpoints"}}
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
    return {"did": "error", "text": "there is no message " + do}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["TRUESTEP_RENDEZVOUS"] + "/gloo", rank=RANK,
                            world_size=RANKS)
    worker = Worker()
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "end":
            break
        print(json.dumps({"id": message["id"], **answer(message, worker)}), flush=True)


# --- GASLoC: sections 12, 13 and 5 of docs/specification/. ------------------------------------------------------------

def fp32(value):
    return torch.tensor(value, dtype=torch.float32)


def power(base, exponent):
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


def root(values):
    """torch's fp32 root is not always IEEE's; that of a double, rounded, is."""
    return values.double().sqrt().float()


class Worker:
    def begin(self, case, parameters):
        self.case, self.theta, self.before = case, parameters, parameters.clone()
        self.m, self.v = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.s, self.rounds, self.ended = 0, 0, None

    def inner(self, x, m, v, s, g, learning_rate):
        """The s-th inner step of this worker's life."""
        case, inner = self.case, self.case["inner"]
        lr, decay = fp32(learning_rate), fp32(1.0 - learning_rate * case["weight_decay"])
        if inner == "sgd":
            return (x * decay) - (lr * g), m, v
        beta1, beta2, eps = case["beta1"], case["beta2"], fp32(case["epsilon"])
        b1, a1, b2, a2 = fp32(beta1), fp32(1.0 - beta1), fp32(beta2), fp32(1.0 - beta2)
        correction = "adam" if inner == "adamw" else case["bias_correction"]
        inv1 = fp32(1.0 if correction == "none" else 1.0 / (1.0 - power(beta1, s)))
        invs2 = fp32(1.0 / math.sqrt(1.0 - power(beta2, s)) if correction == "adam" else 1.0)
        new = (b1 * m) + (a1 * g)
        if inner == "adamw":
            second = v = (b2 * v) + (a2 * (g * g))
        else:
            q = m * inv1 if correction == "momentum" else m
            second = (b2 * (q * q)) + (a2 * (g * g))
        u = (new * inv1) / ((root(second) * invs2) + eps)
        return (x * decay) - (lr * u), new, v

    def swap(self, neighbours, y):
        """Every neighbour's y, with a flag in front: has it ended?"""
        mine = torch.cat([fp32([1.0 if self.ended else 0.0]), y])
        heard = {j: torch.empty_like(mine) for j in neighbours}
        works = [dist.irecv(heard[j], j) for j in neighbours] + [dist.isend(mine, j) for j in neighbours]
        for work in works:
            work.wait()
        return heard

    def round(self, gradients, learning_rates, edges):
        case, theta = self.case, self.theta
        weights = {i + j - RANK: fp32(weight) for i, j, weight in edges if RANK in (i, j)}
        if self.ended:
            self.swap(weights, theta)
            return self.ended
        skipped = not all(g.isfinite().all() for g in gradients)
        x, m, v, steps = theta, self.m, self.v, 0 if skipped else len(gradients)
        for h in range(steps):
            x, m, v = self.inner(x, m, v, self.s + h + 1, gradients[h], learning_rates[h])
        drift = theta - x if MISTAKE == "sign" else x - theta
        y = theta + (fp32(case["eta"]) * drift) if steps else theta
        heard = self.swap(weights, y)
        ended = [j for j in weights if heard[j][0] != 0]
        if ended:
            self.ended = {"did": "alone", "text": f"worker {ended[0]} has ended"}
            return self.ended
        acc, z = torch.zeros_like(y), y
        for j in sorted(weights):
            acc = acc + (weights[j] * ((z if MISTAKE == "in_place" else y) - heard[j][1:]))
            z = y - (fp32(case["alpha"] / 2) * acc)
        moves = z if case["momentum"] == "gossiped" else y
        self.theta = z + (fp32(case["gamma"]) * (moves - self.before)) if case["gamma"] != 0.0 else z
        self.before, self.m, self.v = moves, m, v
        self.s += steps
        self.rounds += 1
        if not self.theta.isfinite().all():
            self.ended = {"did": "halted", "text": f"theta is not finite after round {self.rounds}"}
            return self.ended
        return {"did": "round", "skipped": skipped}


main()
