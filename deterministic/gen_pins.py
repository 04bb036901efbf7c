#!/usr/bin/env python3
"""Reads the catalogue of pins (pins.txt) and writes C tables or the documentation from it.

usage: gen_pins.py --in pins.txt --c FILE       the tables behind catalogue.h
       gen_pins.py --in pins.txt --doc FILE     docs/pins.md
       gen_pins.py --in pins.txt                only checks

The grammar stands at the head of pins.txt. Every mistake is one line on stderr, "FILE:LINE: what is wrong, what to
do", and the status is then 1 and nothing is written.
"""
import argparse
import os
import re
import sys

sys.dont_write_bytecode = True

KINDS = {  # section -> key -> (times at least, times at most)
    "word": {"about": (1, 1), "argument": (0, 1)},
    "mechanism": {"about": (1, 1)},
    "reader": {"about": (1, 1)},
    "profile": {"about": (1, 1), "includes": (0, 1), "default": (0, 1)},
    "group": {"title": (1, 1)},
    "pin": {"pins": (1, 1), "mechanism": (1, 1), "sets": (1, 1), "since": (1, 1), "single": (0, 1), "form": (0, 1),
            "reader": (1, 1),
            "verify": (1, 1), "cost": (1, 1), "needs": (0, 1), "conflict": (0, 16), "note": (0, 1),
            "missing": (0, 1), "confirmed": (1, 1), "doubt": (0, 1), "source": (1, 16)},
}
PROFILES = ["observe", "basic", "strict", "portable"]  # enum tb_pin_profile
COSTS = ["none", "small", "large", "varies", "unknown"]  # enum tb_pin_cost
CONFIRMED = ["yes", "doc", "no"]  # enum tb_pin_confirmed
ONE_LINE = 100  # characters of what a pin pins: it is a line of a list
SEED = "number 0..4294967295"
NAMES = {"pin": r"[a-z][a-z0-9]*\.[a-z][a-z0-9_]*"}
NAME = r"[a-z][a-z0-9_]*"


def fits(form, value):
    """fits - is @value of @form? As tb_pin_fits() in catalogue.c"""
    kind, _, rest = form.partition(" ")
    if kind == "one":
        return value in rest.split()
    if kind in ("number", "numbers"):
        low, high = map(int, rest.split(".."))
        parts = value.split(",") if kind == "numbers" else [value]
        return all(p.isdigit() and low <= int(p) <= high for p in parts)
    if kind == "cpus":
        ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", p) for p in value.split(",")]
        return all(r and int(r[1]) <= int(r[2] or r[1]) < 1024 for r in ranges)
    return re.fullmatch({"octal": r"[0-7]{3}"}.get(kind, ".*"), value) is not None


class Section:
    """One section of the file: its kind and name, and for each key a list of (line, value)."""

    def __init__(self, kind, name, line):
        self.kind, self.name, self.line, self.keys = kind, name, line, {}

    def get(self, key, default=""):
        return self.keys[key][0][1] if key in self.keys else default

    def all(self, key):
        return self.keys.get(key, [])

    def where(self, key):
        return self.keys[key][0][0] if key in self.keys else self.line


