#!/usr/bin/env python3
"""Makes the bundle of a build, unpacks it into an empty folder and judges what is there.

    check_bundle.py BUILD      BUILD: a folder that was configured with MINIC_STATIC_LLVM and built

Checks sizes, what the binaries need and show, that the program runs, that examples/embed builds and runs against it, and that GPU
tests start. Needs cmake, a C++ compiler, nm and readelf.
"""

import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

import check_libraries

MB = 1_000_000
# Bytes: what a download and an installation may cost.
ARCHIVE, UNPACKED, RUNTIME = 20 * MB, 60 * MB, 2 * MB
GLIBC = (2, 36)  # Debian 12, Ubuntu 24.04.

faults = []


def expect(good, message):
    if not good:
        faults.append(message)


def run(*command, cwd=None, **environment):
    """Standard output; without the caller's environment, so nothing but the bundle and the system can be found."""
    environment |= {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def pack(build, scratch):
    """The paths of the main archive and of that of the tests."""
    run("cpack", "--config", build / "CPackConfig.cmake", "-B", scratch)
    tests = next(scratch.glob("minic-*-tests.tar.gz"))
    return tests.with_name(tests.name.replace("-tests.tar.gz", ".tar.gz")), tests


def unpack(archive, folder):
    """The one folder that is in all of the archive's names."""
    with tarfile.open(archive) as tar:
        files = [member.name for member in tar.getmembers() if not member.isdir()]
        expect(len(files) == len(set(files)), f"{archive.name} has a file twice")
        tops = {name.split("/")[0] for name in files}
        expect(tops == {archive.name.removesuffix(".tar.gz").removesuffix("-tests")}, f"{archive.name} has at its top {tops}")
        tar.extractall(folder)
    return folder / tops.pop()


def bytes_of(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def check_binaries(root, build):
    cache = (build / "CMakeCache.txt").read_text()
    source = next(line.split("=", 1)[1] for line in cache.splitlines() if line.startswith("CMAKE_HOME_DIRECTORY:"))
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        expect(source.encode() not in data, f"{path.relative_to(root)} names the folder that it was built in")
        if data[:4] == b"\x7fELF":
            faults.extend(check_libraries.check(path, alone=True))
            expect(check_libraries.newest_glibc(path) <= GLIBC, f"{path.name} needs glibc {check_libraries.newest_glibc(path)}")
            sections = check_libraries.run("readelf", "-S", "-W", str(path))
            expect(".debug_info" not in sections and ".symtab" not in sections, f"{path.name} is not stripped")
    runtime = (root / "lib/libminic_runtime.so").stat().st_size
    expect(runtime <= RUNTIME, f"libminic_runtime.so has {runtime} bytes, more than {RUNTIME}")
    print(f"libminic.so {(root / 'lib/libminic.so').stat().st_size} bytes, libminic_runtime.so {runtime} bytes")


def check_program(root):
    minic = root / "bin/minic"
    expect(run(minic, "--version").startswith("minic "), "bin/minic --version")
    examples = root / "share/minic/examples"
    y = run(minic, "run", examples / "linear_relu.ir", "--device=cpu", "--input", "x=[[1,-2,3],[0,1,-1]]", "--input",
            "w=[[1,2],[0,-1],[-1,1]]", "--input", "b=[0.5,-1]")
    expect(y == "y: tensor<2x2xf32> = [[0, 6], [1.5, 0]]\n", f"bin/minic run printed {y}")
    for target in "sm_80", "sm_90a":
        ptx = run(minic, "compile", examples / "softmax.ir", "--emit=ptx", f"--target={target}")
        expect(f".target {target}" in ptx, f"bin/minic compile --target={target} printed {ptx[:200]}")
    print(run(minic, "doctor"), end="")
    for page, place in (("man", "man/man1/minic.1"), ("completion-bash", "bash-completion/completions/minic"),
                        ("completion-zsh", "zsh/site-functions/_minic"), ("completion-fish", "fish/vendor_completions.d/minic.fish"),
                        ("grammar", "minic/editors/vscode/syntaxes/minic.tmLanguage.json")):
        expect((root / "share" / place).read_text() == run(minic, "doc", page), f"share/{place} is not what minic doc {page} writes")


def check_embedding(root, work):
    run("cmake", "-S", root / "share/minic/examples/embed", "-B", work, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={root}",
        "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", work)
    y = run(work / "embed")
    expect(y == "y = [[0, 6], [1.5, 0]]\n", f"examples/embed printed {y}")
    dynamic = check_libraries.run("readelf", "-d", "-W", str(work / "embed"))
    expect(any(name.startswith("libminic.so") for name in check_libraries.needed(dynamic)), "examples/embed does not use libminic.so")


def check_runtime_component(root, work):
    """A program that asks for the runtime alone gets minic::runtime, and can ask it something."""
    work.mkdir()
    (work / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(runtime_only LANGUAGES CXX)\n"
        "find_package(minic REQUIRED COMPONENTS runtime)\nadd_executable(runtime_only main.cpp)\n"
        "target_link_libraries(runtime_only PRIVATE minic::runtime)\n")
    (work / "main.cpp").write_text('#include "minic/Runtime/Client.h"\n#include <cstdio>\n'
                                   'int main() { std::string why; std::puts(minic::cudaAvailable(why) ? "gpu" : "no gpu"); }\n')
    run("cmake", "-S", work, "-B", work / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={root}")
    run("cmake", "--build", work / "build")
    said = run(work / "build/runtime_only")
    expect(said in ("gpu\n", "no gpu\n"), f"a program with minic::runtime printed {said}")


def check_c(root, work):
    run("cmake", "-S", root / "share/minic/examples/c", "-B", work, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={root}")
    run("cmake", "--build", work)
    y = run(work / "softmax")
    expect(y == "y = [0.0900, 0.2447, 0.6652]\n", f"examples/c printed {y}")  # exp(0), exp(1), exp(2) over their sum, 11.1073.


def check_python(root):
    program = ("import array, minic\n"
               "graph = 'graph @g(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\\n %y = add %x, %x : tensor<Nxf32>\\n return %y\\n}'\n"
               "x = minic.Tensor((3,), 'f32', 'cpu')\n"
               "x.write(array.array('f', [1, 2, 3]))\n"
               "y = minic.compile(graph).load('cpu')(x)\n"
               "print(array.array('f', y.tobytes()).tolist(), minic.__file__)")
    said = run(sys.executable, "-B", "-c", program, PYTHONPATH=str(root / "python"))
    expect(said == f"[2.0, 4.0, 6.0] {root / 'python/minic/__init__.py'}\n", f"the Python package printed {said}")


def check_tests(root):
    """The programs and scripts start where they are. Without a GPU they have little to do."""
    for program in sorted((root / "test/bin").iterdir()):
        print(program.name, run(program, "--gtest_brief=1", cwd=root).strip().splitlines()[-1])
    run(sys.executable, "-B", root / "test/gpu/check_gpu.py", "--help")
    for name in "check_gpu.py", "../bench/peers.py", "../bench/cold_start.py", "../python/test_minic.py", "../run":
        expect((root / "test/gpu" / name).exists(), f"there is no test/gpu/{name}")
    expect((root / "examples/softmax.ir").exists(), "tests find no examples")


def main(build):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        archive, tests = pack(build, scratch / "packed")
        root = unpack(archive, scratch / "unpacked")
        size, unpacked = archive.stat().st_size, bytes_of(root)
        print(f"{archive.name}: {size / MB:.1f} MB, unpacked {unpacked / MB:.1f} MB; {tests.name}: {tests.stat().st_size / MB:.1f} MB")
        expect(size <= ARCHIVE, f"{archive.name} has {size} bytes, more than {ARCHIVE}")
        expect(unpacked <= UNPACKED, f"{archive.name} unpacks to {unpacked} bytes, more than {UNPACKED}")
        expect(unpack(tests, scratch / "unpacked") == root, "the tests unpack elsewhere")
        check_binaries(root, build)
        check_program(root)
        check_embedding(root, scratch / "embed")
        check_c(root, scratch / "c")
        check_runtime_component(root, scratch / "runtime")
        check_python(root)
        check_tests(root)
    print("\n".join(faults) or "no faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
