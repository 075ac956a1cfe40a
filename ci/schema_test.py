"""What the tool writes for other programs is what docs/schema/ promises: results of check and planted, verdicts of verify, exit statuses; and
junit.xml is read by junitparser and has only what Jenkins' and GitLab's readers know.

Usage: schema_test.py TOOL     status 77: python3-jsonschema or python3-junitparser is not there"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

try:
    import jsonschema
    import junitparser
except ImportError as error:
    system = "/usr/bin/python3"  # which Debian's packages belong to
    if os.path.realpath(sys.executable) != os.path.realpath(system) and os.access(system, os.X_OK):
        os.execv(system, [system, *sys.argv])
    print(f"SKIPPED: {error}; Debian has them as python3-jsonschema and python3-junitparser")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[1]
SMALL = "--matrix --workers 1,2 --cases 2 --density 0.1 --partition by_shard"
# Elements and attributes of the schema that Jenkins publishes with its xUnit plugin; GitLab reads a part of them.
JUNIT = {
    "testsuites": ({"name", "time", "tests", "failures", "errors", "skipped", "disabled"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package", "file", "group", "log", "url", "version"},
                  {"properties", "testcase", "system-out", "system-err"}),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name", "classname", "time", "group", "file", "line", "assertions", "status"}, {"skipped", "error", "failure", "system-out", "system-err"}),
    "failure": ({"message", "type"}, set()), "error": ({"message", "type"}, set()), "skipped": ({"message", "type"}, set()),
    "system-out": (set(), set()), "system-err": (set(), set()),
}


def schema(name):
    return jsonschema.Draft202012Validator(json.loads((ROOT / "docs/schema" / f"{name}.schema.json").read_text(encoding="utf-8")))


class Promises(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def tool(self, command, status, out="result.json"):
        path = self.folder / out
        done = subprocess.run([TOOL, *command.split(), "--json", path], cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertTrue(schema("exit-status").is_valid(done.returncode))
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def holds(self, name, document):
        found = [f"{'/'.join(map(str, error.path))}: {error.message[:300]}" for error in schema(name).iter_errors(document)]
        self.assertEqual(found, [])

    def test_schemas_are_schemas(self):
        for path in (ROOT / "docs/schema").glob("*.json"):
            jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))

    def test_results(self):
        for command, status in ((f"check {SMALL} --implementation host,cuda", 0), ("check --property reference,mask.on --cases 10 --implementation host", 0),
                                ("check --planted 54 --property reference", 1), ("check gasloc --property reference --cases 5", 0),
                                ("check mapl --property reference --cases 5", 0), ("planted --bug 6 --clean-cases 1", 0)):
            with self.subTest(command):
                self.holds("results", self.tool(f"{command} --brief" if command.startswith("check") else command, status))

    def test_verdicts(self):
        self.holds("verdicts", self.tool("verify fixtures/scape/golden/adams_adam.safetensors fixtures/scape/golden/bf16.safetensors", 0))
        self.holds("verdicts", self.tool("verify --level rel fixtures/scape/artifact/disagree/*.safetensors".replace(
            "fixtures/scape/artifact/disagree/*.safetensors", " ".join(map(str, (ROOT / "fixtures/scape/artifact/disagree").glob("*.safetensors")))), 1))

    def test_a_result_of_another_schema_is_refused(self):
        document = self.tool(f"check {SMALL} --implementation host --brief", 0)
        for change in ({"version": 3}, {"young": 1}, {"seed": "one"}):
            self.assertFalse(schema("results").is_valid(document | change), change)
        document["rows"][0]["status"] = "FINE"
        self.assertFalse(schema("results").is_valid(document))
        path = self.folder / "young.json"
        path.write_text(json.dumps(document | {"version": 3}), encoding="utf-8")
        done = subprocess.run([TOOL, "report", "--out", self.folder, path], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)

    def test_a_job_summary(self):
        summary = self.folder / "summary.md"
        said = []
        for command in ("check --planted 54 --property reference --brief", "verify fixtures/scape/golden/adams_adam.safetensors", f"report {self.folder}/54.json"):
            more = ["--json", self.folder / "54.json"] if command.startswith("check") else ["--summary", summary]
            more += ["--out", self.folder] if command.startswith("report") else []
            done = subprocess.run([TOOL, *command.split(), *more], cwd=ROOT, capture_output=True, text=True, check=False,
                                  env=os.environ | {"GITHUB_ACTIONS": "true"})
            self.assertEqual(done.returncode, command.startswith("check"), done.stderr)
            said += done.stdout.splitlines()
            if not command.startswith("report"):
                self.assertRegex(said[-1], r"^\d+ passed, \d+ failed")  # stays the last line
        text = summary.read_text(encoding="utf-8")
        row = r"(?m)^\| property · reference · planted-54 .*\| FAILED \| step 1, residual of rank 0.* \| matches known bug 54.* \| `.* --case .*` \|$"
        self.assertEqual(len(re.findall(row, text)), 1, text)
        self.assertRegex(text, r"(?m)^\| fixtures/scape/golden/adams_adam\.safetensors \| EXACT \| PASSED \|  \|  \| `truestep verify .*` \|$")
        marked = [line for line in said if line.startswith("::error title=truestep::property · reference · planted-54")]
        self.assertEqual(len(marked), 1, said)
        for command in (f"report {self.folder}/54.json --out {self.folder}", "verify fixtures/scape/golden/adams_adam.safetensors"):
            done = subprocess.run([TOOL, *command.split(), "--summary", "/nowhere/at/all"], cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)

    def test_exit_statuses_are_those_of_the_page(self):
        page = (ROOT / "docs/using-the-tool.md").read_text(encoding="utf-8").partition("## Exit status")[2].partition("##")[0]
        rows = re.findall(r"^\| (\d+)(?: and more)? \| (.*) \|$", page, re.MULTILINE)
        promised = json.loads((ROOT / "docs/schema/exit-status.schema.json").read_text(encoding="utf-8"))["oneOf"]
        self.assertEqual(rows, [(str(one.get("const", one.get("minimum"))), one["description"]) for one in promised])

    def expect_junit(self, passed, failed, skipped, errors=0):
        path = self.folder / "junit.xml"
        suites = junitparser.JUnitXml.fromfile(str(path))
        cases = [case for suite in suites for case in suite]
        self.assertEqual(len(cases), passed + failed + skipped + errors)
        self.assertEqual((suites.tests, suites.failures, suites.skipped, suites.errors), (len(cases), failed, skipped, errors))
        self.assertEqual(sum(isinstance(one, junitparser.Failure) for case in cases for one in case.result), failed)
        # GitLab's page of unit test reports, ci/testing/unit_test_reports: of two cases of one class and name it shows the first; of an outcome, its text.
        self.assertTrue(all(case.name and case.classname for case in cases))
        self.assertEqual(len({(case.classname, case.name) for case in cases}), len(cases))
        for element in xml.etree.ElementTree.parse(path).iter():
            attributes, children = JUNIT[element.tag]
            self.assertLessEqual(element.attrib.keys(), attributes, element.tag)
            self.assertLessEqual({child.tag for child in element}, children, element.tag)
            if element.tag in ("failure", "error", "skipped"):
                self.assertTrue(element.text.startswith(element.get("message") or "no message"), element.text)

    def test_junit_is_what_others_read(self):
        for command, status in ((f"check {SMALL} --implementation host,cuda --brief", 0), ("check --planted 54 --property reference --brief", 1)):
            totals = self.tool(command, status)["totals"]
            again = [self.folder / "result.json"] * 2  # as of two machines
            subprocess.run([TOOL, "report", "--out", self.folder, *again], check=True, capture_output=True)
            self.expect_junit(2 * totals["passed"], 2 * totals["failed"], 2 * totals["skipped"])
        runs = ["fixtures/scape/golden/adams_adam.safetensors", *sorted((ROOT / "fixtures/scape/artifact/disagree").glob("*.safetensors"))[:1], "README.md"]
        done = subprocess.run([TOOL, "verify", "--level", "rel", *runs, "--junit", self.folder / "junit.xml"], cwd=ROOT, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        rows = xml.etree.ElementTree.parse(self.folder / "junit.xml").getroot()
        counts = [int(rows.get(name)) for name in ("failures", "skipped", "errors")]
        self.expect_junit(int(rows.get("tests")) - sum(counts), *counts)
        self.assertGreater(counts[0], 0)
        self.assertEqual(counts[2], 1)


if __name__ == "__main__":
    TOOL = pathlib.Path(sys.argv.pop()).resolve()
    unittest.main()
