"""Artifacts: compiled graphs. Compiling, loading from files, and the text of each stage."""

from __future__ import annotations

import os
import warnings
from ctypes import POINTER, byref, c_char_p, c_size_t, c_void_p, string_at
from typing import Any, Mapping, Optional, Sequence, Tuple, Union

from . import _library, _types
from ._cache import Cache, open_cache
from ._device import Device, open_device
from ._executable import Executable, Weights, read_specs
from ._library import Handle, check, encode, lib

Source = Union[str, "os.PathLike[str]"]


class Artifact(Handle):
    """A graph compiled for one or more targets."""

    __slots__ = ("graph", "target", "numerics", "launches", "inputs", "results")

    def __init__(self, handle: c_void_p) -> None:
        super().__init__(handle, lib.minic_artifact_destroy)
        info = _library.ArtifactInfo()
        check(lib.minic_artifact_info(self, byref(info)))
        self.graph: str = info.graph.decode()
        self.target: str = info.targets.decode()
        """"sm_90a", or several with ", " between them."""
        self.numerics: str = info.numerics.decode()
        self.launches: int = info.launches
        """Kernels that one run launches."""
        self.inputs: Tuple[_types.TensorSpec, ...] = read_specs(lib.minic_artifact_inputs, self)
        self.results: Tuple[_types.TensorSpec, ...] = read_specs(lib.minic_artifact_results, self)
        if info.warnings:
            warnings.warn(info.warnings.decode(errors="replace").rstrip("\n"), stacklevel=3)

    def __repr__(self) -> str:
        inputs, results = (", ".join(map(str, specs)) for specs in (self.inputs, self.results))
        return f"minic.Artifact({self.graph}({inputs}) -> ({results}), target={self.target!r})"

    def save(self, path: Source) -> None:
        """Writes a .mnc file: all of it or nothing."""
        check(lib.minic_artifact_save(self, encode(path)))

    def load(self, device: Union[str, Device] = "auto", *, weights: Weights = None) -> Executable:
        """The graph on a device. `weights` binds inputs once and for all: a .safetensors file with tensors of their names, or a
        mapping from names to tensors in host memory, .npy files or .safetensors files."""
        return Executable(self, open_device(device), weights, self.inputs)


def load(path: Source) -> Artifact:
    """Reads a .mnc file."""
    handle = c_void_p()
    check(lib.minic_artifact_read(encode(path), byref(handle)))
    return Artifact(handle)


def compile(
    source: Source,
    *,
    target: Optional[str] = None,
    device: Union[str, Device, None] = None,
    numerics: Optional[str] = None,
    mode: str = "fused",
    dims: Optional[Mapping[str, int]] = None,
    graph: Optional[str] = None,
    strides: Optional[str] = None,
    specialize: Sequence[str] = (),
    matmul: Optional[str] = None,
    cache: Union[str, Cache, None] = None,
    schedules: Union[str, os.PathLike, None] = None,
    tuned_for: Optional[str] = None,
    customs: Sequence[str] = (),
    line_info: bool = False,
) -> Artifact:
    """Compiles a graph: IR text, or the path of a file.

    `target`: "sm_90a"; None: the text's own, else that of `device`, else "sm_90a". Without `device` no driver is opened.
    `numerics`: "exact", "default" or "fast". `mode`: "fused", or "eager" (one kernel for each op). `dims`: sizes that are
    fixed now. `graph`: which one, where the text has several. `strides`: "any" (the default), or "dense": tensors are row-major and
    aligned to 16 bytes, which compiles faster. `specialize`: plans for some sizes in front of the one for all, as in ["N % 8 == 0, M == 1"]. `matmul`: whose
    matrix products: "generated" kernels, "cublaslt" (not in exact numerics), or "auto" (the default): generated ones, unless tuning found others
    quicker. `cache`: where artifacts are kept for later processes: a `Cache`, "on", "refresh" or "must-hit" for the usual directory
    (docs/cache.md); None or "off" (the default): nowhere. `schedules`: a file that `minic tune` wrote, which goes before what minic
    brings for GPUs it knows; "none": neither. `tuned_for`: the GPU whose schedules are taken, "NVIDIA H200"; None: that of
    `device`. `customs`: declarations of custom ops that the text uses, which are put behind it (docs/custom-ops.md). `line_info`:
    code says which lines of the text it is from, for profilers and compute-sanitizer. A MinicError shows the place in the text."""
    text, options = _request(
        source, target, device, numerics, mode, dims, graph, strides, specialize, matmul, cache, schedules, tuned_for, customs,
        line_info,
    )
    handle = c_void_p()
    check(lib.minic_compile_text(text, len(text), byref(options), byref(handle)))
    return Artifact(handle)


