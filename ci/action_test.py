#!/usr/bin/env python3
"""The GitHub Action of ci/action/ and the GitLab template: their YAML is read, and the steps that verify are run, on a run that passes, on
one that does not, and on a file that is missing.

Usage: ci/action_test.py TOOL RIGHT WRONG     two traces; needs python3-yaml
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "### truestep verify\n\n| run | level | verdict | why | looks like | repeat with |\n|---|---|---|---|---|---|\n"
faults = []


def check(what, holds):
    if not holds:
        faults.append(what)


def shell(commands, folder, environment):
    """As both servers run a step: it ends with the first command that fails."""
    return subprocess.run(["bash", "-e", "-c", commands], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, timeout=300)


def action(folder, environment, **inputs):
    """Runs the last step of the action; its status, output and summary."""
    definition = yaml.safe_load((ROOT / "ci/action/action.yml").read_text(encoding="utf-8"))
    check("the action is not composite", definition["runs"]["using"] == "composite")
    for step in definition["runs"]["steps"]:
        check(f"the step {step['name']} names no shell", "shell" in step)
        check(f"the step {step['name']} does not parse", subprocess.run(["bash", "-n", "-c", step["run"]], check=False).returncode == 0)
    values = {f"${{{{ inputs.{name} }}}}": inputs.get(name, given.get("default", "")) for name, given in definition["inputs"].items()}
    step = definition["runs"]["steps"][-1]
    summary = folder / "summary.md"
    summary.unlink(missing_ok=True)
    ended = shell(step["run"], folder, environment | {name: values[value] for name, value in step["env"].items()} | {
        "GITHUB_ACTIONS": "true", "GITHUB_ACTION_PATH": str(ROOT / "ci/action"), "GITHUB_STEP_SUMMARY": str(summary)})
    return ended.returncode, ended.stdout, summary.read_text(encoding="utf-8") if summary.exists() else ""


def gitlab(folder, environment, **variables):
    """Runs the last command of the template's script, as in a clone."""
    template = yaml.safe_load((ROOT / "ci/templates/gitlab-ci.yml").read_text(encoding="utf-8"))
    job = template["truestep"]
    check("the template's job has no timeout", "timeout" in job)
    check("the template does not keep its results", job["artifacts"]["paths"] == ["verdicts.md"] and job["artifacts"]["reports"] == {"junit": "pytest.xml"})
    for line in job["before_script"] + job["script"]:
        check(f"does not parse: {line}", subprocess.run(["bash", "-n", "-c", line], check=False).returncode == 0)
    check("the script does not write that JUnit", "--junitxml=pytest.xml" in job["script"][0])
    ended = shell(job["script"][-1], folder, environment | template["variables"] | variables)
    return ended.returncode, ended.stdout, (folder / "verdicts.md").read_text(encoding="utf-8")


def main():
    tool, right, wrong = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "bin/truestep").symlink_to(tool)
        (folder / "traces").mkdir()
        (folder / "traces/right.safetensors").symlink_to(right)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}
        environment["PATH"] = f"{folder}/bin:{environment['PATH']}"
        passed = "| traces/right.safetensors | EXACT | PASSED |  |  | `truestep verify traces/right.safetensors --level exact` |\n"

        status, output, summary = action(folder, environment, traces="traces/*.safetensors")
        check(f"a right run: status {status}\n{output}{summary}", status == 0 and summary == TABLE + passed + "\n" and "::error" not in output)
        status, output, summary = gitlab(folder, environment, TRUESTEP_LEVEL="exact")
        check(f"a right run on GitLab: status {status}\n{output}{summary}", status == 0 and summary == TABLE + passed + "\n")

        (folder / "traces/wrong.safetensors").symlink_to(wrong)
        place = "step 1, phase residual, residual of rank 0, tensor embed, index 0"
        bug = "the residual is not cleared where it was sent: "
        failed = re.compile(rf"(?m)^\| traces/wrong\.safetensors \| EXACT \| FAILED \| {place}.* \| {bug}.* \| `.*` \|$")
        status, output, summary = action(folder, environment, traces="traces/*.safetensors nothing.safetensors")
        check(f"a wrong run and none: status {status}\n{output}{summary}", status == 2 and passed in summary and failed.search(summary))
        check(f"no line of the error in\n{output}", f"::error title=truestep::traces/wrong.safetensors: FAILED: {place}" in output and f"; {bug}" in output)
        check(f"no line of the missing file in\n{output}", "::error title=truestep::nothing.safetensors: BAD INPUT: " in output)
        status, output, summary = action(folder, environment, traces="traces/wrong.safetensors")
        check(f"a wrong run: status {status}", status == 1)
        status, output, summary = action(folder, environment, traces="traces/right.safetensors", level="nonsense")
        check(f"a level that is none: status {status}\n{output}{summary}", status == 2 and "nonsense" in output)
        (folder / "verdicts.md").unlink()
        status, output, summary = gitlab(folder, environment, TRUESTEP_LEVEL="exact")
        check(f"a wrong run on GitLab: status {status}\n{output}{summary}", status == 1 and failed.search(summary) and "::error" not in output)
    for fault in faults:
        print(f"ci/action_test.py: {fault}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
