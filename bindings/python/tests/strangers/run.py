"""Runs trainings of this folder, or of the one above, on ranks: run.py MODULE FUNCTION WORLD FOLDER [OPTIONS as JSON]. Exit status 1 if a rank fails.

OPTIONS may be a list: so many trainings, which load the framework once. The n-th is in FOLDER/n, from 0 on."""

import datetime
import functools
import importlib
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import torch  # noqa: E402

try:
    import torch._dynamo  # noqa: F401 - which each rank would load for itself
except ImportError:
    pass
import watched_ranks  # noqa: E402

watched_ranks.TIMEOUT = datetime.timedelta(seconds=120)
watched_ranks.LIMIT = 600  # one release compiles an Adam first

if __name__ == "__main__":
    module, function, world, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    options = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    training = getattr(importlib.import_module(module), function)
    print("torch", torch.__version__, module)
    failed = False
    for number, of_one in enumerate(options if isinstance(options, list) else [options]):
        place = Path(folder, str(number)) if isinstance(options, list) else Path(folder)
        place.mkdir(exist_ok=True)
        statuses = watched_ranks.run(functools.partial(training, folder=str(place), **of_one), world, str(place), watched=False)
        print("\n".join(f"{of_one}: {path.read_text()}" for path in place.glob("error*")))
        failed |= any(statuses)
    sys.exit(failed)
