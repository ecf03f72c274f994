"""What hits and what misses, through the command line: the same content from elsewhere is found; whatever an artifact or a cubin
follows from is not, and `minic cache why` names the field.

    cache_key.py MINIC LIBRARY FOLDER FAKE_DRIVER
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

MINIC, LIBRARY, FOLDER, DRIVER = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
GRAPH = """minic 1
graph @g(%x: tensor<MxNxf32>, %s: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {
  %k = constant 1.5 : tensor<MxNxf32>
  %m = reduce max %x, axes = [1] : tensor<Mxf32>
  %b = broadcast %m, dims = [0] : tensor<MxNxf32>
  %d = sub %x, %b : tensor<MxNxf32>
  %e = exp %d : tensor<MxNxf32>
  %p = mul %e, %k : tensor<MxNxf32>
  %y = rmsnorm %p, %s, axes = [1], eps = 1e-05 : tensor<MxNxf32>
  return %y
}
"""
BASE = ["--target=sm_80", "--dim", "M=4", "--dim", "N=8"]
checked = 0


def expect(good, what, detail=""):
    global checked
    checked += 1
    if not good:
        sys.exit(f"{what}: {detail}")


def minic(*words, cache=FOLDER / "cache", **more):
    environment = {**os.environ, "MINIC_CACHE_DIR": str(cache), **more.pop("env", {})}
    return subprocess.run([MINIC, *map(str, words)], env=environment, capture_output=True, text=True, **more)


def write(name, text):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def why(*words, **more):
    done = minic("cache", "why", *words, "--json", **more)
    expect(done.returncode == 0, words, done.stdout + done.stderr)
    return json.loads(done.stdout)


def compiles_without_compiling(path, *flags, **more):
    return minic("compile", path, *flags, "--cache=must-hit", "-o", FOLDER / "out.mnc", **more)


def hits(what, path, *flags, **more):
    answer = why(path, *flags, **more)
    expect(answer["kept"], what, answer)
    done = compiles_without_compiling(path, *flags, **more)
    expect(done.returncode == 0, what, done.stderr)


def misses(what, differing, path, *flags, **more):
    """These fields and nothing else differ, and `why` says so for people too."""
    answer = why(path, *flags, **more)
    expect(not answer["kept"], what, "kept")
    fields = [one["name"] for one in answer["nearest"]["fields"]]
    expect(fields == differing.split(), what, f"differs in {fields}, expected {differing}")
    head, *lines = minic("cache", "why", path, *flags, **more).stdout.splitlines()
    expect(head.startswith("not kept; nearest: "), what, head)
    expect([line.split(":")[0].split(",")[0] for line in lines] == fields, what, lines)
    done = compiles_without_compiling(path, *flags, **more)
    expect(done.returncode == 3 and "[E0910]" in done.stderr, what, done.stderr)


def changed(old, new):
    expect(GRAPH.count(old) == 1, old, "stands elsewhere too")
    return GRAPH.replace(old, new)


def other_build(library, folder):
    """A copy with one digit of its build id changed, as another build of the same sources has it."""
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True).stdout
    build = bytes.fromhex(notes.split("Build ID: ")[1].split()[0])
    data = library.read_bytes()
    expect(data.count(build) == 1, library, "its build id is not there once")
    folder.mkdir()
    (folder / library.name).write_bytes(data.replace(build, bytes([build[0] ^ 1]) + build[1:]))
    return {"LD_LIBRARY_PATH": str(folder)}


base = write("g.ir", GRAPH)
done = minic("compile", base, *BASE, "-o", FOLDER / "out.mnc")
expect(done.returncode == 0, "base", done.stderr)
key = why(base, *BASE)["key"]

# The same content.
hits("itself", base, *BASE)
hits("another directory and name", write("other/h.ir", GRAPH), *BASE)
hits("another current directory", "../g.ir", *BASE, cwd=FOLDER / "other")
hits("other lines", write("lines.ir", "\n\n" + GRAPH.replace("  %k", "\n\n  %k")), *BASE)
hits("comments", write("comments.ir", "// by somebody\n" + GRAPH.replace("  %m", "  // the largest\n  %m")), *BASE)
hits("spaces", write("spaces.ir", GRAPH.replace(" = ", "   =  ").replace("  %", "\t%")), *BASE)
hits("the same number", write("number.ir", changed("1.5", "15e-1")), *BASE)
hits("the target in the text", write("stated.ir", changed("minic 1\n", "minic 1\nmodule target = sm_80\n")), *BASE[1:])
hits("numerics in the text", write("stated.ir", changed("minic 1\n", "minic 1\nmodule numerics = default\n")), *BASE)
hits("defaults that are stated", base, *BASE, "--numerics=default", "--mode=fused", "--strides=any", "--matmul=auto")
hits("the order of flags", base, "--dim", "N=8", "--target=sm_80", "--dim", "M=4")
hits("another environment", base, *BASE, env={"HOME": "/nowhere", "USER": "somebody", "LANG": "C.UTF-8", "TZ": "Asia/Tokyo"})

# Another user, with a directory of their own that has the same entries.
if os.getuid() == 0:
    user = 65534
    theirs = FOLDER / "theirs"
    shutil.copytree(FOLDER / "cache", theirs)
    for path in (theirs, *theirs.iterdir()):
        os.chown(path, user, user)
    as_user = {"cache": theirs, "user": user, "group": user, "extra_groups": []}
    try:
        answer = why(base, *BASE, **as_user)
        expect(answer["key"] == key and answer["kept"], "another user", answer)
    except PermissionError:
        print("another user cannot start minic here")

# One character, or one word, of what it follows from.
for old, new in (
    ("constant 1.5", "constant 2.5"),
    ("reduce max", "reduce min"),
    ("exp %d", "erf %d"),
    ("mul %e", "add %e"),
    ("eps = 1e-05", "eps = 1e-06"),
    ("sub %x, %b", "sub %b, %x"),
    ("graph @g(", "graph @h("),
    ("(y: tensor", "(z: tensor"),  # Names are in the artifact.
):
    misses(f"{old} to {new}", "ir", write("changed.ir", changed(old, new)), *BASE)
misses("a value's name", "ir", write("changed.ir", GRAPH.replace("%e", "%q")), *BASE)
misses("an element type", "ir", write("changed.ir", GRAPH.replace("f32", "f64")), *BASE)

misses("a size", "dims", base, "--target=sm_80", "--dim", "M=4", "--dim", "N=9")
misses("a size that is not bound", "dims", base, "--target=sm_80", "--dim", "M=4")
misses("eager", "mode", base, *BASE, "--mode=eager")
misses("strides", "strides passes", base, *BASE, "--strides=dense")
misses("specializations", "specializations", base, *BASE, "--specialize", "M == 4")
misses("which graph", "graph", base, *BASE, "--graph=g")
misses("whose products", "matmul", base, *BASE, "--matmul=generated")
misses("the target", "target", base, "--target=sm_86", *BASE[1:])
misses("the target in the text", "target", write("changed.ir", changed("minic 1\n", "minic 1\nmodule target = sm_86\n")), *BASE[1:])
misses("numerics", "numerics", base, *BASE, "--numerics=fast")

# Line info: the lines and the file are part of the code then.
LINED = [*BASE, "--line-info"]
misses("line info", "lines", base, *LINED)
done = minic("compile", base, *LINED, "-o", FOLDER / "out.mnc")
expect(done.returncode == 0, "line info", done.stderr)
hits("line info again", base, *LINED)
misses("line info of another name", "lines", write("other/h.ir", GRAPH), *LINED)
misses("line info of other lines", "lines", write("g.ir", "\n" + GRAPH), *LINED)
write("g.ir", GRAPH)
hits("without line info still", base, *BASE)

# Another build of minic.
build = other_build(LIBRARY.resolve(), FOLDER / "build")
os.symlink(LIBRARY.resolve().name, FOLDER / "build" / ".".join(LIBRARY.resolve().name.split(".")[:4]))
misses("minic's build", "minic", base, *BASE, env=build)


# Cubins, which a driver of host memory makes.
def cubins(**env):
    """Runs the artifact; the entries of cubins that this made, and whether it may."""
    environment = {"LD_LIBRARY_PATH": str(DRIVER), **env}
    before = {entry["name"] for entry in listed()}
    run = lambda cache: minic("run", FOLDER / "plain.mnc", "--device=cuda", cache, *inputs, env=environment)
    inputs = ["--input", "x=iota", "--input", "s=iota"]
    may = run("--cache=must-hit").returncode == 0
    done = run("--cache=on")
    expect(done.returncode == 0, env, done.stderr)
    return [entry["name"] for entry in listed() if entry["name"] not in before], may


def listed():
    return [entry for entry in json.loads(minic("cache", "list", "--json").stdout) if entry["kind"] == "cubin"]


def other_cubin(what, field, **env):
    made, may = cubins(**env)
    expect(not may and len(made) == 1, what, f"made {made}, must-hit {'hits' if may else 'misses'}")
    fields = [one["name"] for one in why(first, made[0])["fields"]]
    expect(fields == [field], what, f"differs in {fields}")


done = minic("compile", base, *BASE, "--strides=dense", "--cache=off", "-o", FOLDER / "plain.mnc")
expect(done.returncode == 0, "plain", done.stderr)
(first,), may = cubins()
expect(not may, "the first cubin", "was there")
expect(cubins() == ([], True), "the same cubin", "is made again")
other_cubin("the driver's version", "driver", FAKE_CUDA_VERSION="12090")
other_cubin("the driver's build", "driver", **other_build((DRIVER / "libcuda.so.1").resolve(), FOLDER / "driver"))
other_cubin("the GPU's model", "device", FAKE_CUDA_NAME="A100")
other_cubin("the GPU's capability", "capability", FAKE_CUDA_CAPABILITY="86")
paths = os.pathsep.join([str(FOLDER / "build"), str(DRIVER)])
other_cubin("minic's build", "minic", LD_LIBRARY_PATH=paths)
minic("compile", write("ptx.ir", changed("1.5", "2.5")), *BASE, "--strides=dense", "--cache=off", "-o", FOLDER / "plain.mnc")
other_cubin("the PTX", "ptx")
print(f"{checked} checks")
