"""Finds minic: its Python package and its command line, installed, in the source tree or in the bundle."""

import importlib
import os
import pathlib
import shutil
import sys

_ABOVE = pathlib.Path(__file__).resolve().parents


def package():
    """The package `minic`: from Python's path, else from a `python` folder above this file. ImportError says why there is none."""
    for folder in (above / name for above in _ABOVE for name in ("python", "tools/python")):
        if (folder / "minic" / "__init__.py").is_file() and str(folder) not in sys.path:
            sys.path.append(str(folder))
    return importlib.import_module("minic")


def command_line():
    """The path of the program `minic`: from a `bin` folder above this file, else from PATH; None if there is none."""
    for above in _ABOVE:
        for name in ("bin/minic", "build/release/bin/minic"):
            if os.access(above / name, os.X_OK):
                return str(above / name)
    return shutil.which("minic")


def headers(program):
    """The folder of the C++ headers that go with the program `minic`: those installed beside it, else those of the source tree."""
    for above in (pathlib.Path(program).resolve().parents[1], *_ABOVE):
        if (above / "include" / "minic" / "minic.h").is_file():
            return above / "include"
    raise FileNotFoundError(f"there are no headers of minic for {program}")
