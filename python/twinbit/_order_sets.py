"""Sets of asyncio's wait(): gone through in one order each time, and not in that of their tasks' addresses.

A task of asyncio has its address as its hash, which nothing can change. So what wait() returns is a set that knows an order,
of submission, and else is one. Loaded with _order_async.py.
"""

from __future__ import annotations


def _changes(name):
    """As the set's own; what it has added goes to the end, in the order in which it was given."""
    inner = getattr(set, name)

    def change(self, *others):
        others = [o if isinstance(o, (set, frozenset, dict)) else list(o) for o in others] if name != "__ior__" else others
        result = inner(self, *others)
        if result is NotImplemented:
            return result
        have = [f for f in self._order if set.__contains__(self, f)]
        new = [f for o in others for f in o if set.__contains__(self, f)]
        self._order = dict.fromkeys(have + new)
        return self if result is not None else None

    change.__name__, change.__qualname__, change.__doc__ = name, f"set.{name}", inner.__doc__
    return change


class Ordered(set):
    """`_order`: what is in it, as a dict has it."""

    __slots__ = ("_order",)

    def __init__(self, elements=()):
        self._order = dict.fromkeys(elements)
        set.__init__(self, self._order)

    def __iter__(self):
        return iter(self._order)

    def __repr__(self):
        return "{" + ", ".join(map(repr, self)) + "}" if self else "set()"

    def __reduce_ex__(self, protocol):
        return set, (list(self),)

    def copy(self):
        return Ordered(self)

    def add(self, element):
        set.add(self, element)
        self._order.setdefault(element)

    def discard(self, element):
        set.discard(self, element)
        self._order.pop(element, None)

    def remove(self, element):
        set.remove(self, element)
        self._order.pop(element, None)

    def clear(self):
        set.clear(self)
        self._order.clear()

    def pop(self):
        """The first one."""
        if not self._order:
            return set.pop(self)  # an error
        element = next(iter(self._order))
        self.remove(element)
        return element


for _name in ("update", "intersection_update", "difference_update", "symmetric_difference_update",
              "__ior__", "__iand__", "__isub__", "__ixor__"):
    setattr(Ordered, _name, _changes(_name))


def _makes(name):
    """A set of the same kind: what is left of this one, then what is new."""
    inner = getattr(set, name)

    def make(self, *others):
        others = [o if isinstance(o, (set, frozenset, dict)) else list(o) for o in others] if name[0] != "_" else others
        result = inner(self, *others)
        if result is NotImplemented:
            return result
        elements = [f for part in (self, *others) for f in part if f in result]
        return Ordered(elements)

    make.__name__, make.__qualname__, make.__doc__ = name, f"set.{name}", inner.__doc__
    return make


for _name in ("union", "intersection", "difference", "symmetric_difference", "__or__", "__and__", "__sub__", "__xor__"):
    setattr(Ordered, _name, _makes(_name))
Ordered.__name__ = Ordered.__qualname__ = "set"
