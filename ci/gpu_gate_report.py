"""What ci/gpu-gate leaves: RESULT.json, beside it RESULT.txt, one screen, and RESULT.tar.gz with the log of each phase. They are written anew after
each phase, so that whatever ends the gate, what it had is there, and --continue begins from these three files alone.

Usage: gpu_gate_report.py begin RESULT.json WORK KEY=VALUE...   KEYs: commit, gpus, no_gpu, simulated, planned, continue, built
                                                                prints the phases that need not be run again
       gpu_gate_report.py add RESULT.json WORK NAME STATUS SECONDS LIMIT EXIT-STATUS REASON COMMAND
       gpu_gate_report.py show RESULT.json WORK                 prints the screen; ends with 1 where a phase has failed or is missing
"""
import datetime
import fcntl
import io
import json
import os
import pathlib
import sys
import tarfile

FORMAT = "scape-gpu-gate 2"
CHECKS = ("cuda", "gasloc", "mapl", "dense", "cuda-nccl", "planted", "planted-gasloc", "planted-mapl",
          "planted-dense")
ALWAYS = ("environment", "probe")  # of this machine, whatever was there before
LINES_OF_A_FAILURE = 3
COLUMNS = 160


def die(text):
    print(f"ci/gpu-gate: {text}", file=sys.stderr)
    sys.exit(2)


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def json_of(path):
    try:
        return json.loads(text_of(path))
    except ValueError:
        return None


def replace(path, data):
    """Replaces a file atomically, so that readers find the old or the new one, whenever this process is
    killed."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(data)
    os.replace(new, path)


def tar_of(work):
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as tar:
        for path in sorted(work.iterdir()):
            if path.suffix in (".log", ".json", ".out"):
                tar.add(path, path.name)
    return found.getvalue()


def missing(whole):
    return [name for name in whole["planned"] if all(phase["name"] != name for phase in whole["phases"])]


def write(result, work, whole):
    count = {status: sum(phase["status"] == status for phase in whole["phases"]) for status in ("PASSED", "FAILED", "SKIPPED")}
    whole["status"] = "FAILED" if count["FAILED"] else "UNFINISHED" if missing(whole) else "SKIPPED" if whole["reason"] else "PASSED"
    replace(result.with_suffix(".tar.gz"), tar_of(work))
    replace(result.with_suffix(".txt"), ("\n".join(screen(whole, work, count)) + "\n").encode())
    replace(result, (json.dumps(whole, indent=1) + "\n").encode())  # the last, since --continue goes by it


def screen(whole, work, count):
    """About forty lines: what was measured and checked where, and how to repeat a failure, with its last
    words."""
    lines = [f"ci/gpu-gate, commit {whole['commit']}, {whole['gpus']} GPUs, {whole['time']}" + (", SIMULATED: no device" if whole["simulated"] else ""),
             *whole["environment"], ""]
    for phase in whole["phases"]:
        lines.append(f"{phase['name']:<16} {phase['status']:<8} {phase['seconds']:>4} s of {phase['limit']:>3}  {phase['reason']}")
        if phase["status"] == "FAILED":
            said = text_of(work / f"{phase['name']}.log").splitlines()[1:]
            lines += [f"    {line}" for line in ["$ " + phase["command"], *said[-LINES_OF_A_FAILURE:]]]
    lines += [f"{name:<16} not run: the gate was ended before; --continue takes it up" for name in missing(whole)]
    goals = (whole["benchmarks"] or {}).get("goals", [])
    lines += ["", *(f"{goal['verdict']:<12} {goal['goal']}" + (f": {goal['measured']:.4g}, goal {goal['limit']:g}" if goal["measured"] is not None else "")
                    for goal in goals)]
    lines += text_of(work / "predicted.log").splitlines()[1:][-2:] if whole["benchmarks"] else []
    lines.append(f"{count['PASSED']} passed, {count['FAILED']} failed, {count['SKIPPED']} skipped" +
                 (f", {len(missing(whole))} not run" if missing(whole) else ""))
    return [line[:COLUMNS] for line in lines]


def begin(result, work, settings):
    commit, device = settings["commit"], settings["device"]
    whole = {"format": FORMAT, "status": "UNFINISHED", "reason": settings["no_gpu"], "commit": commit, "gpus": int(settings["gpus"]), "device": device,
             "simulated": settings["simulated"] != "", "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
             "planned": settings["planned"].split(), "environment": [], "phases": [], "check": dict.fromkeys(CHECKS), "benchmarks": None}
    if settings["continue"] and result.exists():
        before = json_of(result)
        if before is None or before.get("format") != FORMAT:
            die(f"{result} is not a result of this gate, so --continue cannot resume it; give another name")
        for key in ("commit", "device", "simulated"):
            if before[key] != whole[key]:
                die(f"{result} is of {key} '{before[key]}', and this is '{whole[key]}': results of two do not mix; leave --continue out")
        logs = result.with_suffix(".tar.gz")
        if logs.exists():
            with tarfile.open(logs) as tar:
                for member in tar.getmembers():
                    if member.isfile() and "/" not in member.name:
                        (work / member.name).write_bytes(tar.extractfile(member).read())
        kept = [phase for phase in before["phases"] if phase["status"] == "PASSED" and phase["name"] not in ALWAYS and
                (phase["name"] != "build" or settings["built"])]
        whole.update(phases=kept, check=before["check"], benchmarks=before["benchmarks"])
    write(result, work, whole)
    print(*(phase["name"] for phase in whole["phases"]))


def add(result, work, name, status, seconds, limit, code, reason, command):
    one_at_a_time = open(work / "lock", "w")  # closed, and so given back, when this process ends
    fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
    whole = json_of(result)
    phase = {"name": name, "status": status, "seconds": int(seconds), "limit": int(limit), "reason": reason,
             "exit_status": None if code == "-" else int(code), "command": command}
    order = whole["planned"].index
    whole["phases"] = sorted([*(one for one in whole["phases"] if one["name"] != name), phase], key=lambda one: order(one["name"]))
    if name == "environment":
        whole["environment"] = text_of(work / "environment.log").splitlines()[1:]
    if name in CHECKS:
        whole["check"][name] = json_of(work / f"{name}.json")
    if name == "bench":
        whole["benchmarks"] = json_of(work / "bench.json")
    write(result, work, whole)


def main():
    what, result, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    if what == "begin":
        begin(result, work, dict(pair.split("=", 1) for pair in sys.argv[4:]))
    elif what == "add":
        add(result, work, *sys.argv[4:])
    else:
        print(text_of(result.with_suffix(".txt")), end="")
        return int((json_of(result) or {}).get("status") in ("FAILED", "UNFINISHED"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
