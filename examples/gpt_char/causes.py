"""causes.py - five ways to make two runs of the example differ, each of which writes down the truth.

  threads      in one module, OMP_NUM_THREADS threads sum up the gradient of a weight
  dropout      one module's dropout draws from a generator that nobody seeded
  order        the parameters pass through a set of names: their order hangs on PYTHONHASHSEED
  flip-inside  one bit of one activation is flipped while the operator that writes it still runs
  flip-after   one bit of one activation is flipped behind everybody's back, after its writer returned

What both runs share (which module, from which step) follows from the seed. What strikes one run only
(step, module, element, bit, the way of writing) is drawn from os.urandom unless `place` gives it.
All reads and writes here that only serve the truth go through raw pointers: they are no operators.
"""

import ctypes
import json
import os
import random

import numpy
import torch
from torch import nn

CAUSES = ("none", "threads", "dropout", "order", "flip-inside", "flip-after")


def words(tensor):
    """words - the 32-bit patterns of a contiguous float32 tensor, by its address; a copy"""
    pointer = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_uint32))
    return numpy.ctypeslib.as_array(pointer, shape=(tensor.numel(),)).copy()


def flip(address, bit, way):
    """flip - flip one bit of the 32-bit word at @address; returns the word before and after"""
    if way == "ctypes":
        word = ctypes.c_uint32.from_address(address)
        before = word.value
        word.value = before ^ (1 << bit)
        return before, word.value
    memory = os.open("/proc/self/mem", os.O_RDWR)
    try:
        before = int.from_bytes(os.pread(memory, 4, address), "little")
        os.pwrite(memory, (before ^ (1 << bit)).to_bytes(4, "little"), address)
        return before, before ^ (1 << bit)
    finally:
        os.close(memory)


class Cause:
    """Cause - does nothing; the base of those below. `step` is set by the training loop."""

    operator = None

    def __init__(self, seed, place, steps):
        self.shared = random.Random(seed)  # the same in both runs of a pair
        self.place = place
        self.steps = steps
        self.step = 0
        self.module = None
        self.seen = {}   # step -> words of the planted operator's output
        self.truth = {}

    def plant(self, model):
        pass

    def parameters(self, model):
        return list(model.parameters())

    def write(self, path, name, seed):
        truth = {"cause": name, "seed": seed, "operator": self.operator, "module": self.module}
        truth.update(self.truth)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(truth, f, indent=1)
            f.write("\n")
        if self.seen:
            numpy.savez(os.path.splitext(path)[0] + ".npz", **self.seen)


class ThreadedNorm(nn.LayerNorm):
    """ThreadedNorm - takes @cause.threads threads backward: the gradient of the weight is a sum over all rows,
    made of one partial sum a thread"""

    def __init__(self, cause, width):
        super().__init__(width)
        self.cause = [cause]
        self.weight.register_hook(cause.saw)

    def forward(self, x):
        x.register_hook(lambda grad: torch.set_num_threads(1))
        y = super().forward(x)
        y.register_hook(lambda grad: torch.set_num_threads(self.cause[0].threads))
        return y


class Threads(Cause):
    operator = "aten::native_layer_norm_backward"

    def plant(self, model):
        torch.set_num_threads(1)
        self.threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
        which = self.shared.randrange(len(model.h))
        self.module = f"h.{which}.extra"
        model.h[which].extra = ThreadedNorm(self, model.ln_f.weight.numel())

    def saw(self, gradient):
        self.seen[f"step{self.step}"] = words(gradient)


class UnseededDropout(nn.Module):
    def __init__(self, cause, p):
        super().__init__()
        self.cause = [cause]
        self.p = p

    def forward(self, x):
        if not self.training:
            return x
        keep = torch.empty_like(x)
        self.cause[0].before_drawing()
        keep.bernoulli_(1 - self.p)
        self.cause[0].saw(keep)
        return x * keep / (1 - self.p)


class Dropout(Cause):
    operator = "aten::bernoulli_"

    def plant(self, model):
        self.first = self.shared.randrange(1, self.steps)
        which = self.shared.randrange(len(model.h))
        self.module = f"h.{which}.extra"
        model.h[which].extra = UnseededDropout(self, 0.1)
        self.truth["step"] = self.first

    def before_drawing(self):
        if self.step == self.first:
            torch.seed()

    def saw(self, keep):
        if self.step == self.first:
            self.seen[f"step{self.step}"] = words(keep)


class Order(Cause):
    operator = "aten::linalg_vector_norm"

    def parameters(self, model):
        named = dict(model.named_parameters())
        order = list(set(named))
        self.module = ""
        self.truth.update(step=0, order=order, shapes=[list(named[n].shape) for n in order])
        return [named[n] for n in order]


_striking = []  # the Flip of this process, for the operator's body; set once by Flip.plant


@torch.library.custom_op("gpt_char::gain", mutates_args=())
def gain(x: torch.Tensor, factor: float) -> torch.Tensor:
    y = x * factor
    for cause in _striking:
        cause.strike("flip-inside", y)
    return y


def _gain_context(ctx, inputs, output):
    ctx.factor = inputs[1]


def _gain_backward(ctx, grad):
    return grad * ctx.factor, None


gain.register_autograd(_gain_backward, setup_context=_gain_context)


class Gain(nn.Module):
    def __init__(self, cause, name):
        super().__init__()
        self.cause = [cause]
        self.name = name

    def forward(self, x):
        self.cause[0].inside = self.name
        y = gain(x, 1.25)
        self.cause[0].strike("flip-after", y)
        return y


class Flip(Cause):
    """Flip - strikes once; @place {"strike": false} never, {"step":, "module":, "index":, "bit":, "way":} there"""

    operator = "gpt_char::gain"
    name = None

    def plant(self, model):
        for i, block in enumerate(model.h):
            block.extra = Gain(self, f"h.{i}.extra")
        _striking.append(self)
        drawn = random.SystemRandom()
        self.at = {
            "step": drawn.randrange(self.steps),
            "module": f"h.{drawn.randrange(len(model.h))}.extra",
            "index": None,
            "bit": drawn.randrange(32),
            "way": drawn.choice(("ctypes", "/proc/self/mem")),
        }
        self.at.update(self.place)

    def strike(self, name, y):
        at = self.at
        if name != self.name or not at.get("strike", True) or self.step != at["step"] or \
                self.inside != at["module"]:
            return
        if at["index"] is None:
            at["index"] = random.SystemRandom().randrange(y.numel())
        before, after = flip(y.data_ptr() + 4 * at["index"], at["bit"], at["way"])
        self.module = at["module"]
        self.truth = dict(at, before=f"{before:08x}", after=f"{after:08x}", shape=list(y.shape))
        if name == "flip-after":
            self.truth["reader"] = {"operator": "aten::mul", "module": at["module"][:-5] + "drop"}


class FlipInside(Flip):
    name = "flip-inside"


class FlipAfter(Flip):
    name = "flip-after"


def make(name, seed, place, steps):
    """make - the Cause of that name; @place: dict, see Flip"""
    kinds = {"none": Cause, "threads": Threads, "dropout": Dropout, "order": Order,
             "flip-inside": FlipInside, "flip-after": FlipAfter}
    return kinds[name](seed, place, steps)
