#!/usr/bin/env python3
"""Runs the commands of a page and compares what they print with what the page shows.

    check_console.py PAGE [--examples DIR] [--update]

A block ```console has commands behind `$ ` and below each what it prints, on both streams. A line `...` stands for any lines, `[...]` within
a line for anything there. Words behind `console` say more: `varies`: numbers are compared as numbers of any size; `gpu`: only where there
is a GPU. A block ```ir FILE is a file that the reader makes. All of a page runs in one
empty folder with `examples` in it, in order, with a cache of its own. --update writes what was printed into the page, for blocks without
`...` and `[...]`.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)\s*(.*)$")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
LONGEST = 120  # Seconds of one command.


def blocks_of(lines):
    """(language, words, first line, line behind the last) of each fenced block; lines count from 0."""
    start, head = None, None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if not fence:
            continue
        if start is None:
            start, head = number + 1, (fence.group(1), fence.group(2).split())
        else:
            yield *head, start, number
            start = None
    if start is not None:
        sys.exit(f"line {start}: the block has no end")


def commands_of(lines, start, end):
    """(command, first line of output, line behind it)."""
    number = start
    while number < end:
        if not lines[number].startswith("$ "):
            sys.exit(f"line {number + 1}: expected a command behind `$ `")
        command = lines[number][2:]
        while command.endswith("\\"):
            number += 1
            command = command[:-1] + lines[number].lstrip()
        first = number = number + 1
        while number < end and not lines[number].startswith("$ "):
            number += 1
        yield command, first, number


def has_gpu(environment):
    doctor = subprocess.run(["minic", "doctor", "--json"], capture_output=True, text=True, env=environment)
    return '"can_run_on_gpu":true' in doctor.stdout


def printed_by(command, folder, environment):
    try:
        done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return [f"(nothing within {LONGEST} s)"]
    lines = [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]
    # What device it is differs, and is not what the page is about.
    return [line for line in lines if not line.startswith("note: running on the interpreter")] if lines != [""] else []


def pattern_of(expected, varies):
    """A regular expression for whole outputs, each line with its end."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        parts = []
        for part in line.rstrip().split("[...]"):
            if varies:
                pieces, at = [], 0
                for number in NUMBER.finditer(part):
                    pieces += [re.sub(r"(\\ )+", " +", re.escape(part[at:number.start()])), NUMBER.pattern]
                    at = number.end()
                parts.append("".join(pieces) + re.sub(r"(\\ )+", " +", re.escape(part[at:])))
            else:
                parts.append(re.escape(part))
        pattern += ".*?".join(parts) + r"[ ]*\n"
    return pattern


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("page")
    parser.add_argument("--examples", required=True)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    lines = open(options.page, encoding="utf-8").read().split("\n")
    failures, count, left_out, edits = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(options.examples), os.path.join(folder, "examples"))
        environment = {**os.environ, "MINIC_CACHE_DIR": os.path.join(folder, ".cache"), "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
        for language, words, start, end in blocks_of(lines):
            if language == "ir" and words:
                with open(os.path.join(folder, os.path.basename(words[0])), "w", encoding="utf-8") as file:
                    file.write("\n".join(lines[start:end]) + "\n")
            if language != "console":
                continue
            if "gpu" in words and not has_gpu(environment):
                left_out += 1
                continue
            for command, first, last in commands_of(lines, start, end):
                count += 1
                expected, printed = lines[first:last], printed_by(command, folder, environment)
                text = "".join(line + "\n" for line in printed)
                if re.fullmatch(pattern_of(expected, "varies" in words), text):
                    continue
                if options.update and not any(line.strip() == "..." or "[...]" in line for line in expected):
                    edits.append((first, last, printed))
                    continue
                failures += 1
                print(f"{options.page}:{first}: $ {command}\n  the page has\n" + "".join(f"    {line}\n" for line in expected) +
                      "  it prints\n" + "".join(f"    {line}\n" for line in printed))
    for first, last, printed in reversed(edits):
        lines[first:last] = printed
    if edits:
        open(options.page, "w", encoding="utf-8").write("\n".join(lines))
    print(f"{count} commands, {failures} print something else, {len(edits)} were updated; {left_out} blocks need a GPU")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
