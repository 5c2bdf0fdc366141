"""Pickles that hold nothing but data, read by a machine that knows no other.

Python's own unpickler can refuse globals, but it still lets a file of ten bytes ask for gigabytes
(memo indices, byte arrays), or for hours (numbers as keys that collide), and returns nothing for a
file that was cut off. This machine knows lists, dicts, tuples, text, numbers, booleans and None; it
has no way to name a class, import a module or call anything. Its memory is bounded by the file's
size and MAX_CONTAINERS. For a file that ends too early it returns what it has read so far. Source:
opcodes as Python's pickletools documents them; torch/csrc/jit/serialization/pickler.cpp writes the
dumps.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

MAX_CONTAINERS = 4_000_000
"""Lists, dicts and tuples in one file: 20,000 collectives of 40 frames are about one million."""
MAX_INTEGER_BYTES = 32
MAX_KEY_STEPS = 10_000_000
"""Steps for keys that are no text, in one file. Python's hashes of numbers are known, so a file can
choose numbers that all collide: then a key costs a step for each one before it, and each is counted
as if they did. One dict of 4,400 numbers is allowed, and takes .3 s at the worst. PyTorch's dumps
have text as keys, whose hashes are secret."""
_MARK: Final = object()
Key = str | int | float | bool | None


class NotPlainData(Exception):
    """The bytes are no pickle, or one that asks for more than data."""


class CutOff(Exception):
    """The file ends before its end; `pieces` are the values that stood on the stack."""

    def __init__(self, pieces: list[Any]) -> None:
        super().__init__("the file is cut off")
        self.pieces = pieces


def load_plain_pickle(data: bytes) -> Any:
    """The value of a pickle (protocols 1 to 5).

    Raises NotPlainData for any opcode but data's, for broken structure and beyond the limits;
    CutOff for a file that ends too early.
    """
    return _Machine(data).run()


class _Machine:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.containers = 0
        self.key_steps = 0

    def run(self) -> Any:
        """Until STOP. The most frequent opcodes stand first, outside the table: dumps have
        millions."""
        # Local names: the loop below runs millions of times.
        data, size, stack, memo = self.data, len(self.data), self.stack, self.memo
        table = _TABLE
        try:
            while self.at < size:
                code = data[self.at]
                self.at += 1
                if code == 0x68:  # BINGET
                    stack.append(memo[data[self.at]])
                    self.at += 1
                elif code == 0x71:  # BINPUT
                    memo[data[self.at]] = stack[-1]
                    self.at += 1
                elif code == 0x2E:  # STOP
                    return stack[-1]
                else:
                    table[code](self)
        except (KeyError, TypeError) as error:
            # An opcode outside the table gives KeyError, a wrong value on the stack TypeError.
            raise NotPlainData(
                f"byte {self.at - 1} is no data: {_what(self.data, self.at - 1)}"
            ) from error
        except (IndexError, struct.error) as error:
            # At the end of the bytes the file was cut; before it, its structure is broken.
            if self.at >= size:
                raise CutOff(stack) from error
            raise NotPlainData(f"broken at byte {self.at}") from error
        raise CutOff(stack)

    def take(self, count: int) -> bytes:
        """The next bytes; never copies more than the file has."""
        if count > len(self.data) - self.at:
            self.at = len(self.data)
            raise CutOff(self.stack)
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, layout: str, size: int) -> int:
        """A fixed-size integer argument."""
        value: int = struct.unpack(layout, self.take(size))[0]
        return value

    def push_new(self, value: Any) -> None:
        """Push a list, dict or tuple, counted."""
        self.containers += 1
        if self.containers > MAX_CONTAINERS:
            raise NotPlainData(f"more than {MAX_CONTAINERS} lists and dicts")
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        """Take everything above the last mark, and the mark."""
        stack = self.stack
        place = len(stack) - 1
        while stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise NotPlainData(f"byte {self.at}: no mark")
        taken = stack[place + 1 :]
        del stack[place:]
        return taken


def _text(layout: str, size: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        machine.stack.append(machine.take(machine.number(layout, size)).decode("utf-8", "replace"))

    return read


def _integer(layout: str, size: int) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(machine.number(layout, size))


def _long(layout: str, size: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        count = machine.number(layout, size)
        if not 0 <= count <= MAX_INTEGER_BYTES:
            raise NotPlainData(f"an integer of {count} bytes")
        machine.stack.append(int.from_bytes(machine.take(count), "little", signed=True))

    return read


def _constant(value: Any) -> Callable[[_Machine], None]:
    return lambda machine: machine.stack.append(value)


def _float(machine: _Machine) -> None:
    machine.stack.append(struct.unpack(">d", machine.take(8))[0])


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        taken = machine.stack[len(machine.stack) - count :]
        if len(taken) != count or any(value is _MARK for value in taken):
            raise NotPlainData(f"byte {machine.at}: too little for a tuple")
        del machine.stack[len(machine.stack) - count :]
        machine.push_new(tuple(taken))

    return read


def _append(machine: _Machine) -> None:
    value = machine.stack.pop()
    _list_on_top(machine).append(value)


def _appends(machine: _Machine) -> None:
    values = machine.since_mark()
    _list_on_top(machine).extend(values)


def _list_on_top(machine: _Machine) -> list[Any]:
    top = machine.stack[-1]
    if type(top) is not list:
        raise NotPlainData(f"byte {machine.at}: appends to what is no list")
    return top


def _set_items(machine: _Machine, values: list[Any]) -> None:
    top = machine.stack[-1]
    # An odd number of values leaves a key without its value.
    if type(top) is not dict or len(values) % 2:
        raise NotPlainData(f"byte {machine.at}: sets items of what is no dict")
    for key, value in zip(values[::2], values[1::2], strict=True):
        if not isinstance(key, Key):
            raise NotPlainData(f"byte {machine.at}: a key that is no text or number")
        if type(key) is not str:
            machine.key_steps += len(top)
            if machine.key_steps > MAX_KEY_STEPS:
                raise NotPlainData(f"byte {machine.at}: too many numbers as keys")
        top[key] = value


def _setitems(machine: _Machine) -> None:
    _set_items(machine, machine.since_mark())


def _setitem(machine: _Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _set_items(machine, [key, value])


def _dict_since_mark(machine: _Machine) -> None:
    values = machine.since_mark()
    machine.push_new({})
    _set_items(machine, values)


def _protocol(machine: _Machine) -> None:
    if machine.take(1)[0] > 5:
        raise NotPlainData("a pickle of an unknown protocol")


def _frame(machine: _Machine) -> None:
    # A frame's length only helps readers that stream: skip it.
    machine.take(8)


def _put(layout: str, size: int) -> Callable[[_Machine], None]:
    def read(machine: _Machine) -> None:
        index = machine.number(layout, size)
        # Writers count up from 0. Numbers chosen freely could collide as keys can.
        if index > machine.at:
            raise NotPlainData(f"byte {machine.at}: memo index {index} is out of order")
        machine.memo[index] = machine.stack[-1]

    return read


def _get(machine: _Machine) -> None:
    machine.stack.append(machine.memo[machine.number("<I", 4)])


def _memoize(machine: _Machine) -> None:
    machine.memo[len(machine.memo)] = machine.stack[-1]


_TABLE: Final[dict[int, Callable[[_Machine], None]]] = {
    ord("X"): _text("<I", 4),
    0x8C: _text("<B", 1),
    0x8D: _text("<Q", 8),
    ord("U"): _text("<B", 1),
    ord("T"): _text("<I", 4),
    ord("C"): _text("<B", 1),
    ord("B"): _text("<I", 4),
    ord("K"): _integer("<B", 1),
    ord("M"): _integer("<H", 2),
    ord("J"): _integer("<i", 4),
    0x8A: _long("<B", 1),
    0x8B: _long("<i", 4),
    ord("G"): _float,
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    ord("("): _constant(_MARK),
    ord("]"): lambda machine: machine.push_new([]),
    ord("}"): lambda machine: machine.push_new({}),
    ord(")"): lambda machine: machine.push_new(()),
    ord("l"): lambda machine: machine.push_new(machine.since_mark()),
    ord("t"): lambda machine: machine.push_new(tuple(machine.since_mark())),
    ord("d"): _dict_since_mark,
    0x85: _tuple_of(1),
    0x86: _tuple_of(2),
    0x87: _tuple_of(3),
    ord("a"): _append,
    ord("e"): _appends,
    ord("s"): _setitem,
    ord("u"): _setitems,
    ord("r"): _put("<I", 4),
    ord("j"): _get,
    0x94: _memoize,
    0x80: _protocol,
    0x95: _frame,
}
"""Everything that is data. Missing on purpose: globals, calls, instances, persistent ids, the
extension registry, byte arrays, out-of-band buffers, sets, and the text opcodes of protocol 0."""

_NAMES = {
    ord("c"): "names a global",
    0x93: "names a global",
    ord("R"): "calls a function",
    ord("b"): "sets an object's state",
    ord("o"): "makes an object",
    ord("i"): "makes an object",
    0x81: "makes an object",
    0x92: "makes an object",
    ord("P"): "asks for a persistent id",
    ord("Q"): "asks for a persistent id",
    0x82: "asks for a registered extension",
    0x83: "asks for a registered extension",
    0x84: "asks for a registered extension",
}


def _what(data: bytes, at: int) -> str:
    code = data[at] if 0 <= at < len(data) else -1
    return _NAMES.get(code, f"opcode {code:#04x}")
