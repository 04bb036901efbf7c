#!/usr/bin/env python3
"""python/twinbit/_data.py: indices are stored, and made again in the types that the job's sampler gives.

usage: check_data_order.py SOURCE
"""
import importlib.util
import os
import sys

sys.dont_write_bytecode = True


class Small(int):
    """As NumPy's: a type of its own, which refuses what does not fit."""

    def __new__(cls, value):
        if value > 127:
            raise OverflowError(value)
        return super().__new__(cls, value)


Small.__module__ = "numpy"


class Tensor:
    def __index__(self):
        raise AssertionError("a tensor was asked for its number")


def load(source):
    spec = importlib.util.spec_from_file_location("data", os.path.join(source, "python", "twinbit", "_data.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    data = load(sys.argv[1])
    pack, unpack = data._pack, data._unpack
    for index in ([1, 2], (3, 4), 7, [2**40], -3, [], [-1, 2], Small(4), [Small(5)]):
        again = unpack(pack(index), index)
        assert again == index and type(again) is type(index), (index, again)
    assert type(unpack(pack([5]), [Small(6)])[0]) is Small
    # behind the end of this run's sampler there is nothing to be like
    assert unpack(pack([5]), data._OVER) == [5] and unpack(pack(5), data._OVER) == 5
    # what cannot be made is not made, and raises nothing
    for recorded, natural in (([5], 5), (5, [5]), ([300], [Small(1)]), ([5], [Tensor()]), ([5], ["a"])):
        assert unpack(pack(recorded), natural) is None, (recorded, natural)
    assert pack(["a", ("b", 1)]) != pack(["a", ("b", 2)]) and pack(["a"])[:1] == b"h"
    assert pack([object()]) == pack([Tensor()]) == pack(Tensor()) == data._OTHER
    assert unpack(data._OTHER, [1]) is None and unpack(b"h00000000", [1]) is None


main()
