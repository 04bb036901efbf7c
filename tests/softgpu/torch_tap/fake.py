"""The stand-in for the CUDA recorder (fake_cuda.c): import it first, and the torch tap asks it."""
import ctypes
import os

_lib = ctypes.CDLL(os.environ["TB_FAKE"])
_lib.fake_get.restype = ctypes.c_uint64
_lib.fake_name.restype = ctypes.c_char_p
_lib.fake_block.restype = ctypes.c_uint64
_lib.fake_block.argtypes = [ctypes.c_uint64]


def install():
    status = _lib.fake_install()
    assert status == 0, f"fake_install: {status}"


def get(what):
    value = _lib.fake_get(what.encode())
    assert value != 2**64 - 1, what
    return value


def name():
    return _lib.fake_name().decode()


def block(address):
    return _lib.fake_block(address)


install()
