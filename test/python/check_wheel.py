#!/usr/bin/env python3
"""Makes a wheel of a library, installs it into a fresh environment without a network, and runs a graph with it."""

import os
import pathlib
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools/python"
PROGRAM = r"""
import array, minic
assert "site-packages" in minic.__file__, minic.__file__
graph = "graph @g(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n %y = add %x, %x : tensor<Nxf32>\n return %y\n}"
twice = minic.compile(graph).load("cpu")
x = minic.Tensor((3,), "f32", "cpu")
x.write(array.array("f", [1, 2, 3]))
assert list(array.array("f", twice(x).tobytes())) == [2, 4, 6]
print(minic.version())
"""


def run(*command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode:
        sys.exit(f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    library, self_contained = sys.argv[1], "--self-contained" in sys.argv
    platform = [] if self_contained else ["--platform", "linux_x86_64"]
    environment = {name: value for name, value in os.environ.items() if name not in ("MINIC_LIBRARY", "PYTHONPATH")}
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-B", TOOLS / "build_wheel.py", "--library", library, "--output", folder, *platform]
        wheel = run(*build).strip()
        first = pathlib.Path(wheel).read_bytes()
        run(*build)
        assert pathlib.Path(wheel).read_bytes() == first, "two builds of one wheel differ"
        venv = pathlib.Path(folder, "venv")
        run(sys.executable, "-m", "venv", venv)
        run(venv / "bin/python", "-m", "pip", "install", "--no-index", "--quiet", wheel)
        print(pathlib.Path(wheel).name, len(first), "bytes")
        print(run(venv / "bin/python", "-c", PROGRAM, env=environment, cwd=folder))
        if not self_contained:
            refused = subprocess.run([str(part) for part in build[:-2]], capture_output=True, text=True)
            assert refused.returncode == 1 and "needs LLVM where it runs" in refused.stderr, refused


if __name__ == "__main__":
    main()
