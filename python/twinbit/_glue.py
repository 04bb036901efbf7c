"""Glue between a job's Python and the torch tap: module paths, phases, steps, state at step ends.

The recorder loads this file by path when libtorch appears in the process, in the middle of `import
torch`, and calls install(). It logs nothing, raises nothing into the job, draws no random numbers, and
leaves no tensor behind. All recording itself is done in C; this file only says where the job is.
"""

from __future__ import annotations

import array
import ctypes
import sys
import weakref

_STACK = 1 << 3  # TB_CFG_STACK
_lib = None
_state = None
_pytap = None  # the Python tap, where the C++ one could not be compiled


def _hide(error):
    """Takes our own frames off the head of its traceback: the job's is as without us. A bare `raise` must follow, in the
    function that the job called (Python 3.11 and later)."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace


class _Loader:
    """A loader that runs the original one, then our hook, then puts the original back in place."""

    def __init__(self, inner, after):
        self.inner = inner
        self.after = after

    def create_module(self, spec):
        return self.inner.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = self.inner
        module.__spec__.loader = self.inner
        self.inner.exec_module(module)
        try:
            self.after(module)
        except Exception as e:  # our failure is never the job's
            _cover(1, "glue", module.__name__, repr(e))

    def __getattr__(self, name):
        return getattr(self.inner, name)


class _Finder:
    """A meta path entry that waits for a few modules and removes itself when it has seen them all."""

    def __init__(self, wanted):
        self.wanted = dict(wanted)

    def find_spec(self, name, path=None, target=None):
        after = self.wanted.pop(name, None)
        if after is None:
            return None
        if not self.wanted:
            sys.meta_path[:] = [f for f in sys.meta_path if f is not self]
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, after)
                return spec
        return None


class _TwinbitFinder:
    """Lets a recorded job `import twinbit` where it is not installed; asked last."""

    def __init__(self, folder):
        self.folder = folder

    def find_spec(self, name, path=None, target=None):
        if name != "twinbit":
            return None
        from importlib.util import spec_from_file_location

        where = self.folder + "/__init__.py"
        return spec_from_file_location(name, where, submodule_search_locations=[self.folder])


def _cover(severity, kind, subject, detail):
    if _lib is not None:
        _lib.twinbit_cover(
            severity, kind.encode(), str(subject).encode(errors="replace"), str(detail).encode(errors="replace")
        )


def _meta(key, value):
    _lib.twinbit_meta(str(key).encode(errors="replace"), str(value).encode(errors="replace"))


class _State:
    """What the glue knows of the job: modules by identity, parameter names, the step marks."""

    def __init__(self):
        self.paths = {}  # id(module) -> (weakref, interned id)
        self.roots = []  # weakrefs
        self.names = {}  # id(parameter or buffer) -> (weakref, name)
        self.ids = {}
        self.manual_steps = False
        self.first_step = True
        self.compiled = False
        self.rng_first = {}  # state of each global generator when it was first seen
        self.sources = set()
        self.optimizers = {}  # id -> weakref of those that ended a step
        self.pins = None

    def intern(self, text):
        found = self.ids.get(text)
        if found is None:
            found = self.ids[text] = _lib.twinbit_intern(text.encode(errors="replace"))
        return found

    def learn_root(self, root):
        """Name every module below a module that was called by nobody we know."""
        self.roots = [r for r in self.roots if r() is not None]
        self.roots.append(weakref.ref(root))
        for path, module in root.named_modules():
            known = self.paths.get(id(module))
            if module is not root and known is not None and known[0]() is module:
                continue
            name = path or type(module).__name__
            self.paths[id(module)] = (weakref.ref(module), self.intern(name))
        return self.paths[id(root)][1]

    def learn_names(self):
        for ref in self.roots:
            root = ref()
            if root is None:
                continue
            for name, p in root.named_parameters():
                self.names.setdefault(id(p), (weakref.ref(p), name))

    def name_of(self, p, fallback):
        entry = self.names.get(id(p))
        if entry is not None and entry[0]() is p:
            return entry[1]
        if entry is not None:
            del self.names[id(p)]
        return fallback


def _compiling():
    """torch.compiler.is_compiling, once there is a compiler: not set later, for what Dynamo compiles depends on it."""
    return False


def _codes(code):
    yield code
    for inner in code.co_consts:
        if isinstance(inner, type(code)):
            yield from _codes(inner)


def _own_codes(names):
    """Code of all functions of a module of ours, with those that are made inside of them; @names: its globals."""
    file = names["__file__"]
    for value in list(names.values()):
        own = isinstance(value, type) and value.__module__ == names["__name__"]
        for f in vars(value).values() if own else (value,):
            code = getattr(getattr(f, "__func__", f), "__code__", None)
            if code is not None and code.co_filename == file:
                yield from _codes(code)


def _after_eval_frame(mod):
    """Dynamo must never compile a frame of ours by itself, or a job compiles other code than without us; inside a
    graph ours fold to nothing."""
    global _compiling
    from torch.compiler import is_compiling

    _compiling = is_compiling
    skip_code = getattr(mod, "skip_code", None)
    if skip_code is None:
        from torch._C._dynamo.eval_frame import skip_code
    for module in (globals(), vars(_pytap) if _pytap else None):
        for code in _own_codes(module) if module else ():
            skip_code(code)


def _after_module(mod):
    """Wrap Module._call_impl. Global forward hooks would do, but torch.compile warns of them and traces them."""
    import functools

    inner = mod.Module._call_impl
    push, pop = _lib.twinbit_module_push, _lib.twinbit_module_pop
    paths = _state.paths
    learn = _state.learn_root

    @functools.wraps(inner)
    def _call_impl(self, *args, **kwargs):
        if _compiling():
            return inner(self, *args, **kwargs)
        entry = paths.get(id(self))
        push(entry[1] if entry is not None and entry[0]() is self else learn(self))
        try:
            return inner(self, *args, **kwargs)
        except BaseException as error:
            _hide(error)
            raise
        finally:
            pop()

    mod.Module._call_impl = _call_impl


def _after_optim(mod):
    """Wrap each optimizer's step() outside of torch's own wrapper. Global hooks would do, but of a compiled step they are
    a part, in which nothing of ours can run."""
    import functools

    inner = mod.Optimizer.profile_hook_step

    def profile_hook_step(func):
        hooked = inner(func)

        @functools.wraps(hooked)
        def step(*args, **kwargs):
            if _compiling():
                return hooked(*args, **kwargs)
            _lib.twinbit_optimizer(1)
            try:
                result = hooked(*args, **kwargs)
            except BaseException as error:
                _lib.twinbit_optimizer(0)
                _hide(error)
                raise
            _lib.twinbit_optimizer(0)
            if not _state.manual_steps:
                _end_step(args[0], None)
            return result

        return step

    mod.Optimizer.profile_hook_step = staticmethod(profile_hook_step)


def _after_dataloader(module):
    """What a worker made arrives when it is ready: taking it in is torch's plumbing, at a time that the clock decides,
    and no operator of the job's."""
    import functools

    owner = module._MultiProcessingDataLoaderIter
    inner = owner._try_get_data

    @functools.wraps(inner)
    def _try_get_data(self, *args, **kwargs):
        _lib.twinbit_suppress(1)
        try:
            return inner(self, *args, **kwargs)
        except BaseException as error:
            _hide(error)
            raise
        finally:
            _lib.twinbit_suppress(-1)

    owner._try_get_data = _try_get_data


