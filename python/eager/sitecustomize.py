"""softgpu run --eager: gives PyTorch's eager operators their CPU bodies as soon as torch is imported.

Found first on PYTHONPATH; waits for torch, calls twinbit.eager.install(), and runs the job's own
sitecustomize. The job itself is not changed.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _install():
    try:
        sys.path.append(os.path.dirname(_FOLDER))
        try:
            from twinbit import eager
        finally:
            sys.path.pop()
        eager.install()
    except Exception as e:  # the job goes on; its first eager operator says what is missing
        print(f"softgpu run --eager: {e}", file=sys.stderr)


class _Loader:
    """Stands for the loader of torch, and installs when it is done."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _install()


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


def _run_the_jobs_own():
    from importlib.machinery import PathFinder

    places = [p for p in sys.path if os.path.abspath(p or ".") != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:  # it has none: site takes this word for it, and nothing of that name is left
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.meta_path.insert(0, _Finder())
while _FOLDER in sys.path:
    sys.path.remove(_FOLDER)
_run_the_jobs_own()