class Catalogue:
    """The whole file; `errors` has a text for each mistake."""

    def __init__(self, path):
        self.path, self.errors = path, []
        self.sections = {kind: {} for kind in KINDS}

    def error(self, line, text):
        self.errors.append(f"{self.path}:{line}: {text}")

    def of(self, kind):
        return list(self.sections[kind].values())

    # ------------------------------------------------------------ reading

    def read(self):
        section, key = None, None
        with open(self.path, "rb") as f:
            data = f.read()
        for number, raw in enumerate(data.split(b"\n"), 1):
            line = raw.decode("latin-1").rstrip()
            if re.search(r"[^ -~]", line):
                self.error(number, "a character that is not ASCII, or a tab: write it with ASCII letters and blanks")
                continue
            if not line:
                key = None
            elif line.startswith("#"):
                continue
            elif line.startswith("["):
                section, key = self.open(line, number), None
            elif line.startswith(" "):
                if section and key:
                    at, value = section.keys[key][-1]
                    section.keys[key][-1] = (at, value + " " + line.strip())
                elif section:
                    self.error(number, "a line that goes on, but no 'key = value' stands right above it: begin it with a key")
            elif section:
                key = self.entry(section, line, number)
        return self

    def open(self, line, number):
        m = re.fullmatch(r"\[(\w+) ([^\]]+)\]", line)
        if not m or m[1] not in KINDS:
            self.error(number, f"'{line}' is no section: write [KIND NAME], KIND one of {', '.join(KINDS)}")
            return None
        kind, name = m[1], m[2]
        if not re.fullmatch(NAMES.get(kind, NAME), name):
            self.error(number, f"'{name}' is no name of a {kind}: " +
                       ("write group.what, in lower case" if kind == "pin" else "lower case, digits and '_' only"))
        section = Section(kind, name, number)
        if name in self.sections[kind]:
            self.error(number, f"{kind} '{name}' stands in line {self.sections[kind][name].line} already: "
                       "give one of them another name, or join them")
        else:
            self.sections[kind][name] = section
        return section

    def entry(self, section, line, number):
        key, equals, value = (p.strip() for p in line.partition("="))
        allowed = {**KINDS[section.kind], **({p: (0, 1) for p in PROFILES} if section.kind == "pin" else {})}
        if not equals or not value:
            self.error(number, f"'{line}' is no entry: write key = value, both not empty")
            return None
        if key not in allowed:
            self.error(number, f"unknown key '{key}' in a {section.kind}: one of {', '.join(allowed)}")
            return None
        if len(section.all(key)) >= allowed[key][1]:
            self.error(number, f"'{key}' stands in line {section.where(key)} already: "
                       "leave one of them, or go on with a line that begins with a blank")
            return None
        section.keys.setdefault(key, []).append((number, value))
        return key

    # ------------------------------------------------------------ what must hold

    def check(self):
        for kind, sections in self.sections.items():
            for s in sections.values():
                for key, (least, _) in KINDS[kind].items():
                    if len(s.all(key)) < least:
                        self.error(s.line, f"{kind} '{s.name}' lacks '{key}': add '{key} = ...'")
        if list(self.sections["profile"]) != PROFILES:
            self.error(1, f"the profiles must be {', '.join(PROFILES)}, in this order: "
                       "put them so, or change gen_pins.py and catalogue.h")
        for s in self.of("profile"):
            self.check_profile(s)
        for s in self.of("pin"):
            self.check_pin(s)
        if not self.errors:
            for s in self.of("pin"):
                self.check_profiles(s)
        for s in self.of("group"):
            if not any(self.group_of(p) == s.name for p in self.of("pin")):
                self.error(s.line, f"group '{s.name}' has no pin: take it out, or name a pin {s.name}.something")
        return self

    def check_profile(self, s):
        base = s.get("includes")
        if base and (base not in PROFILES or PROFILES.index(base) >= PROFILES.index(s.name)):
            self.error(s.where("includes"), f"profile '{s.name}' cannot include '{base}': name a profile above it")
        if "default" in s.keys:
            self.check_value(s, "default")

    def check_pin(self, s):
        if self.group_of(s) not in self.sections["group"]:
            self.error(s.line, f"pin '{s.name}' is of no group: add [group {self.group_of(s)}] with a title, "
                       f"or take one of {', '.join(self.sections['group'])}")
        self.check_word(s, "mechanism", list(self.sections["mechanism"]))
        self.check_word(s, "reader", list(self.sections["reader"]))
        self.check_word(s, "confirmed", CONFIRMED)
        if len(s.get("pins")) > ONE_LINE:
            self.error(s.where("pins"), f"{len(s.get('pins'))} characters of 'pins': {ONE_LINE} at most, the rest "
                       "belongs into 'note'")
        for key in (*PROFILES, "single"):
            if key in s.keys:
                self.check_value(s, key)
        if "observe" in s.keys and s.get("observe") not in ("@read", "@log"):
            self.error(s.where("observe"), "observe sets nothing: write @read or @log")
        self.check_form(s)
        self.check_cost(s)
        self.check_others(s)
        if s.get("confirmed") == "no" and "doubt" not in s.keys:
            self.error(s.where("confirmed"), f"pin '{s.name}' is not confirmed: say with 'doubt = ...' what is not known")
        if s.get("mechanism") == "env" and not re.fullmatch(r"[A-Z][A-Z0-9_]*(, [A-Z][A-Z0-9_]*)*", s.get("sets")):
            self.error(s.where("sets"), f"'{s.get('sets')}' is no list of variables: write NAME, or NAME, NAME")
        for line, source in s.all("source"):
            if "://" in source and not re.fullmatch(r"https://[^\s]+", source):
                self.error(line, f"'{source}' is no address: write https://..., nothing behind it")

    def check_word(self, s, key, allowed):
        value = s.get(key)
        if value and value not in allowed:
            self.error(s.where(key), f"'{value}' is no {key}: one of {', '.join(allowed)}")

    def check_value(self, s, key):
        value = s.get(key)
        if not value.startswith("@"):
            return
        name, _, argument = value[1:].partition(" ")
        word = self.sections["word"].get(name)
        if not word:
            self.error(s.where(key), f"'@{name}' is no word of values: one of @{', @'.join(self.sections['word'])}, "
                       f"or declare it with [word {name}]")
        elif bool(argument) != ("argument" in word.keys):
            self.error(s.where(key), f"'@{name}' takes {word.get('argument') or 'no argument'}: write it so")

    def form(self, s):
        """form - of pin @s: its own, or what its values tell; empty: any text"""
        values = {s.get(k) for k in (*PROFILES, "single") if k in s.keys}
        return s.get("form") or (SEED if "@seed" in values else "one True False" if values & {"True", "False"} else "")

    def check_form(self, s):
        form = self.form(s)
        if form and not re.fullmatch(r"numbers? \d+\.\.\d+|one( [^ ,]+)+|octal|cpus", form):
            self.error(s.where("form"), f"'{form}' is no form: write number A..B, numbers A..B, one X Y, octal or cpus")
            return
        for key in (*PROFILES, "single"):
            value = s.get(key)
            if value and not value.startswith("@") and not fits(form, value):
                self.error(s.where(key), f"'{value}' is not of the form '{form}' of pin '{s.name}': mend one of them")

    def check_cost(self, s):
        word, colon, text = s.get("cost").partition(":")
        if "cost" in s.keys and (word not in COSTS or not colon or not text.strip()):
            self.error(s.where("cost"), f"'{s.get('cost')}' is no cost: write WORD: why, WORD one of {', '.join(COSTS)}")
        elif word != "none" and "basic" in s.keys:
            self.error(s.where("cost"), f"pin '{s.name}' costs something and is in basic, which costs nothing: "
                       "move it to strict, or say why it costs 'none'")

    def check_others(self, s):
        for other in s.get("needs").split():
            self.check_other(s, s.where("needs"), other, "needs")
        for line, text in s.all("conflict"):
            m = re.fullmatch(r"(?:pin (\S+)|job (.+?)): (.+)", text)
            if not m:
                self.error(line, f"'{text}' is no conflict: write 'pin ID: why' or 'job SETTING: why'")
            elif m[1]:
                self.check_other(s, line, m[1], "conflicts with")

    def is_set(self, s, profile):
        """is_set - does @profile change what the job does by itself at pin @s?"""
        value = self.value(s, profile)
        return value is not None and value not in ("@read", "@log", "@keep")

    def check_profiles(self, s):
        """Within a profile: what a pin needs is there, what it conflicts with is not."""
        for profile in PROFILES:
            for other in s.get("needs").split():
                if self.is_set(s, profile) and not self.value(self.sections["pin"][other], profile):
                    self.error(s.where("needs"), f"pin '{s.name}' is in {profile}, '{other}', which it needs, is not: "
                               f"give '{other}' a value there")
            for job, other, _ in self.conflicts(s):
                if not job and self.is_set(s, profile) and self.is_set(self.sections["pin"][other], profile):
                    self.error(s.where("conflict"), f"{profile} sets both '{s.name}' and '{other}', which conflict: "
                               "take one of them out of it")

    def check_other(self, s, line, other, verb):
        if other not in self.sections["pin"]:
            self.error(line, f"pin '{s.name}' {verb} '{other}', which is no pin: write the id of a pin of this file")
        elif other == s.name:
            self.error(line, f"pin '{s.name}' {verb} itself: name another pin")

    # ------------------------------------------------------------ what it says

    @staticmethod
    def group_of(s):
        return s.name.partition(".")[0]

    def value(self, s, profile):
        """value - of pin @s in @profile, by inclusion and default; None: not in it"""
        p = self.sections["profile"][profile]
        if profile in s.keys:
            return s.get(profile)
        if p.get("includes"):
            return self.value(s, p.get("includes"))
        return p.get("default") or None

    @staticmethod
    def conflicts(s):
        """conflicts - (is of the job, with, why) of pin @s"""
        found = []
        for _, text in s.all("conflict"):
            m = re.fullmatch(r"(?:pin (\S+)|job (.+?)): (.+)", text)
            found.append((m[1] is None, m[1] or m[2], m[3]))
        return found

    @staticmethod
    def cost(s):
        word, _, text = s.get("cost").partition(":")
        return word, text.strip()

    def ordered(self):
        """ordered - pins by group, both in the order of the file"""
        return [p for g in self.of("group") for p in self.of("pin") if self.group_of(p) == g.name]


