#!/usr/bin/env python3
"""Checks that every row of Passes.def has its file lib/Transforms/**/<Function>.cpp and its test test/Transforms/<name>.ir, which
runs the pass.

    check_passes.py ROOT           checks a source tree; exit 1 if it finds a fault
    check_passes.py --self-test    plants faults in a small tree and checks that each is found
"""

import pathlib
import re
import sys
import tempfile

TABLE = "include/minic/Transforms/Passes.def"
ROW = re.compile(r'^MINIC_PASS\(\s*(\w+)\s*,\s*"([^"]*)"', re.M)


def check(root):
    root = pathlib.Path(root)
    rows = ROW.findall((root / TABLE).read_text())
    faults = [] if rows else [f"{TABLE}: no rows"]
    bodies = {path.name for path in (root / "lib/Transforms").rglob("*.cpp")}
    for function, name in rows:
        if re.sub(r"[A-Z]", lambda m: "-" + m.group().lower(), function) != name:
            faults.append(f'{TABLE}: the flag of {function} should be its name in kebab case, not "{name}"')
        body = function[0].upper() + function[1:] + ".cpp"
        if body not in bodies:
            faults.append(f"{name}: no lib/Transforms/**/{body}")
        test = root / "test/Transforms" / f"{name}.ir"
        if not test.is_file():
            faults.append(f"{name}: no test/Transforms/{name}.ir")
        elif not re.search(rf"RUN:.*\b{re.escape(name)}\b", test.read_text()):
            faults.append(f"test/Transforms/{name}.ir: no RUN line names the pass")
    return faults


def self_test():
    base = {
        TABLE: 'MINIC_PASS(fuse, "fuse", a, b, "x")\nMINIC_PASS(planBuffers, "plan-buffers", a, b,\n           "x")\n',
        "lib/Transforms/Graph/Fuse.cpp": "",
        "lib/Transforms/Machine/PlanBuffers.cpp": "",
        "test/Transforms/fuse.ir": "// RUN: minic opt --passes=fuse %s\n",
        "test/Transforms/plan-buffers.ir": "// RUN: minic opt --passes=plan-buffers %s\n",
    }
    planted = {
        "no body": {"lib/Transforms/Machine/PlanBuffers.cpp": None},
        "no test": {"test/Transforms/fuse.ir": None},
        "a test of something else": {"test/Transforms/fuse.ir": "// RUN: minic opt %s\n"},
        "another flag": {TABLE: 'MINIC_PASS(planBuffers, "planBuffers", a, b, "x")\n'},
    }
    failures = 0
    for title, files in {"no fault": {}, **planted}.items():
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**base, **files}.items():
                if text is not None:
                    path = pathlib.Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
            found = check(folder)
        good = bool(found) == bool(files)
        failures += not good
        print(f"{'ok' if good else 'FAILED'}: {title}: {found or 'nothing found'}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    faults = check(sys.argv[1])
    for fault in faults:
        print(fault)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
