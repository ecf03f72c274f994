"""Many compilers at once: 32 processes, then 32 threads of one, compile and run the same graphs and write them to the same files.

    many.py [--library PATH]      minic must be in PATH; without a library there are no threads
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

MANY = 32
# Each takes x = [1, 2, 3, 4] and gives y.
GRAPHS = {
    "sum": ("%y = add %x, %x : tensor<4xf32>", [2, 4, 6, 8]),
    "square": ("%y = mul %x, %x : tensor<4xf32>", [1, 4, 9, 16]),
    "least": ("%c = constant 2.5 : tensor<4xf32>\n  %y = min %x, %c : tensor<4xf32>", [1, 2, 2.5, 2.5]),
    "total": ("%t = reduce sum %x, axes = [0] : tensor<f32>\n  %y = broadcast %t, dims = [] : tensor<4xf32>", [10] * 4),
    "largest": ("%t = reduce max %x, axes = [0] : tensor<f32>\n  %y = broadcast %t, dims = [] : tensor<4xf32>", [4] * 4),
    "turned": ("%m = reshape %x : tensor<2x2xf32>\n  %t = transpose %m, perm = [1, 0] : tensor<2x2xf32>\n  %n = neg %t : tensor<2x2xf32>\n"
               "  %y = reshape %n : tensor<4xf32>", [-1, -3, -2, -4]),
    "product": ("%m = reshape %x : tensor<2x2xf32>\n  %p = matmul %m, %m : tensor<2x2xf32>\n  %y = reshape %p : tensor<4xf32>", [7, 10, 15, 22]),
    "narrow": ("%h = convert %x : tensor<4xf16>\n  %d = div %h, %h : tensor<4xf16>\n  %y = convert %d : tensor<4xf32>", [1] * 4),
}


def text_of(name):
    return f"graph @{name}(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {{\n  {GRAPHS[name][0]}\n  return %y\n}}\n"


def printed(name):
    return "y: tensor<4xf32> = [" + ", ".join(str(value) for value in GRAPHS[name][1]) + "]\n"


def run(name, folder):
    """Compiles to a file that all write, and runs what is there: always a whole one."""
    artifact = os.path.join(folder, f"{name}.mnc")
    script = 'minic compile "$0" -o "$1" && exec minic run "$1" --device=cpu "--input=x=[1,2,3,4]"'
    return subprocess.Popen(["sh", "-c", script, os.path.join(folder, f"{name}.ir"), artifact], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def round_of_processes(folder, killed):
    """All at once, of which some are killed at random times; what is not killed is right."""
    random.seed(5)
    names = [name for i, name in zip(range(MANY), list(GRAPHS) * MANY)]
    started = [(name, run(name, folder)) for name in names]
    victims = random.sample(started, killed)
    for _, process in victims:
        time.sleep(random.random() * 0.05)
        os.killpg(process.pid, signal.SIGKILL)
    for name, process in started:
        out, errors = process.communicate(timeout=300)
        if any(process is victim for _, victim in victims):
            continue
        if process.returncode or out != printed(name):
            sys.exit(f"{name}: exit code {process.returncode}: {out}{errors}")


def processes():
    with tempfile.TemporaryDirectory() as folder:
        for name in GRAPHS:
            pathlib.Path(folder, f"{name}.ir").write_text(text_of(name))
        round_of_processes(folder, 0)
        left = sorted(os.listdir(folder))
        whole = {name: pathlib.Path(folder, f"{name}.mnc").read_bytes() for name in GRAPHS}
        if left != sorted([f"{name}.ir" for name in GRAPHS] + [f"{name}.mnc" for name in GRAPHS]):
            sys.exit(f"files are left: {left}")
        round_of_processes(folder, MANY // 2)
        for name in GRAPHS:
            if pathlib.Path(folder, f"{name}.mnc").read_bytes() != whole[name]:
                sys.exit(f"{name}.mnc is not what another process wrote")
        round_of_processes(folder, 0)


def threads():
    import minic
    import numpy

    x, wrong = numpy.array([1, 2, 3, 4], "float32"), []

    def work():
        try:
            for name in GRAPHS:
                y = minic.compile(text_of(name)).load("cpu")(x)
                if y.tolist() != GRAPHS[name][1]:
                    wrong.append(f"{name}: {y}")
        except Exception as error:
            wrong.append(repr(error))

    workers = [threading.Thread(target=work) for _ in range(MANY)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    processes()
    if "--library" in sys.argv:
        os.environ["MINIC_LIBRARY"] = sys.argv[sys.argv.index("--library") + 1]
        threads()