def _resumed_step(optimizer):
    """Number of the step that just ended, from the optimizer's own count; None if it keeps none."""
    for state in optimizer.state.values():
        count = state.get("step") if isinstance(state, dict) else None
        if count is None:
            continue
        if getattr(count, "is_cuda", False):  # to ask would wait for the device, and break a capture
            _cover(0, "step", "optimizer", "counts its steps on the device: steps are counted from 0 here")
            return None
        count = int(count.item() if hasattr(count, "item") else count)
        return count - 1 if count > 0 else None
    return None


def _gather(optimizer):
    """Pointers and interned names of all state: parameters, gradients, optimizer state, buffers."""
    ptrs = array.array("Q")
    names = array.array("I")
    keep = []  # tensors made by property accessors live until the call is over

    def add(tensor, name):
        keep.append(tensor)
        ptrs.append(tensor._cdata)
        names.append(_state.intern(name))

    if optimizer is not None:
        for g, group in enumerate(optimizer.param_groups):
            for i, p in enumerate(group["params"]):
                name = _state.name_of(p, f"group{g}.{i}")
                add(p, "param:" + name)
                if p.grad is not None:
                    add(p.grad, "grad:" + name)
                for key, value in optimizer.state.get(p, {}).items():
                    if hasattr(value, "_cdata"):
                        add(value, f"{key}:{name}")
    for ref in _state.roots:
        root = ref()
        if root is None:
            continue
        if optimizer is None:
            for name, p in root.named_parameters():
                add(p, "param:" + name)
        for name, b in root.named_buffers():
            add(b, "buffer:" + name)
    return ptrs, names, keep


