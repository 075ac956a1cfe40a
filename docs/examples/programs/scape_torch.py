#!/usr/bin/env python3
"""SCAPE over torch.distributed (gloo) as a program that the gate runs, a process a rank.

    build/release/bin/truestep check --program 'python3 docs/examples/programs/scape_torch.py' --workers 1,2,3 --cases 20

EXCHANGE=all_reduce adds with the library's own all-reduce: another order of the sum, so that it claims REL, not EXACT.
"""

import json
import math
import os
import sys

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ALL_REDUCE = os.environ.get("EXCHANGE") == "all_reduce"
MISTAKE = os.environ.get("MISTAKE", "")  # "residual" or "delay": something for the gate to find


# --- The protocol of docs/program-protocol.md. ------------------------------------------------------------------------

def read_floats(path):
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32)


def write(path, tensor):
    with open(path, "wb") as file:
        file.write(tensor.contiguous().numpy().tobytes())


def bits_of(mask):
    """Bit i is (byte i/8 >> i%8) & 1; none is set beyond the last coordinate."""
    padded = torch.nn.functional.pad(mask.to(torch.uint8), (0, -len(mask) % 8)).view(-1, 8)
    return (padded << torch.arange(8, dtype=torch.uint8)).sum(dim=1).to(torch.uint8)


def answer(message, optimizer):
    do = message["do"]
    if do == "hello":
        return {"did": "hello", "protocol": 1, "name": "torch", "level": "rel" if ALL_REDUCE else "exact",
                "shows": ["parameters", "moment", "residual", "mask", "next_mask"],
                "left_out": {"restart": "this example saves no checkpoints"}}
    if do == "case":
        optimizer.begin(message, read_floats(message["parameters"]))
        return {"did": "case"}
    if do == "step":
        return optimizer.step(read_floats(message["gradient"]), message["learning_rate"], message["next_density"])
    if do == "view":
        for what, path in message["into"].items():
            shown = {"parameters": optimizer.w, "moment": optimizer.m, "residual": optimizer.e,
                     "mask": optimizer.mask, "next_mask": optimizer.next_mask}[what]
            write(path, bits_of(shown) if "mask" in what else shown)
        return {"did": "view", "step": optimizer.t}
    return {"did": "error", "text": "there is no message " + do}


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["TRUESTEP_RENDEZVOUS"] + "/gloo", rank=RANK,
                            world_size=RANKS)
    optimizer = Scape()
    for line in sys.stdin:
        message = json.loads(line)
        if message["do"] == "end":
            break
        print(json.dumps({"id": message["id"], **answer(message, optimizer)}), flush=True)


# --- SCAPE: sections 4 and 5 of docs/specification/. ------------------------------------------------------------------

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


def all_gather(tensor):
    """Every rank's, in the order of the ranks."""
    parts = [torch.empty_like(tensor) for _ in range(RANKS)]
    dist.all_gather(parts, tensor)
    return parts


def norm(values):
    """Section 5: blocks of 4096 values, in each 256 lanes, which are added pairwise, and the blocks one after another: version 1,
    as hello does not say that it knows "norm"."""
    total = 0.0
    for block in values.double().square().split(4096):
        rows = torch.nn.functional.pad(block, (0, -len(block) % 256)).view(-1, 256)
        lanes = torch.zeros(256, dtype=torch.float64)
        for row in rows:
            lanes = lanes + row
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
        total += lanes.item()
    return math.sqrt(total)


class Scape:
    def begin(self, case, parameters):
        size = case["size"]
        self.case, self.t, self.halted = case, 0, False
        self.w, self.m, self.e = parameters, torch.zeros(size), torch.zeros(size)
        self.mask = self.next_mask = torch.zeros(size, dtype=torch.bool)

    def make_mask(self, c, density):
        mine = torch.zeros(len(c), dtype=torch.uint8)
        for segment in self.case["segments"]:
            begin, end = segment["begin"], segment["end"]
            if segment["owner"] == RANK:
                n = end - begin
                k = n if segment["always_dense"] else min(n, max(1, math.floor(density * n)))
                first = torch.sort(c[begin:end].abs(), descending=True, stable=True).indices[:k]
                mine[begin + first] = 1
        return torch.stack(all_gather(mine)).any(dim=0)

    def refusal(self, g):
        bad = (~(g.abs() <= 2.0 ** 56)).nonzero()
        mine = torch.tensor([bad[0].item() if len(bad) > 0 else -1])
        for rank, index in enumerate(all_gather(mine)):
            if index.item() >= 0:
                return {"did": "refused", "rank": rank, "index": index.item()}
        return None

    def exchange(self, packed):
        """The mean on the mask."""
        if ALL_REDUCE:
            dist.all_reduce(packed)
            return packed / fp32(float(RANKS))
        parts = all_gather(packed)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total / fp32(float(RANKS))

    def step(self, g, learning_rate, next_density):
        if self.halted:
            return {"did": "halted", "text": "w or m is no number; restore a checkpoint"}
        refused = self.refusal(g)
        if refused:
            return refused
        case, t, m = self.case, self.t + 1, self.m
        beta1, beta2 = case["beta1"], case["beta2"]
        b1, a1, b2, a2 = fp32(beta1), fp32(1.0 - beta1), fp32(beta2), fp32(1.0 - beta2)
        lr, eps, decay = fp32(learning_rate), fp32(case["epsilon"]), fp32(1.0 - learning_rate * case["weight_decay"])
        correction = case["bias_correction"]
        inv1 = fp32(1.0 if correction == "none" else 1.0 / (1.0 - power(beta1, t)))
        invs2 = fp32(1.0 / math.sqrt(1.0 - power(beta2, t)) if correction == "adam" else 1.0)

        c = ((b1 * m) + (a1 * g)) + self.e
        mask = self.next_mask if t > 1 else self.make_mask(c, case["density"])
        next_mask = self.make_mask(c, next_density)
        if MISTAKE == "delay":
            mask = next_mask
        M = self.exchange(c[mask])
        m_on = m[mask]
        ghat = (M - (b1 * m_on)) / a1
        self.e = c if MISTAKE == "residual" else torch.where(mask, torch.zeros(()), c)
        if case["clip_norm"] > 0.0:
            ghat = ghat * fp32(min(1.0, case["clip_norm"] / (norm(ghat) + 1e-6)))
            M = (b1 * m_on) + (a1 * ghat)
        q = m_on * inv1 if correction == "momentum" else m_on
        v = (b2 * (q * q)) + (a2 * (ghat * ghat))
        # Of fp32, torch's root may be an ULP off: the gate found it. Of doubles, rounded, it is IEEE's.
        u = (M * inv1) / ((torch.sqrt(v.double()).float() * invs2) + eps)
        self.w = self.w * decay
        self.w[mask] = self.w[mask] - (lr * u)
        self.m = torch.zeros_like(m)
        self.m[mask] = M
        self.mask, self.next_mask, self.t = mask, next_mask, t
        self.halted = not bool(torch.isfinite(self.w).all() and torch.isfinite(self.m).all())
        if self.halted:
            return {"did": "halted", "text": f"w or m is not finite in step {t}"}
        return {"did": "taken"}


main()
