"""Draws right runs, and says how many truestep calls true: clean_runs.py COUNT [SEED]. FSDP2, HSDP, ZeroRedundancyOptimizer, DistributedDataParallel,
fp32 and bf16, one to four ranks; SGD, Adam, AdamW and Muon under checking(). Each is recorded and verified at REL, and its collectives are watched and
held to their definitions."""

import random
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import torch  # noqa: E402
import torch._dynamo  # noqa: E402,F401
import truestep  # noqa: E402
import truestep.torch  # noqa: E402
import watched_ranks  # noqa: E402
from checked_runs import Drawn  # noqa: E402
from lost_contribution import train  # noqa: E402
from sharded_runs import sharded, zero  # noqa: E402
from truestep._verify import check_collectives  # noqa: E402


def checked(rank: int, world: int, folder: str = "", seed: int = 0, sharded: bool = False) -> None:
    try:
        Drawn(seed, world, sharded).run(rank, seed, folder=folder)
    except AssertionError as error:
        if "is not proved true" not in str(error):  # a rate of 0 leaves nothing to compare
            raise


def draw(dice: random.Random) -> tuple[Any, int, dict[str, Any]]:
    body, world = dice.choice([sharded, sharded, sharded, zero, train, checked, checked]), dice.randint(1, 4)
    if body is not sharded:
        return body, world, {zero: {"warm": dice.randint(0, 2)}, checked: {"seed": dice.randint(1000, 9999), "sharded": dice.random() < 0.5}}.get(body, {})
    bf16 = dice.choice(["", "", "parameters", "reduction"])
    own = bf16 != "reduction" and dice.random() < 0.7  # a reduction in bf16 is within no level: the reduced gradients are recorded
    return body, world, {"own": own, "bf16": bf16, "reshard": dice.random() < 0.5, "hybrid": world % 2 == 0 and dice.random() < 0.5,
                         "parts": dice.randint(1, 3), "start": dice.randint(1, 2), "sample": dice.choice([None, None, ["0.bias", "2.weight"]])}


def main() -> int:
    count, dice, accused = int(sys.argv[1]), random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1), 0
    for number in range(count):
        body, world, options = draw(dice)
        with tempfile.TemporaryDirectory() as folder:
            statuses = watched_ranks.run(lambda rank, world, body=body, options=options, folder=folder: body(rank, world, folder=folder, **options), world, folder,
                                         sample=1)
            what = f"{number}: {body.__name__}, {world} ranks, {options}"
            if any(statuses):
                print(f"{what}: {statuses}\n" + "".join(path.read_text() for path in Path(folder).glob("error*")))
                accused += 1
                continue
            result = truestep.verify(f"{folder}/run.rank*.safetensors", level="rel") if body is not checked else None
            found = check_collectives([f"{folder}/run.rank{rank}.collectives" for rank in range(world)])
            if (result and not result.passed) or not found["holds"]:
                print(f"{what}\n{result.text if result else ''}\n{found['text']}")
                accused += 1
        print(f"{what}: {'false accusations so far' if accused else 'true'} {accused or ''}", flush=True)
    print(f"{count - accused} passed, {accused} failed")
    return 1 if accused else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