_CHUNK = 256


def _send_state(optimizer):
    ptrs, names, keep = _gather(optimizer)
    if _pytap is not None:
        _pytap.send_state(keep, names)
        return
    for at in range(0, len(ptrs), _CHUNK):
        n = min(_CHUNK, len(ptrs) - at)
        p = (ctypes.c_uint64 * n).from_buffer(ptrs, at * 8)
        i = (ctypes.c_uint32 * n).from_buffer(names, at * 4)
        _lib.twinbit_state(p, i, n)
        del p, i
    del keep


def _python_rng():
    random = sys.modules.get("random")
    if random is None or not hasattr(random, "getstate"):
        return None
    version, words, gauss = random.getstate()
    return array.array("I", words).tobytes() + repr((version, gauss)).encode()


def _numpy_rng(module=None):
    module = module or sys.modules.get("numpy.random")
    if module is None or not hasattr(module, "get_state"):
        return None
    s = module.get_state(legacy=True)
    return s[1].tobytes() + repr((s[0], int(s[2]), int(s[3]), float(s[4]))).encode()


def _after_numpy_random(module):
    _state.rng_first["rng:numpy"] = _numpy_rng(module)


def _after_fork():
    """Python seeds `random` from entropy in a forked child: the child's own state is where it starts from."""
    try:
        _state.rng_first["rng:python"] = _python_rng()
    except Exception:
        pass


def _send_rng():
    """The global generators. One that the job neither seeded nor drew from since it was first seen started from
    the system's entropy and had no effect: it is sent as untouched, so that it cannot differ."""
    for name, raw in (("rng:python", _python_rng()), ("rng:numpy", _numpy_rng())):
        if raw is None:
            continue
        if _state.rng_first.setdefault(name, raw) == raw:
            raw = b"untouched"
        _lib.twinbit_state_bytes(_state.intern(name), raw, len(raw))


def _after_dynamo_callback(module):
    """Operators that run while Dynamo compiles belong to the compiler; a warm cache runs others than a cold one."""

    def begin(*args, **kwargs):
        _lib.twinbit_suppress(1)

    def end(*args, **kwargs):
        _lib.twinbit_suppress(-1)

    def register():
        module.callback_handler.register_start_callback(begin)
        module.callback_handler.register_end_callback(end)

    register()
    handler = type(module.callback_handler)
    inner = getattr(handler, "clear", None)
    if inner is None:
        return

    def clear(self):  # torch._dynamo.reset() takes everybody's away
        try:
            inner(self)
        finally:
            register()

    handler.clear = clear


def cuda():
    """Is there a recorder for the CUDA calls of this process? (Older taps and the Python tap know none.)"""
    return hasattr(_lib, "twinbit_cuda") and bool(_lib.twinbit_cuda())


def _constant(value):
    name = getattr(value, "__name__", None)  # a function of Triton's, a type
    return name if isinstance(name, str) else str(value)


