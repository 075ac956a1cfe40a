"""The rows of bench_gpu: the least bytes of each, and what is launched for it (gpu/scape/backend.hpp, selection.hpp)."""
import dataclasses
import math
import statistics

from predict_cost import ASSUMED, THREADS, Cost, Launch, Part

TILE = 4096  # coordinates of a block
TENSOR = 2**24  # of bench/gpu/rank.cpp
SWEEP = 2048
CODE_BLOCK, CODE_TILE = 255, 255 * 256
OFFSETS_GROUP = 4096
DECODE_CHUNK = 16 * TILE
WARM_UP = 12  # bench/gpu/measure.cpp's rounds that are not timed
FIRST_HIT = 11  # the selection whose bracket, around the last threshold, holds the new one for the first time
ONCE = {"": Part()}


@dataclasses.dataclass(frozen=True)
class Setting:
    """Rank 0 of `workers`, in units of coordinates."""

    d: int
    density: float
    workers: int = 8

    @property
    def shard(self):
        return self.d / self.workers

    @property
    def k(self):
        return self.d * self.density

    @property
    def own(self):
        return self.shard * self.density

    @property
    def segments(self):  # a segment lies in one tensor and one shard
        return max(self.d / TENSOR, self.workers)

    def code(self, coordinates):
        return min(coordinates / 8, coordinates * self.density + coordinates / CODE_BLOCK)

    @property
    def inside(self):
        """The share of normal values whose magnitude lies in a bracket as wide as an eighth of the threshold, around it."""
        normal = statistics.NormalDist()
        threshold = normal.inv_cdf(1 - self.density / 2)
        return 2 * normal.pdf(threshold) * threshold / 8

    def samples(self, machine, wanted=30):
        """Which selections of a rank are timed: phase by phase, and in whole steps (bench/gpu/measure.cpp)."""
        size = 12.5 * self.d + 20 * self.k + self.shard + 1e6
        sets = int(min(min(max(16 * machine.cache / size, 2), 96) + 1, 0.85 * (machine.memory - 3e9) / size)) - 1
        if sets < 1:
            return None
        rounds = -(-wanted // sets)
        first = 2 + WARM_UP  # the first one starts the set
        phases = range(first, first + rounds)
        return phases, range(phases.stop + WARM_UP, phases.stop + WARM_UP + rounds)


def at_most(mean):
    """The maximum over a warp's 32 lanes if a lane has `mean` on average."""
    return mean + 2 * math.sqrt(mean)


def tiles(coordinates):
    return math.ceil(coordinates / TILE)


def offsets(counts):
    """Launches of Offsets: with several groups, first the sums of all but the last; the last block adds
    those."""
    blocks = math.ceil(counts / OFFSETS_GROUP)
    sums = [Launch("prefix/GroupSums", blocks - 1, 0, ONCE)] if blocks > 1 else []
    return [*sums, Launch("prefix/Offsets", blocks, 0, {"": Part(), "1": Part((blocks - 1) / 16)})]


def count_words(coordinates):
    words = coordinates / 64
    return [Launch("scape/mask/CountWords", math.ceil(words / 1024), words * 10, {"": Part(), "1": Part(2, far=1)}), *offsets(tiles(coordinates))]


def decode(setting):
    parts = setting.segments * math.ceil(setting.d / setting.segments / CODE_TILE)
    d = setting.d
    fours = math.floor(DECODE_CHUNK * setting.density / THREADS / 4)  # of a thread's positions
    count = {"": Part(), "1": Part(1, far=1), "1.1": Part()}  # a warp counts a tile
    return [Launch("scape/code/DecodeCount", math.ceil(parts / 8), d / CODE_BLOCK, count), *offsets(parts),
            Launch("scape/code/Decode", math.ceil(d / DECODE_CHUNK), setting.code(d) + d / 8 + d / 32,
                   {"": Part(), "2": Part(), "3": Part(1, far=2), "3.2": Part(3), "3.3": Part(3), "3.4": Part(), "3.5": Part(fours, far=1),
                    "4": Part(2)}), *offsets(tiles(d))]


def advance(setting):
    return [None, Launch("scape/mask/InCommon", math.ceil(setting.d / 64 / 4096), setting.d / 4, {"": Part(), "1": Part(1, far=8)})]


def local_pass(setting):
    """The local pass, in which the selection of this rank's tiles begins."""
    own = setting.shard
    others = setting.d - own
    packed = max(1, TILE * setting.density / THREADS)  # of a thread, fetched and put back

    def moved(coordinates):
        return coordinates * (12 + 2 / 8 + 2 / 32 + 12 * setting.density)

    plain = Launch("scape/local/LocalPassWith", tiles(others), moved(others), {"": Part(1, far=1), "1": Part(packed, far=1), "2": Part(packed)})
    watching = Launch("scape/local/WatchingPass", tiles(own), moved(own) + own / 8 + 6 * setting.inside * own,
                      {"": Part(1, far=1), "1": Part(packed, far=1), "2": Part(packed), "6": Part()})
    return [Launch("scape/select/Prepare", setting.segments / setting.workers, 0, ONCE), *([plain] if others else []), watching]


def select(setting, hit):
    n, segments = setting.shard, setting.segments / setting.workers
    group = TILE * min(max(n // TILE // 2048, 1), 16)
    groups = segments * math.ceil(n / segments / group)
    sweeps, inside = group / SWEEP, setting.inside * group
    read = 4 * n + n / 8 + n / 32 + 4 * setting.own
    through = Part(sweeps, far=8, gathered=8)  # for each score: its mask's word, where it stands, and the score
    few = Part(max(1, group / TILE / 8) * inside / (group / TILE) / 32 / 4)  # of the cells of a warp, four at once

    def digit(first):
        if hit:
            parts = {"": Part()} if first else {"": Part(), "2": Part(2), "4": Part(max(1, group / TILE / 8)), "4.1": few, "6": Part(2)}
        else:
            parts = {"": Part(), "2": Part(2), "3": through, "6": Part(2)}
        return [Launch("scape/select/Digit", groups, 0 if hit else read, parts), Launch("scape/select/Pick", segments, 0, ONCE)]

    bracket = Launch("scape/select/Bracket", groups, 0, ONCE)  # the local pass has looked
    judge = Launch("scape/select/Judge", segments, 0, {"": Part(), "1": Part(math.ceil(groups / segments / THREADS))})
    take = Launch("scape/select/Take", groups, 0 if hit else read + n / 8, {"": Part(), "10": Part(max(1, group / TILE / 8)), "10.1": few} if hit else {"": Part(), "9": through})
    words = group / 64 / THREADS
    encode = Launch("scape/code/Encode", groups, n / 8 + n / 32 + setting.code(n),
                    {"": Part(), "1": Part(math.ceil(group / CODE_BLOCK / THREADS / 2)), "2": Part(words, far=1),
                     "2.1": Part(words * at_most(64 * setting.density))})
    return [bracket, judge, *digit(True), *digit(False), *digit(False), Launch("scape/select/TieCount", groups, 0, ONCE), *offsets(groups), take,
            *count_words(n), encode]


def fold(setting):
    return [Launch("scape/exchanged_values/Fold", tiles(setting.own), 4 * setting.own * (setting.workers + 1),
                   {"": Part(), "1": Part(4, far=3), "1.1": Part(4 * (setting.workers > 4), far=3)})]


def update(setting):
    d = setting.d
    taken = max(1, TILE * setting.density / THREADS)
    return [None, Launch("scape/update/Update", tiles(d), 8 * d + d / 8 + d / 32 + 8 * setting.k,
                         {"": Part(1, far=1), "1": Part(taken, far=1)}), WAIT]


def check(setting):
    return [None, Launch("scape/local/FirstRefused", tiles(setting.d), 4 * setting.d, {"": Part(), "1": Part(1, far=1)}), WAIT]


def dense(kernel, size):
    return lambda setting: [Launch(f"bench/{kernel}", tiles(setting.d), size * setting.d, {"": Part(), "1": Part(1, far=1)})]


def read_of_shard(setting):
    return [Launch("bench/Read", tiles(setting.shard), 4 * setting.shard, {"": Part(), "1": Part(1, far=1)})]


WAIT = "the host waits"  # for a copy to it; None in a list of launches is memory that is filled


def least_bytes(name, s):
    """The least bytes, counted as in bench/gpu/rank.cpp."""
    phases = {"decode mask": s.code(s.d) + s.d / 8 + s.d / 32, "local pass": 12 * s.d + s.d / 4 + 12 * s.k,
              "selection": 4 * s.shard + s.shard / 4 + 4 * s.own + s.code(s.shard), "fold": 4 * s.own * (s.workers + 1),
              "update with decay": 8 * s.d + s.d / 8 + 8 * s.k}
    if name in phases:
        return phases[name]
    step = sum(phases.values())
    return {"check": 4 * s.d, "one read of the shard": 4 * s.shard, "whole local step": step, "the same and the check": step + 4 * s.d,
            "dense AdamS, one pass": 20 * s.d, "dense AdamW, one pass": 28 * s.d}[name]


def step(setting, hit):
    return [*decode(setting), *advance(setting), *local_pass(setting), *select(setting, hit), *fold(setting), *update(setting)]


def cost_of(budget, machine, launches, density):
    """The cost of consecutive launches: the whole time, and the time that each limit alone would take."""
    costs = []
    for launch in launches:
        if launch is None:
            costs.append(Cost(launches=ASSUMED["seconds_between_launches"]))
        elif launch == WAIT:
            costs.append(Cost(launches=ASSUMED["seconds_of_a_host_wait"]))
        else:
            costs.append(budget.cost(machine, launch, density))
    parts = {name: sum(getattr(cost, name) for cost in costs) for name in ("bytes", "issue", "waits", "launches")}
    return sum(cost.seconds for cost in costs), parts


ROWS = {"check": lambda s, _: check(s), "decode mask": lambda s, _: decode(s), "local pass": lambda s, _: local_pass(s), "selection": select,
        "fold": lambda s, _: fold(s), "update with decay": lambda s, _: update(s), "one read of the shard": lambda s, _: read_of_shard(s),
        "whole local step": step, "the same and the check": lambda s, hit: check(s) + step(s, hit)}
DENSE = {"dense AdamS, one pass": dense("AdamS", 20), "dense AdamW, one pass": dense("AdamW", 28)}
WITH_SELECTION = {"selection": 0, "whole local step": 1, "the same and the check": 1}  # and which of Setting.samples they time


def row_of(budget, machine, name, setting):
    """A row's prediction. A selection's time depends on whether its brackets hit, and so on which ones are
    timed."""
    samples = setting.samples(machine) if setting.density else ((), ())
    if samples is None:
        return None
    moved = least_bytes(name, setting)
    row = {"name": name, "d": setting.d, "density": setting.density, "bytes": moved}
    if name in DENSE:
        seconds, parts = cost_of(budget, machine, DENSE[name](setting), 0.0)
    else:
        seconds, parts = cost_of(budget, machine, ROWS[name](setting, True), setting.density)
        if name in WITH_SELECTION:
            missed, parts_missed = cost_of(budget, machine, ROWS[name](setting, False), setting.density)
            timed = samples[WITH_SELECTION[name]]
            row.update(seconds_if_brackets_hit=seconds, seconds_if_brackets_miss=missed)
            seconds = statistics.median(seconds if number >= FIRST_HIT else missed for number in timed)
            parts = parts if seconds == row["seconds_if_brackets_hit"] else parts_missed
    return {**row, "median_seconds": seconds, "share_of_copy": moved / seconds / machine.copy, "limits": parts}


def launches_of(budget, machine, density, graph):
    """The launches of a step of a single rank at d = 2^20 by the host's clock, with waits for both
    verdicts."""
    setting = Setting(2**20, density, workers=1)
    device, _ = cost_of(budget, machine, check(setting) + step(setting, True), density)
    nodes = len(check(setting) + step(setting, True)) - 2
    host = nodes * ASSUMED["seconds_to_capture"] + 3 * ASSUMED["seconds_to_launch_a_graph"] if graph else 0.0
    if not graph:
        device = max(device, nodes * ASSUMED["seconds_to_launch"] + 2 * ASSUMED["seconds_of_a_host_wait"])
    least = (least_bytes("the same and the check", setting)) / machine.copy
    return {"d": setting.d, "graph": graph, "nodes": nodes, "median_seconds": device + host, "overhead_seconds": device + host - least}