# ---------------------------------------------------------------- C

def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if text else "NULL"


def write_c(out, c):
    out.write('/* Written by gen_pins.py from pins.txt; do not edit. */\n#include "deterministic/catalogue_internal.h"\n')
    pins = c.ordered()
    for i, p in enumerate(pins):
        write_lists(out, i, p)
    out.write("\nconst struct tb_pin tb_pins_table[] = {\n")
    for i, p in enumerate(pins):
        cost, why = c.cost(p)
        values = ", ".join(quoted(c.value(p, profile) or "") for profile in PROFILES)
        fields = {
            "id": quoted(p.name), "group": quoted(c.group_of(p)), "pins": quoted(p.get("pins")),
            "mechanism": "TB_PIN_" + p.get("mechanism").upper(), "sets": quoted(p.get("sets")),
            "since": quoted(p.get("since")), "value": f"{{{values}}}", "single": quoted(p.get("single")), "form": quoted(c.form(p)),
            "reader": "TB_PIN_READER_" + p.get("reader").upper(), "verify": quoted(p.get("verify")),
            "cost": "TB_PIN_COST_" + cost.upper(), "cost_note": quoted(why), "needs": f"needs_{i}",
            "conflicts": f"conflicts_{i}", "note": quoted(p.get("note")), "missing": quoted(p.get("missing")),
            "confirmed": "TB_PIN_CONFIRMED_" + p.get("confirmed").upper(), "doubt": quoted(p.get("doubt")),
            "sources": f"sources_{i}"}
        out.write("    {" + ",\n     ".join(f".{k} = {v}" for k, v in fields.items() if v != "NULL") + "},\n")
    out.write(f"}};\nconst size_t tb_pins_table_count = {len(pins)};\n")
    write_texts(out, c)


