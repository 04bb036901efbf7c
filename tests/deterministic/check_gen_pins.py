"""check_gen_pins.py - deterministic/gen_pins.py refuses what is wrong in a catalogue, with file:line and what to do.

    python3 check_gen_pins.py SOURCE-FOLDER

Also: the catalogue itself is accepted, and docs/pins.md is what it gives.
"""

import os
import subprocess
import sys
import tempfile

SOURCE = sys.argv[1]
GENERATOR = os.path.join(SOURCE, "deterministic", "gen_pins.py")
CATALOGUE = os.path.join(SOURCE, "deterministic", "pins.txt")
SMALL = """# a catalogue
[word read]
about = nothing is set
[word seed]
about = from the seed
[word add]
about = added
argument = TEXT
[mechanism env]
about = a variable
[reader runtime]
about = the library
[profile observe]
about = sets nothing
default = @read
[profile basic]
about = costs nothing
[profile strict]
about = repeatable
includes = basic
[profile portable]
about = everywhere
includes = strict
[group a]
title = First

[pin a.one]
pins = one thing
mechanism = env
sets = ONE
since = 1
basic = 0
reader = runtime
verify = looked at
cost = none: read once
note = a text
  that goes on
confirmed = yes
source = https://example.org/one

[pin a.two]
pins = another thing
mechanism = env
sets = TWO
since = 1
strict = @add x
reader = runtime
verify = looked at
cost = varies: with the job
needs = a.one
conflict = job TWO=2: the job's own wins
confirmed = no
doubt = everything
source = man 3 two
"""
# what is replaced, by what, the line that is to be named, a part of the text
WRONG = [
    ("[group a]", "[grup a]", 24, "is no section: write [KIND NAME]"),
    ("[pin a.one]", "[pin One]", 27, "'One' is no name of a pin: write group.what"),
    ("[word seed]", "[word read]", 4, "word 'read' stands in line 2 already"),
    ("[pin a.two]", "[pin a.one]", 41, "pin 'a.one' stands in line 27 already"),
    ("[pin a.two]", "[pin b.two]", 41, "is of no group: add [group b] with a title, or take one of a"),
    ("pins = one thing\n", "", 27, "pin 'a.one' lacks 'pins': add 'pins = ...'"),
    ("source = man 3 two\n", "", 41, "pin 'a.two' lacks 'source'"),
    ("pins = one thing", "pin = one thing", 28, "unknown key 'pin' in a pin: one of pins,"),
    ("pins = one thing", "pins one thing", 28, "is no entry: write key = value"),
    ("sets = ONE", "sets =", 30, "is no entry: write key = value"),
    ("since = 1\nbasic", "since = 1\nsince = 2\nbasic", 32, "'since' stands in line 31 already"),
    ("pins = one thing", "pins = " + "one thing " * 12, 28, "of 'pins': 100 at most"),
    ("mechanism = env\nsets = ONE", "mechanism = magic\nsets = ONE", 29, "'magic' is no mechanism: one of env"),
    ("reader = runtime\nverify = looked at\ncost = none", "reader = me\nverify = looked at\ncost = none", 33,
     "'me' is no reader: one of runtime"),
    ("confirmed = yes", "confirmed = perhaps", 38, "'perhaps' is no confirmed: one of yes, doc, no"),
    ("doubt = everything\n", "", 52, "is not confirmed: say with 'doubt = ...'"),
    ("cost = none: read once", "cost = none", 35, "is no cost: write WORD: why"),
    ("cost = none: read once", "cost = much: read once", 35, "is no cost: write WORD: why"),
    ("cost = none: read once", "cost = small: a little", 35, "costs something and is in basic"),
    ("strict = @add x", "strict = @sed", 46, "'@sed' is no word of values: one of @read, @seed, @add"),
    ("strict = @add x", "strict = @add", 46, "'@add' takes TEXT: write it so"),
    ("basic = 0", "basic = @seed x", 32, "'@seed' takes no argument: write it so"),
    ("basic = 0", "basic = 0\nform = digit", 33, "'digit' is no form: write number A..B"),
    ("basic = 0", "basic = x\nform = number 1..4", 32, "'x' is not of the form 'number 1..4' of pin 'a.one'"),
    ("basic = 0", "basic = 0\nform = number 1..4", 32, "'0' is not of the form"),
    ("basic = 0", "basic = 1,9\nform = numbers 1..4", 32, "'1,9' is not of the form"),
    ("basic = 0", "basic = 0\nform = one a b", 32, "'0' is not of the form 'one a b'"),
    ("basic = 0", "observe = 0\nbasic = 0", 32, "observe sets nothing: write @read or @log"),
    ("needs = a.one", "needs = a.three", 50, "needs 'a.three', which is no pin"),
    ("needs = a.one", "needs = a.two", 50, "needs itself"),
    ("conflict = job TWO=2: the", "conflict = TWO=2: the", 51, "is no conflict: write 'pin ID: why'"),
    ("conflict = job TWO=2: the", "conflict = pin a.three: the", 51, "conflicts with 'a.three', which is no pin"),
    ("conflict = job TWO=2: the", "conflict = pin a.one: the", 51, "strict sets both 'a.two' and 'a.one'"),
    ("basic = 0", "portable = 0", 50, "'a.two' is in strict, 'a.one', which it needs, is not"),
    ("https://example.org/one", "http://example.org/one", 39, "is no address: write https://"),
    ("[profile basic]", "[profile base]", 1, "the profiles must be observe, basic, strict, portable"),
    ("includes = basic", "includes = portable", 20, "profile 'strict' cannot include 'portable'"),
    ("[group a]\ntitle = First", "[group a]\ntitle = First\n[group b]\ntitle = None", 26, "group 'b' has no pin"),
    ("note = a text", "note = a t\u00e9xt", 36, "a character that is not ASCII"),
    ("note = a text", "note = a\ttext", 36, "a character that is not ASCII, or a tab"),
    ("since = 1\nbasic", "since = 1\n\n  more\nbasic", 33, "no 'key = value' stands right above it"),
]


