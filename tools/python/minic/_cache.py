"""The cache on disk: what was compiled once, for later processes."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from ctypes import byref, c_void_p
from typing import Dict, NamedTuple, Optional, Union

from . import _library
from ._library import Handle, check, encode, lib


_PACKAGE = os.path.dirname(__file__)


def _warn(text: str) -> None:
    """A warning at the line of the program that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level + 1)


def _without_severity(text: str) -> str:
    """Without the "error: " or "warning: " that it begins with."""
    return text.rstrip("\n").split(": ", 1)[1]


@_library.NOTICE
def _notice(_: object, message: bytes) -> None:
    # One for all caches, and for ever: devices may use a cache when its object is gone.
    _warn(_without_severity(message.decode(errors="replace")))


class CacheInfo(NamedTuple):
    directory: str
    writable: bool
    """Otherwise what is there is served, and nothing is kept."""
    entries: int
    bytes: int
    limit: int
    hits: int
    """This and what follows: of this object since it was made."""
    misses: int
    kept: int
    dropped: int
    """Could not be kept."""
    damaged: int
    """Found so, or refused by the driver."""
    evicted: int
    """Made room."""


class Cache(Handle):
    """A directory of compiled things (docs/cache.md). Any number of processes may use one at a time."""

    __slots__ = ("use",)

    def __init__(
        self, directory: Union[str, "os.PathLike[str]", None] = None, *, use: str = "on", limit: Optional[int] = None
    ) -> None:
        """`directory`: None: MINIC_CACHE_DIR, else $XDG_CACHE_HOME/minic, else $HOME/.cache/minic. `use`: "on"; "refresh": what it
        has is not taken, and made anew; "must-hit": what it has not is an error (E0910). `limit`: bytes; None: MINIC_CACHE_SIZE, else
        1 GiB. A directory that cannot be used is a MinicError (E0908); what goes wrong later is a warning."""
        handle = c_void_p()
        options = _library.CacheOptions(use=encode(use), directory=encode(directory), limit=limit or 0, notice=_notice)
        check(lib.minic_cache_open(byref(options), byref(handle)))
        super().__init__(handle, lib.minic_cache_destroy)
        self.use = use

    @property
    def info(self) -> CacheInfo:
        read = _library.CacheInfo()
        check(lib.minic_cache_info(self, byref(read)))
        values = (getattr(read, name) for name in CacheInfo._fields[2:])
        return CacheInfo(os.fsdecode(read.directory), bool(read.writable), *values)

    def __repr__(self) -> str:
        return f"minic.Cache({self.info.directory!r}, use={self.use!r})"


_opened: Dict[str, Cache] = {}
os.register_at_fork(after_in_child=_opened.clear)


def open_cache(cache: Union[str, Cache, None]) -> Optional[Cache]:
    """A cache, or the one of a word in the usual directory, which stays open. None: nothing is kept; so also, with a warning, where
    that directory cannot be used, but for "must-hit"."""
    if cache is None or cache == "off":
        return None
    if isinstance(cache, Cache):
        return cache
    if cache not in _opened:
        try:
            _opened[cache] = Cache(use=cache)
        except _library.MinicError as error:
            if error.code != "E0908" or cache == "must-hit":
                raise
            _warn(f"nothing is cached: {_without_severity(str(error))}")
            return None
    return _opened[cache]