def write_lists(out, i, p):
    needs = "".join(quoted(n) + ", " for n in p.get("needs").split())
    sources = "".join(quoted(s) + ", " for _, s in p.all("source"))
    conflicts = "".join(f"{{{str(job).lower()}, {quoted(other)}, {quoted(why)}}}, "
                        for job, other, why in Catalogue.conflicts(p))
    out.write(f"\nstatic const char *const needs_{i}[] = {{{needs}NULL}};\n"
              f"static const char *const sources_{i}[] = {{{sources}NULL}};\n"
              f"static const struct tb_pin_conflict conflicts_{i}[] = {{{conflicts}{{false, NULL, NULL}}}};\n")


def write_texts(out, c):
    """The named texts: of words and groups with their number, of enums by their value."""
    for table, kind, key in (("tb_pin_words_table", "word", "about"), ("tb_pin_groups_table", "group", "title")):
        out.write(f"\nconst struct tb_pin_text {table}[] = {{\n")
        out.write("".join(f"    {{{quoted(s.name)}, {quoted(s.get(key))}}},\n" for s in c.of(kind)))
        out.write(f"}};\nconst size_t {table}_count = {len(c.of(kind))};\n")
    for table, kind, prefix in (("tb_pin_mechanisms", "mechanism", "TB_PIN_"),
                                ("tb_pin_readers", "reader", "TB_PIN_READER_"),
                                ("tb_pin_profiles", "profile", "TB_PIN_")):
        out.write(f"\nconst struct tb_pin_text {table}[] = {{\n")
        out.write("".join(f"    [{prefix}{s.name.upper()}] = {{{quoted(s.name)}, {quoted(s.get('about'))}}},\n"
                          for s in c.of(kind)))
        out.write(f"}};\nconst size_t {table}_count = {len(c.of(kind))};\n")


# ---------------------------------------------------------------- documentation

