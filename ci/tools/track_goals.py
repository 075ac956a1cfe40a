"""What the history of one processor says by itself: which goals its last run met, and what has fallen below its runs before."""

import os
import re

RUNS_BEFORE = 5
FALLEN = 0.85  # of the least share of these runs: shared machines move a share by a tenth


def processor(cpuinfo):
    """Names the model. Virtual machines call several generations by one name, so the numbers of x86 or Arm belong to it."""
    facts = dict(re.findall(r"^(.+?)\s*: (.*)$", cpuinfo, re.MULTILINE))
    numbers = [f"{key.split()[-1]} {facts[key]}" for key in ("cpu family", "model", "CPU implementer", "CPU part") if key in facts]
    return facts.get("model name", os.uname().machine) + (f" ({', '.join(numbers)})" if numbers else "")


def table(runs):
    """Lines about the last of the runs, all of the same processor."""
    if not runs:
        return []
    *before, last = runs
    met = [f"{'MET' if row['share'] >= row['goal'] else 'NOT MET':8} {name}: {row['share']:.3f} of the {row['of']}'s speed, goal {row['goal']:.3f}"
           for name, row in last["rows"].items() if "goal" in row]
    fallen = []
    for name, row in last["rows"].items():
        shares = [run["rows"][name]["share"] for run in before[-RUNS_BEFORE:] if run["rows"].get(name, {}).get("of") == row["of"]]
        if shares and row["share"] < FALLEN * min(shares):
            fallen.append(f"FALLEN   {name}: {row['share']:.3f}, at least {min(shares):.3f} in the {len(shares)} runs before")
    what = last["machine"]
    kernels = f", kernels {what['kernels']}" if "kernels" in what else ""
    head = [f"{what['processor']}, {what['cores']} cores, {what['compiler']}{kernels}, at {last['commit']}:"]
    return head + met + fallen if met or fallen else []
