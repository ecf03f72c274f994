"""all_examples.py EXAMPLES FOLDER: compiles each graph of EXAMPLES for each target, compares it on the CPU, and lets ptxas judge the
PTX where it is installed."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

examples, folder = map(pathlib.Path, sys.argv[1:])
folder.mkdir(parents=True, exist_ok=True)
targets = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"]
usual = "/usr/local/cuda/bin/ptxas"
ptxas = shutil.which("ptxas") or (usual if os.access(usual, os.X_OK) else None)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def assembles(target):
    """Whether the installed ptxas is new enough to know the target."""
    return target in subprocess.run([ptxas, "--help"], capture_output=True, text=True).stdout


for graph in sorted(examples.glob("*.ir")):
    text = graph.read_text()
    stated = re.search(r"^module target = (\w+)", text, re.M)
    for target in [stated.group(1)] if stated else targets:
        ptx = folder / f"{graph.stem}.{target}.ptx"
        run("minic", "compile", str(graph), "--emit=ptx", f"--target={target}", "-o", str(ptx))
        if f".target {target}" not in ptx.read_text():
            sys.exit(f"{ptx}: no .target {target}")
        if ptxas and assembles(target):
            run(ptxas, f"-arch={target}", "-o", str(folder / "out.cubin"), str(ptx))
    if re.search(r"^graph ", text, re.M):
        dims = sorted(set(re.findall(r"[<x]([A-Z]\w*?)(?=x)", text)))
        flags = [word for i, name in enumerate(dims) for word in ("--dim", f"{name}={(13, 7, 33, 5)[i]}")]
        run("minic", "compare", str(graph), "--device=cpu", *flags)
print("ok")