def _kernel_name(name, constants, options):
    """triton:softmax BLOCK=64 num_warps=4 - what makes one kernel of a Triton function unlike another."""
    said = [f"{k}={_constant(v)}" for k, v in sorted(constants.items()) if v is not None]
    for key in ("num_warps", "num_stages"):
        value = getattr(options, key, None)
        if value is not None:
            said.append(f"{key}={value}")
    return " ".join([f"triton:{name}", *said])[:240]


def _tell_kernel(function, name, constants, options):
    if isinstance(function, int) and function and cuda():
        text = _kernel_name(name, constants, options)
        _lib.twinbit_kernel_name(function, text.encode(errors="replace"))


def _constants_of(source):
    """Constants of a Triton kernel by the names of its arguments; their keys are paths of indices, or names."""
    names = getattr(getattr(source, "fn", None), "arg_names", ())
    found = {}
    for key, value in (getattr(source, "constants", None) or {}).items():
        path = key if isinstance(key, tuple) else (key,)
        if path and isinstance(path[0], int) and path[0] < len(names):
            path = (names[path[0]], *path[1:])
        found[".".join(map(str, path))] = value
    return found


def _after_triton(module):
    """A kernel is named when its code is loaded. Not by Triton's hooks: Inductor looks whether there are any, and
    launches otherwise then."""
    import functools

    kernel = module.CompiledKernel
    inner = kernel._init_handles

    @functools.wraps(inner)
    def _init_handles(self):
        loaded = getattr(self, "module", None) is not None
        try:
            inner(self)
        except BaseException as error:
            _hide(error)
            raise
        if loaded:
            return
        try:
            source = getattr(self, "src", None)
            _tell_kernel(self.function, self.name, _constants_of(source), self.metadata)
        except Exception as e:
            _cover(0, "glue", "triton", repr(e))

    kernel._init_handles = _init_handles


def _quietly(owner, method, of):
    """While candidates are timed, what runs is nobody's operator: how often depends on the clock."""
    import functools

    inner = getattr(owner, method, None)
    if inner is None:
        return

    @functools.wraps(inner)
    def quiet(self, *args, **kwargs):
        _cover(0, "autotune", of(self), "what runs while candidates are timed is not recorded by operator")
        _lib.twinbit_suppress(1)
        try:
            return inner(self, *args, **kwargs)
        except BaseException as error:
            _hide(error)
            raise
        finally:
            _lib.twinbit_suppress(-1)

    setattr(owner, method, quiet)


def _after_autotuner(module):
    _quietly(module.Autotuner, "_bench", lambda self: getattr(self.base_fn, "__name__", "kernel"))


def _after_inductor_heuristics(module):
    """Inductor's own tuner, and its launcher that does without Triton's."""
    import functools

    for method in ("benchmark_all_configs", "coordinate_descent_tuning"):
        _quietly(module.CachingAutotuner, method, lambda self: getattr(self.fn, "__name__", "kernel"))
    static = getattr(module, "StaticTritonCompileResult", None)
    if static is None:
        return
    inner = static.make_launcher

    @functools.wraps(inner)
    def make_launcher(self):
        try:
            launcher = inner(self)
        except BaseException as error:
            _hide(error)
            raise
        try:
            constants = dict(self.compile_meta.get("constants") or {})
            constants.update(self.config.kwargs)
            constants = {str(k): v for k, v in constants.items()}
            functions = [self.kernel.function, *getattr(self.kernel, "functions", {}).values()]
            for function in functions:
                _tell_kernel(function, self.kernel.name, constants, self.config)
        except Exception as e:
            _cover(0, "glue", "triton", repr(e))
        return launcher

    static.make_launcher = make_launcher


def _after_cuda_graphs(module):
    """Operators in a captured graph run again without being called: say so, once a graph."""
    import functools

    inner = module.CUDAGraph.replay
    told = weakref.WeakSet()

    @functools.wraps(inner)
    def replay(self):
        if self not in told:
            told.add(self)
            seen = cuda()
            _cover(0 if seen else 1, "graph", "CUDAGraph.replay", "its operators are not seen when it is replayed" +
                   ("; its kernels are, as one launch of a graph" if seen else ""))
        try:
            return inner(self)
        except BaseException as error:
            _hide(error)
            raise

    module.CUDAGraph.replay = replay


