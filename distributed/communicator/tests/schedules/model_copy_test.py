#!/usr/bin/env python3
"""model_copy.py over sources that have changed: what it cannot follow it refuses, and says why.
Usage: model_copy_test.py COMMUNICATOR_FOLDER
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

COPY = pathlib.Path(__file__).with_name("model_copy.py")


def copied(source, file="", found="", new=""):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in ("in_process.cpp", "in_process_group.hpp", "in_process_peers.cpp", "rank_threads.hpp", "workers.cpp",
                     "include/truestep/distributed/peers.hpp", "include/truestep/distributed/workers.hpp"):
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / part, folder / part)
        if file:
            text = (folder / file).read_text(encoding="utf-8")
            assert found in text, f"{file} has no {found}"
            (folder / file).write_text(text.replace(found, new), encoding="utf-8")
        done = subprocess.run([sys.executable, COPY, folder, folder / "out"], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


def refused(text, *change):
    status, said = copied(*change)
    assert status == 1 and text in said, (change[1:], status, said)


folder = pathlib.Path(sys.argv[1])
assert copied(folder) == (0, "")
refused("mistake 5: stands 0 times", folder, "in_process_group.hpp", "{ const std::lock_guard lock(mutex_); } //", "//")
refused("mistake 14: stands 2 times", folder, "workers.cpp", "if (--busy_ == 0)", "if (--busy_ == 0)\n;if (--busy_ == 0)")
refused("mistake 23: stands 0 times", folder, "in_process_peers.cpp", "if (box.closed)", "if (box.is_closed)")
refused("tuned: stands 0 times", folder, "in_process_group.hpp", "looks = 64", "looks = 65")
refused("the model has no std::shared_mutex", folder, "in_process_group.hpp", "std::mutex mutex_;", "std::shared_mutex mutex_;")
refused("the model has no memory_order", folder, "in_process_group.hpp", "posted.load()", "posted.load(std::memory_order_relaxed)")
refused("the model has no std::atomic_flag", folder, "workers.cpp", "void Workers::stop() {", "void Workers::stop() { std::atomic_flag f;")
