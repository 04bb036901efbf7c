"""Found first on PYTHONPATH, before the job's first line; runs the job's own sitecustomize behind it.

twinbit run --attach python: what a preloaded library does otherwise. Waits for torch._C to be imported; then
libtwinbit.so is loaded and asked for a "PyInit" symbol: the moment at which it attaches (recorder/hook.c).

twinbit run --pin: sets the pins that only an interpreter can set (python/twinbit/_pins.py).
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = os.path.join(os.path.dirname(os.path.dirname(_FOLDER)), "libtwinbit.so")


def _attach():
    import ctypes

    try:
        library = ctypes.PyDLL(_LIBRARY)  # holds the GIL, as an import does
        library.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        library.dlsym.restype = ctypes.c_void_p
        library.dlsym(None, b"PyInit__twinbit")
    except Exception:
        pass  # the job goes on unrecorded; twinbit says that it was not covered


class _Loader:
    """Stands for the loader of torch._C, and attaches when it is done."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _attach()


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "torch._C":
            return None
        sys.meta_path.remove(self)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _run_the_jobs_own():
    from _frozen_importlib_external import PathFinder

    places = [p for p in sys.path if os.path.abspath(p or ".") != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:  # it has none: site takes this word for it, and nothing of that name is left
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    from _frozen_importlib import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _pins():
    from _frozen_importlib import module_from_spec  # importlib.util would bring modules the job did not import
    from _frozen_importlib_external import spec_from_file_location

    try:
        where = os.path.join(os.path.dirname(_FOLDER), "twinbit", "_pins.py")
        spec = spec_from_file_location("_twinbit_pins", where)
        module = module_from_spec(spec)
        sys.modules["_twinbit_pins"] = module
        spec.loader.exec_module(module)
        module.start()
    except Exception:
        pass  # the job goes on; each pin that was asked for is then "unseen"


def _start():
    if os.environ.get("TWINBIT_PIN_PLAN"):
        _pins()
    if os.environ.get("TWINBIT_SOCKET") and os.environ.get("TWINBIT_ATTACH") == "python":
        sys.meta_path.insert(0, _Finder())
    # neither a path nor a variable of ours is left for the job to trip over
    while _FOLDER in sys.path:
        sys.path.remove(_FOLDER)


_start()
_run_the_jobs_own()