def jit(
    source: Source,
    device: Union[str, Device] = "auto",
    *,
    weights: Weights = None,
    limit: int = 64,
    compile: str = "allow",
    numerics: Optional[str] = None,
    mode: str = "fused",
    dims: Optional[Mapping[str, int]] = None,
    graph: Optional[str] = None,
    strides: Optional[str] = None,
    matmul: Optional[str] = None,
    cache: Union[str, Cache, None] = None,
    schedules: Union[str, os.PathLike, None] = None,
    customs: Sequence[str] = (),
    line_info: bool = False,
) -> Executable:
    """A graph on a device that is compiled once more for each set of sizes that calls bring: code for sizes that are numbers can be
    faster than that for all, which `compile(...).load(...)` gives.

    `limit`: for how many shapes it is kept; the one used longest ago goes. `compile`: "allow", or "forbid": sizes that are not known
    are a MinicError (E0910), see `Executable.allow_compilation`. `Executable.shapes` counts. The others are as for `compile`; with
    `cache` what was compiled for a shape is there for later processes too."""
    if compile not in ("allow", "forbid"):
        raise ValueError(f"compile is {compile!r}, expected 'allow' or 'forbid'")
    on = open_device(device)
    text, options = _request(
        source, None, on, numerics, mode, dims, graph, strides, (), matmul, cache, schedules, None, customs, line_info
    )
    handle = c_void_p()
    check(lib.minic_compile_text(text, len(text), byref(options), byref(handle)))
    executable = Artifact(handle).load(on, weights=weights)
    check(lib.minic_executable_specialize(executable, text, len(text), byref(options)))
    executable.limit_shapes(limit)
    executable.allow_compilation(compile == "allow")
    return executable


def emit(
    source: Source,
    stage: str,
    *,
    target: Optional[str] = None,
    device: Union[str, Device, None] = None,
    numerics: Optional[str] = None,
    mode: str = "fused",
    dims: Optional[Mapping[str, int]] = None,
    graph: Optional[str] = None,
    strides: Optional[str] = None,
    specialize: Sequence[str] = (),
    matmul: Optional[str] = None,
    schedules: Union[str, os.PathLike, None] = None,
    tuned_for: Optional[str] = None,
    customs: Sequence[str] = (),
    line_info: bool = False,
) -> str:
    """The text at a stage: "graph", "fused", "tile", "masked", "machine", "plan", "llvm" or "ptx". `strides`: "dense" (the default), or
    "any", to see the plan for tensors of any strides as well."""
    text, options = _request(
        source, target, device, numerics, mode, dims, graph, strides, specialize, matmul, None, schedules, tuned_for, customs,
        line_info,
    )
    handle, size = c_void_p(), c_size_t()
    check(lib.minic_emit_text(text, len(text), encode(stage), byref(options), byref(handle)))
    with Handle(handle, lib.minic_text_destroy) as emitted:
        data = lib.minic_text_data(emitted, byref(size))
        return string_at(data, size.value).decode()


def _request(
    source: Source,
    target: Optional[str],
    device: Union[str, Device, None],
    numerics: Optional[str],
    mode: str,
    dims: Optional[Mapping[str, int]],
    graph: Optional[str],
    strides: Optional[str],
    specialize: Sequence[str],
    matmul: Optional[str],
    cache: Union[str, Cache, None] = None,
    schedules: Union[str, os.PathLike, None] = None,
    tuned_for: Optional[str] = None,
    customs: Sequence[str] = (),
    line_info: bool = False,
) -> Tuple[bytes, _library.CompileOptions]:
    if isinstance(source, str) and ("\n" in source or "{" in source):
        name, text = "<text>", source.encode()
    else:
        name = os.fspath(source)
        with open(source, "rb") as file:
            text = file.read()
    kept = open_cache(cache)
    values = (_library.Dim * len(dims or ()))(*(_library.Dim(encode(key), int(size)) for key, size in (dims or {}).items()))
    special = (c_char_p * len(specialize))(*map(encode, specialize))
    if isinstance(customs, str):
        raise TypeError("customs is a text, expected a sequence of them")
    declared = (c_char_p * len(customs))(*map(encode, customs))
    options = _library.CompileOptions(
        name=encode(name),
        target=encode(target),
        device=open_device(device)._as_parameter_ if device is not None else None,
        numerics=encode(numerics),
        mode=encode(mode),
        graph=encode(graph),
        dims=values,
        num_dims=len(values),
        strides=encode(strides),
        specializations=special,
        num_specializations=len(special),
        matmul=encode(matmul),
        cache=kept._as_parameter_ if kept is not None else None,
        schedules=encode(schedules),
        tuned_for=encode(tuned_for),
        customs=declared,
        num_customs=len(declared),
        line_info=line_info,
    )
    return text, options
