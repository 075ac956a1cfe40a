"""Starts a training script, a process a rank."""

import subprocess
import sys
from pathlib import Path

LIMIT = 300  # seconds, against a hang; nothing depends on it


def run(script: Path, ranks: int, folder: str, mistake: str = "") -> list[tuple[int, str]]:
    """Each rank's exit status and what it said."""
    arguments = [mistake] if mistake else []
    processes = [subprocess.Popen([sys.executable, str(script), str(rank), str(ranks), folder, *arguments], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for rank in range(ranks)]
    try:
        said = [process.communicate(timeout=LIMIT)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, said)]
