"""The environment in which numba-cuda finds its compilers and brings PTX, for the programs of this folder.

numba-cuda links with nvJitLink where there is one, and hands over machine code then. Without one it uses the driver's
linker, as its documentation says, and that is what softgpu can be. So an empty library of that name is loaded first
(no_nvjitlink.c). NVRTC and the headers may lie in another site's folder than numba; cuda-pathfinder looks for them in
its own site, on LD_LIBRARY_PATH, in the system, and in CUDA_HOME.
"""

import os
import pathlib
import sys

BUILD = pathlib.Path(os.environ.get("TB_BUILD_DIR", "build/dev")).resolve()
STAND_INS = BUILD / "tests" / "softgpu" / "clients"
NO_NVJITLINK = STAND_INS / "no_nvjitlink" / "libnvJitLink.so.13"


def toolkit():
    """Folder of NVIDIA's wheels that has NVRTC, or None."""
    for site in sys.path:
        folder = pathlib.Path(site, "nvidia", "cu13")
        if (folder / "lib" / "libnvrtc.so.13").exists():
            return folder
    return None


def prepend(env, name, value):
    env[name] = ":".join([str(value), *filter(None, [env.get(name)])])


def environment(skip_kernels=False):
    """A copy of this process's environment with what numba-cuda needs; the device is set up already.

    With skip_kernels, a libcuda.so.1 that executes no kernel comes first (skip_kernels.c).
    """
    env = dict(os.environ)
    cu13 = toolkit()
    if cu13:
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [env.get("LD_LIBRARY_PATH"), str(cu13 / "lib")]))
        env["CUDA_HOME"] = str(cu13)
    prepend(env, "LD_PRELOAD", NO_NVJITLINK)
    # said once a process when the empty library is met; tests compare what is written on standard error
    env["PYTHONWARNINGS"] = "ignore:libnvJitLink.so* is too old"
    if skip_kernels:
        env["SKIP_KERNELS_DRIVER"] = str(BUILD / "softgpu" / "lib" / "libcuda.so.1")
        prepend(env, "LD_LIBRARY_PATH", STAND_INS / "skip_kernels")
        env["LD_PRELOAD"] = str(NO_NVJITLINK)  # not the runtime, which would bring softgpu's own driver
    return env


def enter():
    """Starts this program again in that environment; returns in the second one."""
    if "TB_NUMBA_ENV" not in os.environ:
        env = dict(environment(), TB_NUMBA_ENV="1")
        os.execve(sys.executable, [sys.executable, *sys.argv], env)
