"""line_info.py EXAMPLES FOLDER: with --line-info the PTX of each example has the same instructions, and says where they are from.

Every line that the PTX names is one that an op of the file begins on, and most instructions have one. Where ptxas is installed, the
machine code is the same too, byte for byte, and has lines."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

examples, folder = map(pathlib.Path, sys.argv[1:])
folder.mkdir(parents=True, exist_ok=True)

DIRECTIVE = re.compile(r"\s*\.(loc|file|section)\s|\$L__(func_begin|func_end|tmp)\d+:")
INSTRUCTION = re.compile(r"\t(@%p\d+ +)?[a-z][\w.]*[ \t;]")


def minic(*words):
    done = subprocess.run(["minic", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(good, *what):
    if not good:
        sys.exit(" ".join(map(str, what)))


USUAL = "/usr/local/cuda/bin/ptxas"
PTXAS = shutil.which("ptxas") or (USUAL if os.access(USUAL, os.X_OK) else None)


def machine_code(name, ptx, *flags):
    """The bytes of each kernel, and whether there are lines."""
    source, cubin = folder / f"{name}.ptx", folder / f"{name}.cubin"
    source.write_text(ptx)
    target = re.search(r"^\.target (\w+)", ptx, re.M)[1]
    subprocess.run([PTXAS, f"-arch={target}", *flags, "-o", cubin, source], check=True)
    sections = subprocess.run(["readelf", "-SW", cubin], capture_output=True, text=True, check=True).stdout
    data, code = cubin.read_bytes(), {}
    for match in re.finditer(r"(\.text\.\S+) +PROGBITS +\S+ +(\S+) +(\S+)", sections):
        start, size = int(match[2], 16), int(match[3], 16)
        code[match[1]] = data[start : start + size]
    return code, ".debug_line" in sections


def check(path, *flags):
    plain = minic("compile", path, "--emit=ptx", *flags)
    lined = minic("compile", path, "--emit=ptx", "--line-info", *flags)
    expect(not DIRECTIVE.search(plain), path, flags, "has line info unasked")
    kept = [line for line in lined.splitlines() if not DIRECTIVE.match(line)]
    expect(kept == plain.splitlines(), path, flags, "has other instructions with line info")
    if PTXAS and ".entry" in plain:
        without, has_lines = machine_code("plain", plain)
        expect(without and not has_lines, path, flags, "has lines unasked")
        expect(machine_code("lined", lined, "-lineinfo") == (without, True), path, flags, "has other machine code with line info")
    files = dict(re.findall(r'^\s*\.file\s+(\d+) "(.*)"$', lined, re.M))
    expect(set(files.values()) == {str(path)}, path, files)
    source = path.read_text().splitlines()
    place, with_line, all_instructions = None, 0, 0
    for line in lined.splitlines():
        if match := re.match(r"\s*\.loc\s+(\d+) (\d+) (\d+)", line):
            place = int(match[2])
            if place:
                expect(re.search(r"\w", source[place - 1]), path, flags, "names line", place)
                column = int(match[3])
                expect(source[place - 1][column - 2 : column - 1] in ("", " "), path, flags, "names column", column, "of line", place)
        elif line.startswith("}"):
            place = None
        elif INSTRUCTION.match(line):
            all_instructions += 1
            with_line += bool(place)
    return with_line, all_instructions


for path in sorted([*examples.glob("*.ir"), *(examples / "kernels").glob("*.ir")]):
    if path.name == "wrong_padding.ir":
        continue
    stated = re.search(r"^module target = (\w+)", path.read_text(), re.M)
    for target in [stated[1]] if stated else ["sm_80", "sm_90a"]:
        for flags in ([], ["--mode=eager"]):
            with_line, count = check(path, f"--target={target}", *flags)
            print(f"{path.name} {target} {' '.join(flags)}: {with_line} of {count} instructions")
            expect(count == 0 or with_line > count * 0.5, path, "has few lines")