HEAD = """# Pins

<!-- Written by deterministic/gen_pins.py from deterministic/pins.txt; do not edit: scripts/pins.sh writes it anew. -->

A pin takes one source of difference between two runs away: a seed, a number of threads, an algorithm. This is the
catalogue of pins that twinbit knows: what each sets, in which profile, how it is read back, what it costs and what it
collides with. `twinbit pins` prints the same; `twinbit run --pin` puts pins in ([pinning.md](pinning.md)). A pin with a
line *missing* is known and not yet built: who asks for it is told.

| profile | means |
|---|---|
"""


def cell(text):
    return (text or "").replace("|", "\\|")


def code(text):
    return "`" + cell(text) + "`" if text else ""


def write_doc(out, c):
    out.write(HEAD)
    for p in c.of("profile"):
        held = sum(1 for s in c.of("pin") if c.value(s, p.name))
        out.write(f"| `{p.name}` | {cell(p.get('about'))} ({held} pins) |\n")
    out.write("\nValues that begin with `@` are not put in literally:\n\n| value | means |\n|---|---|\n")
    for w in c.of("word"):
        out.write(f"| `@{w.name}{' ' + w.get('argument') if w.get('argument') else ''}` | {cell(w.get('about'))} |\n")
    out.write("\nHow a pin takes hold (*mechanism*), and who reads back what became of it (*reader*):\n\n"
              "| mechanism | means |\n|---|---|\n")
    out.write("".join(f"| `{m.name}` | {cell(m.get('about'))} |\n" for m in c.of("mechanism")))
    out.write("\n| reader | means |\n|---|---|\n")
    out.write("".join(f"| `{r.name}` | {cell(r.get('about'))} |\n" for r in c.of("reader")))
    out.write("\nA value of one's own (`ID=VALUE`) is refused if it has not the form that stands with the pin: `number A..B`, `numbers A..B`\n"
              "(with `,` between them), `one X Y` (one of these words), `octal` (three digits), `cpus` (a list as `0-3,8`).\n")
    out.write("\n*Confirmed*: `yes`: seen in the library's own source or binary, or tried; `doc`: its documentation or its\n"
              "maintainers say so; `no`: believed, and the doubt says what is not known.\n")
    for g in c.of("group"):
        write_group(out, c, g)


def write_group(out, c, g):
    pins = [p for p in c.of("pin") if c.group_of(p) == g.name]
    out.write(f"\n## {g.get('title')}\n\n| pin | pins | sets | basic | strict | portable | cost | confirmed |\n"
              "|---|---|---|---|---|---|---|---|\n")
    for p in pins:
        values = " | ".join(code(c.value(p, profile)) for profile in PROFILES[1:])
        out.write(f"| `{p.name}` | {cell(p.get('pins'))} | {code(p.get('sets'))} | {values} | {c.cost(p)[0]} | "
                  f"{p.get('confirmed')} |\n")
    for p in pins:
        write_pin(out, c, p)


def write_pin(out, c, p):
    cost, why = c.cost(p)
    out.write(f"\n### {p.name}\n\n"
              f"- since: {p.get('since')}; mechanism `{p.get('mechanism')}`, reader `{p.get('reader')}`\n"
              f"- read back: {p.get('verify')}\n- cost: {cost}: {why}\n")
    if p.get("single"):
        out.write(f"- on its own: {code(p.get('single'))}\n")
    if c.form(p):
        out.write(f"- a value: {code(c.form(p))}\n")
    if p.get("needs"):
        out.write(f"- needs: {', '.join(code(n) for n in p.get('needs').split())}\n")
    for job, other, reason in c.conflicts(p):
        out.write(f"- conflicts with {'the job: ' if job else ''}{code(other)}: {reason}\n")
    for key in ("note", "missing", "doubt"):
        if p.get(key):
            out.write(f"- {key}: {p.get(key)}\n")
    out.write("- source: " + "; ".join(f"<{s}>" if s.startswith("https://") else s for _, s in p.all("source")) + "\n")


def write(path, writer, c):
    with open(path + ".new", "w", encoding="ascii") as f:
        writer(f, c)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--in", dest="path", required=True)
    parser.add_argument("--c")
    parser.add_argument("--doc")
    args = parser.parse_args()
    try:
        c = Catalogue(args.path).read().check()
    except OSError as e:
        sys.exit(f"gen_pins.py: cannot read '{args.path}': {e.strerror}")
    if c.errors:
        print("\n".join(c.errors), file=sys.stderr)
        sys.exit(1)
    if args.c:
        write(args.c, write_c, c)
    if args.doc:
        write(args.doc, write_doc, c)


if __name__ == "__main__":
    main()
