"""where.py FILE: `minic explain --where` against the texts themselves: every line's place is read from `loc`, `!dbg` and `.loc` here,
and asked for."""

import json
import re
import subprocess
import sys

FILE = sys.argv[1]


def minic(*words):
    done = subprocess.run(["minic", *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout


def expected(level, lined):
    """(line without line info, place) of each line that says a place itself."""
    if level == "ptx":
        place, number, places = None, 0, []
        for line in lined:
            if re.match(r"\s*\.(file|section)\s|\$L__(func_|tmp)", line):
                continue
            if match := re.match(r"\s*\.loc\s+\d+ (\d+) (\d+)", line):
                place = (int(match[1]), int(match[2]))
                continue
            number += 1
            if re.match(r"\t(@%p\d+ )?[a-z]", line):
                places.append((number, place if place and place[0] else None))
        return places
    if level == "llvm":
        nodes = {m[1]: (int(m[2]), int(m[4] or 0)) for m in re.finditer(
            r"^!(\d+) = !DILocation\(line: (\d+)(, column: (\d+))?", "\n".join(lined), re.M)}
        found = [(n, re.search(r"^  .*!dbg !(\d+)", line)) for n, line in enumerate(lined, 1)]
        return [(n, nodes[m[1]] if nodes[m[1]][0] else None) for n, m in found if m]
    found = [(n, re.search(r" loc\((\d+):(\d+)\)$", line)) for n, line in enumerate(lined, 1)]
    return [(n, (int(m[1]), int(m[2]))) for n, m in found if m]


checked = 0
for level in ("fused", "tile", "machine", "llvm", "ptx"):
    lined = minic("compile", FILE, f"--emit={level}", "--line-info").splitlines()
    places = expected(level, lined)
    if not places:
        sys.exit(f"{level}: no places")
    for number, place in places[:: max(1, len(places) // 6)]: # Some of them: each is a compilation.
        answer = json.loads(minic("explain", FILE, f"--where={level}:{number}", "--json"))
        op = answer["op"] and (answer["op"]["line"], answer["op"]["column"])
        if op != place:
            sys.exit(f"{level}:{number}: {op}, expected {place}: {answer['text']}")
        if op and number not in answer["levels"][level]:
            sys.exit(f"{level}:{number} is not among the lines of its own op")
        checked += 1
print(checked, "lines")