def _send_cuda_facts(torch):
    if not torch.cuda.is_initialized():
        return
    _meta("torch.cuda", torch.version.cuda)
    _meta("cudnn.version", torch.backends.cudnn.version())
    _meta("cudnn.deterministic", torch.backends.cudnn.deterministic)
    _meta("cudnn.benchmark", torch.backends.cudnn.benchmark)
    for i in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(i)
        _meta(f"cuda.device.{i}", f"{torch.cuda.get_device_name(i)}, sm_{major}{minor}")


def _send_facts():
    """Versions, threads, flags: what differs here explains much of what differs there."""
    torch = sys.modules["torch"]
    _meta("python.version", sys.version.split()[0])
    _meta("torch.version", torch.__version__)
    _meta("torch.num_threads", torch.get_num_threads())
    _meta("torch.num_interop_threads", torch.get_num_interop_threads())
    _meta("torch.cpu_capability", torch.backends.cpu.get_cpu_capability())
    _meta("torch.deterministic_algorithms", torch.are_deterministic_algorithms_enabled())
    _meta("torch.default_dtype", torch.get_default_dtype())
    _meta("torch.float32_matmul_precision", torch.get_float32_matmul_precision())
    _meta("torch.initial_seed", torch.initial_seed())
    _send_cuda_facts(torch)
    for name in ("numpy", "transformers", "triton", "accelerate", "datasets", "lightning"):
        module = sys.modules.get(name)
        if module is not None:
            _meta(name + ".version", getattr(module, "__version__", "?"))