def run(*options):
    return subprocess.run([sys.executable, GENERATOR, *options], capture_output=True, text=True, check=False)


def refuse(folder, old, new, line, text):
    """The small catalogue with one mistake: status 1, nothing written, a line that names the place"""
    path, out = os.path.join(folder, "wrong.txt"), os.path.join(folder, "wrong.c")
    assert old in SMALL, old
    with open(path, "w", encoding="utf-8") as f:
        f.write(SMALL.replace(old, new, 1))
    got = run("--in", path, "--c", out)
    assert got.returncode == 1 and not os.path.exists(out), (new, got)
    hits = [e for e in got.stderr.splitlines() if e.startswith(f"{path}:{line}: ") and text in e]
    assert hits, f"{new!r}: no line names {line} with {text!r}:\n{got.stderr}"
    assert all(": " in e.split(": ", 1)[1] for e in got.stderr.splitlines()), got.stderr  # says what to do


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "small.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(SMALL)
        good = run("--in", path, "--c", os.path.join(folder, "small.c"))
        assert good.returncode == 0 and not good.stderr, good
        with open(os.path.join(folder, "small.c"), encoding="utf-8") as f:
            table = f.read()
        # inherited, default and own values; a text over two lines; a conflict with the job
        for part in ('{"@read", "0", "0", "0"}', '{"@read", NULL, "@add x", "@add x"}', '"a text that goes on"',
                     '{true, "TWO=2", "the job\'s own wins"}'):
            assert part in table, part
        for wrong in WRONG:
            refuse(folder, *wrong)
        absent = run("--in", os.path.join(folder, "absent.txt"))
        assert absent.returncode == 1 and "cannot read" in absent.stderr and "Traceback" not in absent.stderr, absent
        doc = os.path.join(folder, "pins.md")
        whole = run("--in", CATALOGUE, "--doc", doc)
        assert whole.returncode == 0, whole.stderr
        with open(doc, encoding="utf-8") as made, open(os.path.join(SOURCE, "docs", "pins.md"), encoding="utf-8") as kept:
            assert made.read() == kept.read(), "docs/pins.md is not what pins.txt gives: run scripts/pins.sh"
    print(f"1 catalogue accepted, {len(WRONG)} mistakes found, docs/pins.md is up to date")


if __name__ == "__main__":
    main()
