"""The library in a process that forks: before its first use, and after; nothing loads a driver. forked.py LIBRARY"""
import os
import sys

os.environ["MINIC_LIBRARY"] = sys.argv[1]
import minic
import numpy

TEXT = "graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n  %y = add %x, %x : tensor<4xf32>\n  return %y\n}\n"


def use():
    y = minic.compile(TEXT).load("cpu")(numpy.array([1, 2, 3, 4], "float32"))
    return y.tolist() == [2, 4, 6, 8] and "libcuda" not in open("/proc/self/maps").read()


def in_child(body):
    """What a child of fork says; a hang is the end of the test."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = body()
        finally:
            os._exit(0 if good else 1)
    return os.waitpid(child, 0)[1] == 0


if not in_child(use):
    sys.exit("a child that is the first to use the library fails")
if not use():
    sys.exit("the parent fails")
if not in_child(lambda: minic.emit(TEXT, "ptx").count(".entry") == 1):
    sys.exit("a child that compiles after the parent did fails")