def _send_sources():
    """Hashes of the job's own Python files: below the script's folder, not in site-packages."""
    import hashlib
    import os

    main = getattr(sys.modules.get("__main__"), "__file__", None)
    base = os.path.dirname(os.path.abspath(main)) if main else os.getcwd()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or path in _state.sources or not path.endswith(".py"):
            continue
        full = os.path.abspath(path)
        if not full.startswith(base + os.sep) or "site-packages" in full or full.startswith(sys.prefix):
            continue
        if "/lib/python" in full or full.startswith(os.path.dirname(os.path.abspath(__file__))):
            continue
        _state.sources.add(path)
        try:
            with open(full, "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest()
        except OSError:
            continue
        _meta("source:" + os.path.relpath(full, base), digest)


def _fused_on_cpu():
    """Has Inductor loaded C++ of its own making? If that cannot be told: yes."""
    codecache = sys.modules.get("torch._inductor.codecache")
    caches = [getattr(codecache, name, None) for name in ("CppCodeCache", "CppPythonBindingsCodeCache")]
    return any(getattr(c, "cache", True) for c in caches)


def _note_compiled():
    """What Inductor's fused kernels write inside a graph is seen by nobody: say so once."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None or _state.compiled or not dynamo.counters["stats"].get("unique_graphs"):
        return
    _state.compiled = True
    if cuda() and not _fused_on_cpu():
        _cover(0, "compiled", "torch.compile", "fused kernels inside compiled graphs are seen as launches, not as operators")
        return
    _cover(
        1,
        "compiled",
        "torch.compile",
        "fused kernels inside compiled graphs are not seen; what recorded operators read of their results is hashed",
    )


def _load_pins():
    """Reads pins back; loaded before by the import hook where some had to be set, or orders are written down."""
    module = sys.modules.get("_twinbit_pins")
    if module is None:
        import importlib.util
        import os

        where = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_pins.py")
        spec = importlib.util.spec_from_file_location("_twinbit_pins", where)
        module = importlib.util.module_from_spec(spec)
        sys.modules["_twinbit_pins"] = module
        spec.loader.exec_module(module)
    module.load()
    module.works = _works
    return module


def _works():
    """In which order the works of each process group ended: (group, text)."""
    if not hasattr(_lib, "twinbit_works"):
        return []  # the Python tap does not see them
    text = ctypes.create_string_buffer(8192)
    _lib.twinbit_works(text, len(text))
    return [line.split("\t") for line in text.value.decode(errors="replace").splitlines()]


def _end_step(optimizer, number):
    _lib.twinbit_suppress(1)
    try:
        _state.pins = _state.pins or _load_pins()
        _state.pins.step(number)
        _note_compiled()
        if _state.first_step:
            _state.first_step = False
            _state.learn_names()
            if number is None and optimizer is not None:
                number = _resumed_step(optimizer)
            _send_facts()
            _send_sources()
        if optimizer is not None:
            _state.optimizers[id(optimizer)] = weakref.ref(optimizer)
        _send_state(optimizer)
        _send_rng()
        _lib.twinbit_step_end(-1 if number is None else number)
    except Exception as e:
        _cover(1, "glue", "step end", repr(e))
    finally:
        _lib.twinbit_suppress(-1)


def _send_last_state():
    """What training has left, as it is at the end: who wrote it after the last step is seen by nobody."""
    if _state.first_step:
        return
    for known in _state.optimizers.values():
        optimizer = known()
        if optimizer is not None:
            _send_state(optimizer)


def _at_exit():
    """Facts of a job that never ended a step, and of modules it imported late."""
    try:
        if "torch" in sys.modules and _lib.twinbit_active():
            _lib.twinbit_suppress(1)
            if _state.first_step:
                _send_facts()
            _send_sources()
            _note_compiled()
            _send_last_state()
            _lib.twinbit_suppress(-1)
    except Exception:
        pass


def active():
    return _lib is not None and bool(_lib.twinbit_active())


def suppress(delta):
    """Operators of this thread are not recorded while the sum of these is above 0."""
    _lib.twinbit_suppress(delta)


def user_step(number):
    if _lib is None:
        return
    _state.manual_steps = True
    _end_step(None, number)


class _Lines:
    """--stack: tells the tap which line of the job's own code runs; libraries count for their caller's line.

    Runs as a trace function (sys.settrace) in the job's own frames only.
    """

    def __init__(self):
        import os
        import sysconfig

        paths = sysconfig.get_paths()
        self.libraries = tuple({os.path.join(paths[k], "") for k in ("stdlib", "platstdlib", "purelib", "platlib")} |
                               {os.path.join(os.path.dirname(os.path.abspath(__file__)), "")})
        self.own = {}    # file: is it the job's own? (To hash a code object would be slow.)
        self.lines = {}  # (file, line, function): id of its text
        self.roots = {}  # top-level module: is it a library?

    def is_own(self, code):
        name = code.co_filename
        own = self.own.get(name)
        if own is None:
            own = not (name.startswith(self.libraries) or "/site-packages/" in name or "/dist-packages/" in name or
                       (name.startswith("<") and name not in ("<string>", "<stdin>")))
            self.own[name] = own
        return own

    def tell(self, frame):
        """The line of @frame, or of the nearest one above it that is the job's own."""
        while frame is not None and not self.is_own(frame.f_code):
            frame = frame.f_back
        if frame is None:
            _lib.twinbit_line(0)
            return
        code = frame.f_code
        key = code.co_filename, frame.f_lineno, code.co_name  # many a code is in "<string>"
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = _state.intern(f"{key[0]}:{key[1]} {key[2]}")
        _lib.twinbit_line(line)

    def trace(self, frame, event, arg):
        own = self.own.get(frame.f_code.co_filename)
        if own is False or (own is None and not self.is_own(frame.f_code)):
            return None
        self.tell(frame.f_back if event == "return" else frame)
        return self.trace

    def is_library(self, module):
        """Is this top-level module not the job's own? Its import is not traced: torch's takes a million calls."""
        found = self.roots.get(module)
        if found is None:
            import importlib.util

            try:
                spec = sys.modules[module].__spec__ if module in sys.modules else importlib.util.find_spec(module)
                origin = spec.origin or "" if spec else ""
            except Exception:
                origin = ""
            found = self.roots[module] = origin.startswith(self.libraries) or origin in ("built-in", "frozen")
        return found

    def leave_imports_alone(self):
        from importlib import _bootstrap

        load = _bootstrap._find_and_load

        def _find_and_load(name, import_):
            if sys.gettrace() != self.trace or not self.is_library(name.partition(".")[0]):
                return load(name, import_)
            sys.settrace(None)
            try:
                return load(name, import_)
            finally:
                sys.settrace(self.trace)

        _bootstrap._find_and_load = _find_and_load

    def start(self):
        """In this thread, with the frames that run already, and in those to come."""
        import threading

        frame = sys._getframe()
        while frame is not None:
            if self.is_own(frame.f_code):
                frame.f_trace = self.trace
            frame = frame.f_back
        self.leave_imports_alone()
        threading.settrace(self.trace)
        sys.settrace(self.trace)


def _load_pytap():
    global _pytap
    import importlib.util
    import os

    where = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_pytap.py")
    spec = importlib.util.spec_from_file_location("_twinbit_pytap", where)
    _pytap = importlib.util.module_from_spec(spec)
    sys.modules["_twinbit_pytap"] = _pytap
    spec.loader.exec_module(_pytap)
    return _pytap


def install(tap_path):
    """Load the tap's exports, and wait for the parts of torch that we hook."""
    global _lib, _state
    if _lib is not None:
        return
    lib = ctypes.CDLL(tap_path)
    lib.twinbit_intern.restype = ctypes.c_uint32
    lib.twinbit_intern.argtypes = [ctypes.c_char_p]
    lib.twinbit_module_push.argtypes = [ctypes.c_uint32]
    lib.twinbit_module_push.restype = None
    lib.twinbit_module_pop.argtypes = []
    lib.twinbit_module_pop.restype = None
    lib.twinbit_optimizer.argtypes = [ctypes.c_int]
    lib.twinbit_suppress.argtypes = [ctypes.c_int]
    lib.twinbit_line.argtypes = [ctypes.c_uint32]
    lib.twinbit_state.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    lib.twinbit_state_bytes.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t]
    lib.twinbit_step_end.argtypes = [ctypes.c_int64]
    lib.twinbit_cover.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p]
    lib.twinbit_meta.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    lib.twinbit_flags.restype = ctypes.c_uint32
    if hasattr(lib, "twinbit_works"):
        lib.twinbit_works.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        lib.twinbit_works.restype = ctypes.c_size_t
    if hasattr(lib, "twinbit_kernel_name"):
        lib.twinbit_kernel_name.argtypes = [ctypes.c_uint64, ctypes.c_char_p]
        lib.twinbit_kernel_name.restype = None
    _lib = lib
    _state = _State()
    import random  # noqa: F401 - seeded from entropy at its first import, which torch does as well

    _state.rng_first["rng:python"] = _python_rng()
    wanted = {
        "torch.nn.modules.module": _after_module,
        "torch.optim.optimizer": _after_optim,
        "torch.utils.data.dataloader": _after_dataloader,
        "numpy.random": _after_numpy_random,
        "torch._dynamo.callback": _after_dynamo_callback,
        "torch._dynamo.eval_frame": _after_eval_frame,
        "torch.cuda.graphs": _after_cuda_graphs,
        "triton.compiler.compiler": _after_triton,
        "triton.runtime.autotuner": _after_autotuner,
        "torch._inductor.runtime.triton_heuristics": _after_inductor_heuristics,
    }
    if hasattr(lib, "twinbit_op_begin"):
        _load_pytap().install(lib, wanted)
    for name in list(wanted):
        module = sys.modules.get(name)
        if module is not None:
            wanted.pop(name)(module)
    if wanted:
        sys.meta_path.insert(0, _Finder(wanted))
    import os

    sys.meta_path.append(_TwinbitFinder(os.path.dirname(os.path.abspath(__file__))))
    import atexit

    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_after_fork)
    if lib.twinbit_flags() & _STACK:
        if sys.gettrace() is None:
            _Lines().start()
        else:
            _cover(1, "stack", "sys.settrace", "another tracer holds it: no source lines")
