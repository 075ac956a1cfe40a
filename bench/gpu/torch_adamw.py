#!/usr/bin/env python3
"""PyTorch's fused AdamW, timed as bench_gpu times: CUDA events, warmed, buffers in turns, beside a copy.

Usage: bench/gpu/torch_adamw.py [--sizes 2^20,2^24,2^27,2^30] [--samples 30] [--json FILE] [--require-device]

bench_gpu --torch FILE puts the figures beside its own. Without PyTorch or a device it says SKIPPED and why, and ends
with 0.
"""
import argparse
import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import benchmark_out  # noqa: E402

BYTES_PER_PARAMETER = 28  # w, m and v read and written, g read
HOLD_CYCLES = 1_000_000  # the stream waits so long before each sample, so that the host is ahead of it
TIMES_CACHE = 16  # all sets together, of the cache
MOST_SETS = 96


def size(text):
    value = 2 ** int(text[2:]) if text.startswith("2^") else int(text)
    if not 1 <= value <= 2**31:
        raise argparse.ArgumentTypeError(f"size {text}; it must be 1 to 2^31")
    return value


def timed(torch, work):
    """Seconds of the device's work, by events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    if hasattr(torch.cuda, "_sleep"):
        torch.cuda._sleep(HOLD_CYCLES)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def copy_rate(torch, samples):
    count = min(2**28, torch.cuda.mem_get_info()[0] // 8 // 4)
    source, target = torch.randn(count, device="cuda"), torch.empty(count, device="cuda")
    seconds = [timed(torch, lambda: target.copy_(source)) for _ in range(samples + 2)][2:]
    return 2 * 4 * count / statistics.median(seconds)


def row(torch, d, samples):
    """The figures of one size; None where it does not fit."""
    rate = copy_rate(torch, samples)
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    set_bytes = 16 * d
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    sets = int(min(max(2, min(TIMES_CACHE * cache / set_bytes, MOST_SETS)), 0.85 * free / set_bytes))
    if sets < 1:
        return None
    optimizers = []
    for _ in range(sets):
        parameters = torch.randn(d, device="cuda", requires_grad=True)
        parameters.grad = torch.randn(d, device="cuda")
        optimizers.append(torch.optim.AdamW([parameters], lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True))
    seconds = []
    rounds = -(-samples // sets)
    for count in range(-2, rounds):
        for optimizer in optimizers:
            taken = timed(torch, optimizer.step)
            if count >= 0:
                seconds.append(taken)
    return {"name": "PyTorch AdamW, fused", "d": d, "bytes": BYTES_PER_PARAMETER * d, "seconds": seconds,
            "copy_bytes_per_second": rate}


def measure(sizes, samples):
    try:
        import torch
    except ImportError as error:
        return {"skipped": f"no PyTorch: {error}", "rows": []}
    if not torch.cuda.is_available():
        return {"skipped": "no GPU: PyTorch sees none", "rows": []}
    rows = []
    left_out = []
    for d in sizes:
        found = row(torch, d, samples)
        torch.cuda.empty_cache()
        if found:
            rows.append(found)
        else:
            left_out.append(d)
    return {"torch": f"{torch.__version__}, CUDA {torch.version.cuda}", "device": torch.cuda.get_device_name(0),
            "rows": rows, "left_out": left_out}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: [size(part) for part in text.split(",")],
                        default=[2**20, 2**24, 2**27, 2**30], help="parameters, as 2^20 or numbers")
    parser.add_argument("--samples", type=int, default=30, help="at least so many of each")
    parser.add_argument("--json", help="also write the figures to this file")
    benchmark_out.add_option(parser)
    parser.add_argument("--require-device", action="store_true", help="end with 1 where nothing could be measured")
    arguments = parser.parse_args()
    if arguments.samples < 1:
        parser.error("--samples must be 1 or more")
    result = measure(arguments.sizes, arguments.samples)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    benchmark_out.write(arguments.benchmark_out, [
        benchmark_out.row(f"gpu/{one['name'].replace(' ', '_')}/d:{one['d']}", one["seconds"]) for one in result.get("rows", [])])
    if "skipped" in result:
        print(f"SKIPPED: {result['skipped']}")
        return 1 if arguments.require_device else 0
    for given in result["rows"]:
        median = statistics.median(given["seconds"])
        rate = given["bytes"] / median
        print(f"{given['name']}  d = {given['d']}  {median * 1e6:.1f} us  {rate * 1e-9:.0f} GB/s  "
              f"{100 * rate / given['copy_bytes_per_second']:.1f} % of the copy")
    for d in result["left_out"]:
        print(f"d = {d}: SKIPPED, it does not fit into the device's memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
