"""Computes the time of a launch from its machine code (gpu/sass.txt) and its blocks' resources
(gpu/resources.txt)."""
import dataclasses
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "ci"))
from gpu_sass_table import read_table  # noqa: E402

THREADS, WARP = 256, 32


@dataclasses.dataclass(frozen=True)
class Machine:
    """Public figures; bench/gpu/README.md has their sources."""

    name: str
    memory: float  # bytes
    bandwidth: float  # bytes a second
    multiprocessors: int = 132
    hertz: float = 1.98e9
    schedulers: int = 4  # of a multiprocessor, each issues an instruction of a warp in a cycle
    registers: int = 65536
    shared: int = 227 * 1024
    threads: int = 2048
    cache: float = 50 * 2**20  # bytes of L2
    far: int = 479  # cycles until a load has come from memory
    near: int = 263  # and from the L2

    @property
    def copy(self):
        return ASSUMED["copy"] * self.bandwidth


MACHINES = (Machine("H100", 85.5e9, 3.35e12), Machine("H200", 150.7e9, 4.8e12))

# What no figure was found for; the first device will tell.
ASSUMED = {
    "copy": 0.9,  # of the bandwidth, in a copy
    "overlap": 3.0,  # bytes, issue and waits are joined as (a^3 + b^3 + c^3)^(1/3): they hide each other, not wholly
    "cycles_of_an_instruction": 2.0,  # of one warp by itself
    "cycles_of_a_barrier": 40.0,
    "cycles_of_a_meeting": 45.0,  # each time that a thread spins around an atomic which another one changes
    "seconds_between_launches": 1.2e-6,
    "seconds_of_a_host_wait": 10e-6,
    "seconds_to_launch": 2.5e-6,  # of the host, a launch without a graph
    "seconds_to_capture": 1.6e-6,  # of the host, for each node that is captured and laid over the graph before
    "seconds_to_launch_a_graph": 6e-6,
}


@dataclasses.dataclass(frozen=True)
class Part:
    """How often a thread goes through a row of gpu/sass.txt, and which waits are not for the L2."""

    times: float = 1.0
    far: int = 0  # for memory
    gathered: int = 0  # those that a warp has if one of its lanes has a bit


@dataclasses.dataclass(frozen=True)
class Launch:
    kernel: str
    blocks: float
    bytes: float  # that it moves through memory
    parts: dict  # by the loop's name: "" is the kernel outside of its loops. A loop that is not there is not gone through
    meetings: int = 0  # of its threads, at atomics that they spin around


@dataclasses.dataclass(frozen=True)
class Cost:
    bytes: float = 0.0
    issue: float = 0.0
    waits: float = 0.0
    launches: float = 0.0

    @property
    def seconds(self):
        power = ASSUMED["overlap"]
        return sum(part**power for part in (self.bytes, self.issue, self.waits)) ** (1 / power) + self.launches


class Budget:
    """The two tables."""

    def __init__(self, sass=None, resources=None):
        self.sass = read_table(sass or (ROOT / "gpu/sass.txt").read_text(encoding="utf-8"))[0]
        self.resources = {}
        for line in (resources or (ROOT / "gpu/resources.txt").read_text(encoding="utf-8")).splitlines():
            words = line.split()
            if len(words) == 6 and words[1] == "sm_90":
                self.resources[words[0]] = int(words[2]), int(words[3])

    def row(self, kernel, loop):
        name = f"{kernel} {loop}".rstrip()
        if name not in self.sass:
            raise SystemExit(f"bench/gpu/predict: gpu/sass.txt has no row '{name}': the kernel's loops are others now; look at them, and "
                             "mend bench/gpu/predict_rows.py")
        return self.sass[name]

    def resident(self, machine, kernel):
        """The number of blocks that fit into a multiprocessor at once."""
        registers, shared = self.resources[kernel]
        of_a_block = math.ceil(registers / 8) * 8 * THREADS
        return min(machine.registers // of_a_block, machine.threads // THREADS,
                   machine.shared // (shared + 1024) if shared else machine.threads // THREADS)

    def cost(self, machine, launch, density):
        """The cost of one launch. A warp's lanes together have a bit with a probability that makes
        gathered waits rarer than the others."""
        likely = 1 - (1 - density) ** WARP
        instructions = cycles = 0.0
        for loop, part in launch.parts.items():
            row = self.row(launch.kernel, loop)
            near = row["waits"] - part.far - part.gathered
            if near < 0:
                raise SystemExit(f"bench/gpu/predict: {launch.kernel} {loop} waits {row['waits']} times, and "
                                 f"bench/gpu/predict_rows.py knows of {part.far + part.gathered}; look at it again")
            instructions += part.times * row["instructions"]
            cycles += part.times * (part.far * machine.far + (near + part.gathered * likely) * machine.near +
                                    row["barriers"] * ASSUMED["cycles_of_a_barrier"])
        cycles += instructions * ASSUMED["cycles_of_an_instruction"] + launch.meetings * ASSUMED["cycles_of_a_meeting"]
        slots = machine.multiprocessors * self.resident(machine, launch.kernel)
        issued = launch.blocks * THREADS / WARP * instructions
        return Cost(launch.bytes / machine.copy, issued / (machine.multiprocessors * machine.schedulers * machine.hertz),
                    math.ceil(launch.blocks / slots) * cycles / machine.hertz, ASSUMED["seconds_between_launches"])
