#!/usr/bin/env python3
"""Records a few steps of a SCAPE optimizer as a scape-trace, for `truestep verify`. Standard library only.

YourOptimizer marks the place where yours goes; as it stands it is SCAPE on all ranks at once, in plain Python, so that
this file runs. All else stays: the model, the gradients, the recorder. docs/tutorial.md walks through it.

    docs/examples/record_trace.py run.safetensors
    build/release/bin/truestep verify run.safetensors
"""

import argparse
import json
import math
import random
import struct
from array import array

# ---------------------------------------------------------------------------------------------------------------------
# The run: a small model, 3 ranks (two hide order bugs), a size that the number of ranks does not divide.
# ---------------------------------------------------------------------------------------------------------------------

TENSORS = [{"name": "embed", "size": 40, "always_dense": False},
           {"name": "norm", "size": 5, "always_dense": True},
           {"name": "mlp", "size": 55, "always_dense": False}]
SIZE = sum(tensor["size"] for tensor in TENSORS)
RANKS = 3
STEPS = 6
LEARNING_RATE = [0.01] * STEPS
DENSITY = [0.1] * (STEPS + 1)  # entry t-1 belongs to the mask that step t uses


def make_segments():
    """Where top-k is taken, and by whom: each tensor cut at the ranks' equal ranges (`by_shard`)."""
    share = -(-SIZE // RANKS)
    segments, begin = [], 0
    for tensor in TENSORS:
        end = begin + tensor["size"]
        while begin < end:
            owner = begin // share
            cut = min(end, (owner + 1) * share)
            segments.append({"begin": begin, "end": cut, "owner": owner})
            begin = cut
    return segments


CONFIG = {"algorithm": "scape", "workers": RANKS, "steps": STEPS, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
          "weight_decay": 0.1, "bias_correction": "adam", "decay_order": "first", "clip_norm": 0.0,
          "k_rounding": "floor", "tensors": TENSORS, "segments": make_segments()}


# ---------------------------------------------------------------------------------------------------------------------
# >>> YOURS GOES HERE. It is asked for nothing but step() and, after each step, the five results below it. <<<
# ---------------------------------------------------------------------------------------------------------------------

def fp32(value):
    """Rounded once to fp32. Sums, products, quotients and roots of two fp32 numbers may be made in double first."""
    return array("f", [value])[0]


def power(base, exponent):
    """Section 5: by binary exponentiation, so that all agree on the last bit."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base *= base
        exponent >>= 1
    return result


class YourOptimizer:
    """All ranks in one process. A real one has a rank per process; the results are then gathered (see the recorder)."""

    def __init__(self, parameters, breaks):
        self.breaks = breaks
        self.steps = 0
        self.parameters = list(parameters)                     # w, the same on all ranks
        self.first_moment = [0.0] * SIZE                       # m, the same on all ranks
        self.residuals = [[0.0] * SIZE for _ in range(RANKS)]  # e, each rank's own
        self.mask = None                                       # S_t, True where selected, the same on all ranks
        self.next_mask = None                                  # S_{t+1}, in the making

    def make_mask(self, c, density):
        mask = [False] * SIZE
        ends = [sum(t["size"] for t in TENSORS[:i + 1]) for i in range(len(TENSORS))]
        for segment in CONFIG["segments"]:
            tensor = next(t for t, end in zip(TENSORS, ends) if segment["end"] <= end)
            n = segment["end"] - segment["begin"]
            k = n if tensor["always_dense"] else min(n, max(1, math.floor(density * n)))
            score = c[segment["owner"]]
            order = sorted(range(segment["begin"], segment["end"]), key=lambda i: (-abs(score[i]), i))
            for i in order[:k]:
                mask[i] = True
        return mask

    def step(self, gradients, learning_rate):
        self.steps += 1
        t, w, m = self.steps, self.parameters, self.first_moment
        beta1, beta2, decay_rate = CONFIG["beta1"], CONFIG["beta2"], CONFIG["weight_decay"]
        b1, a1, b2, a2 = fp32(beta1), fp32(1.0 - beta1), fp32(beta2), fp32(1.0 - beta2)
        lr, eps, decay = fp32(learning_rate), fp32(CONFIG["epsilon"]), fp32(1.0 - learning_rate * decay_rate)
        inv1, invs2 = fp32(1.0 / (1.0 - power(beta1, t))), fp32(1.0 / math.sqrt(1.0 - power(beta2, t)))

        # 2. Local: what every rank would send of every coordinate.
        c = [[fp32(fp32(fp32(b1 * m[i]) + fp32(a1 * g[i])) + e[i]) for i in range(SIZE)]
             for g, e in zip(gradients, self.residuals)]
        # 3. Next mask: made now, used a step later.
        self.mask = self.make_mask(c, DENSITY[0]) if t == 1 else self.next_mask
        self.next_mask = self.make_mask(c, DENSITY[t])
        for i in range(SIZE):
            M = 0.0
            if self.mask[i]:
                # 4. Exchange: the mean, added in rank order.
                total = c[0][i]
                for rank in range(1, RANKS):
                    total = fp32(total + c[rank][i])
                M = fp32(total / fp32(RANKS))
                # 5. Reconstruction.
                ghat = fp32(fp32(M - fp32(b1 * m[i])) / a1)
            # 6. Residual: what was sent is gone, what was not sent stays.
            for rank in range(RANKS):
                self.residuals[rank][i] = 0.0 if self.mask[i] and not self.breaks else c[rank][i]
            # 8. Update; the decay comes first. (7, clipping, is off here.)
            w[i] = fp32(w[i] * decay)
            if self.mask[i]:
                v = fp32(fp32(b2 * fp32(m[i] * m[i])) + fp32(a2 * fp32(ghat * ghat)))
                u = fp32(fp32(M * inv1) / fp32(fp32(fp32(math.sqrt(v)) * invs2) + eps))
                w[i] = fp32(w[i] - fp32(lr * u))
            m[i] = M


# ---------------------------------------------------------------------------------------------------------------------
# The recorder: it knows the format and nothing of the optimizer.
# ---------------------------------------------------------------------------------------------------------------------

def mask_bits(mask):
    """Bit i is (byte i/8 >> i%8) & 1; none is set beyond the last coordinate."""
    packed = bytearray((len(mask) + 7) // 8)
    for i, selected in enumerate(mask):
        packed[i // 8] |= bool(selected) << i % 8
    return array("B", bytes(packed))


def write_safetensors(path, metadata, tensors):
    """tensors: name -> array of type code f, d or B. (The bytes are this machine's; safetensors is little-endian.)"""
    dtypes = {"f": "F32", "d": "F64", "B": "U8"}
    header, body = {"__metadata__": metadata}, b""
    for name, values in tensors.items():
        data = values.tobytes()
        header[name] = {"dtype": dtypes[values.typecode], "shape": [len(values)],
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def record(path, parameters, optimizer):
    tensors = {"learning_rate": array("d", LEARNING_RATE), "density": array("d", DENSITY),
               "initial/parameters": array("f", parameters)}
    for t in range(1, STEPS + 1):
        # In training: each rank's gradient as it enters the optimizer, before anything is summed over ranks.
        gradients = [[fp32(random.gauss(0.0, 1.0)) for _ in range(SIZE)] for _ in range(RANKS)]
        for rank, gradient in enumerate(gradients):
            tensors[f"step/{t:04d}/gradient/rank{rank}"] = array("f", gradient)  # a copy, before the step

        optimizer.step(gradients, LEARNING_RATE[t - 1])

        tensors[f"step/{t:04d}/parameters"] = array("f", optimizer.parameters)
        tensors[f"step/{t:04d}/first_moment"] = array("f", optimizer.first_moment)
        for rank, residual in enumerate(optimizer.residuals):
            tensors[f"step/{t:04d}/residual/rank{rank}"] = array("f", residual)
        tensors[f"step/{t:04d}/mask"] = mask_bits(optimizer.mask)
        tensors[f"step/{t:04d}/next_mask"] = mask_bits(optimizer.next_mask)
    metadata = {"format": "scape-trace", "version": "1", "source": "record_trace.py", "config": json.dumps(CONFIG)}
    write_safetensors(path, metadata, tensors)


def main():
    parser = argparse.ArgumentParser(description="Records a small run of a SCAPE optimizer as a scape-trace.")
    parser.add_argument("output", help="the trace to write")
    parser.add_argument("--break", dest="breaks", action="store_true",
                        help="make one mistake: the residual is not cleared where it was sent")
    options = parser.parse_args()
    random.seed(1)
    parameters = [fp32(random.gauss(0.0, 0.1)) for _ in range(SIZE)]
    record(options.output, parameters, YourOptimizer(parameters, options.breaks))


main()
