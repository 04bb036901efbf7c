# Caches of compilers: frozen with the trace, a replay finds all of it; what is not in it is told; a trace that is damaged,
# leads elsewhere or has no cache is refused before the job starts. Without torch.
export TMPDIR=$PWD/tmp
mkdir tmp
run() { "$TWINBIT" run --quiet --force "$@"; }
pin() { "$TWINBIT" show "$1" pins | grep -E "^[a-z]+ +$2 " >pin || fail "no row of '$2' in $1"; }
need_program sqlite3

# any job: a "compiler" that looks for what it made before
cat >tool.sh <<'SH'
d=$TORCHINDUCTOR_CACHE_DIR
mkdir -p "$d/sub dir"
for name in ${1:-a b}; do
    if [ -s "$d/sub dir/$name" ]; then echo "hit $name"; else
        echo "miss $name"
        printf %s "$name" >"$d/sub dir/$name"
    fi
done
: >"$d/lock"
ln -sf /etc/passwd "$d/link"
echo "$d" >folder
SH
expect 0 "$TWINBIT" run --force -o a.twinbit --pin compile.inductor_cache -- sh tool.sh
[ "$(tr '\n' ' ' <out)" = "miss a miss b " ] || fail "an empty folder: $(cat out)"
contains err "pin compile.inductor_cache: 2 files are frozen"
contains err "pin compile.inductor_cache: 1 links and special files are left out"
pin a.twinbit compile.inductor_cache
contains pin "held "
contains pin "requested @cache, observed 2 files, frozen"
[ -z "$(ls -A tmp)" ] || fail "left in TMPDIR: $(ls -A tmp)"
was=$(cat folder)
expect 0 "$TWINBIT" replay --force -o b.twinbit a.twinbit
[ "$(grep -v '^replay' out | tr '\n' ' ')" = "hit a hit b " ] || fail "the replay: $(cat out)"
contains err "pin compile.inductor_cache: nothing was made that is not in the frozen cache"
[ "$(cat folder)" = "$was" ] || fail "another folder: $(cat folder)"
pin b.twinbit compile.inductor_cache
contains pin "held "
expect 0 "$TWINBIT" replay --force -o c.twinbit b.twinbit # its trace has the cache, too
contains err "nothing was made that is not in the frozen cache"

# more than was frozen: told by name, in the trace as well; the frozen one stays as it was
expect 0 "$TWINBIT" run --force -o c.twinbit --pin compile.inductor_cache=a.twinbit -- sh tool.sh "a b c"
[ "$(tr '\n' ' ' <out)" = "hit a hit b miss c " ] || fail "with the cache of a: $(cat out)"
contains err "pin compile.inductor_cache: 1 file is not in the frozen cache: sub dir/c"
pin c.twinbit compile.inductor_cache
contains pin "missed "
"$TWINBIT" show c.twinbit coverage >rows
contains rows "sub dir/c: not in the frozen cache"
mkdir away && mv a.twinbit away # that run's own trace has all of it
expect 0 "$TWINBIT" replay --force -o d.twinbit c.twinbit
[ "$(grep -v '^replay' out | tr '\n' ' ')" = "hit a hit b hit c " ] || fail "a replay of that: $(cat out)"
mv away/a.twinbit .
expect 0 "$TWINBIT" run --force -o c.twinbit --pin compile.inductor_cache=a.twinbit -- \
    sh -c 'echo other >"$TORCHINDUCTOR_CACHE_DIR/sub dir/a"'
contains err "1 file is not in the frozen cache: sub dir/a (changed)"

# the trace that is read is never the one that is written, by whatever name
ln -s a.twinbit soft.twinbit
ln a.twinbit hard.twinbit
cp a.twinbit k-2.twinbit
for name in a.twinbit ./a.twinbit soft.twinbit hard.twinbit; do
    expect 2 "$TWINBIT" replay --force -o $name a.twinbit -- touch ran
    contains err "replay: '$name' is the trace that is replayed: name another with -o"
    expect 2 run -o $name --pin compile.inductor_cache=a.twinbit -- touch ran
    contains err "run: 'a.twinbit' is the trace that 'compile.inductor_cache' is taken from: name another with -o"
done
expect 2 run -n 2 -o k.twinbit --pin compile.inductor_cache=k-2.twinbit -- touch ran
contains err "'k-2.twinbit' is the trace that"
[ ! -e ran ] || fail "a job was run over its own trace"
cmp a.twinbit k-2.twinbit || fail "a trace was written over"
rm soft.twinbit hard.twinbit k-2.twinbit

# a folder of that name is there already: another one is taken, and Triton's paths are changed with it
cat >group.sh <<'SH'
d=$TRITON_CACHE_DIR
if [ -e "$d/K/__grp__k.json" ]; then cat "$d/K/__grp__k.json"; else
    mkdir "$d/K"
    printf '{"child_paths": {"k.ptx": "%s/K/k.ptx"}}' "$d" >"$d/K/__grp__k.json"
    printf %s "$d/K" >"$d/K/k.ptx"
fi
echo "$d" >folder
SH
expect 0 run -o t.twinbit --pin compile.triton_cache -- sh group.sh
was=$(cat folder)
mkdir -m 700 "${was%/*}" "$was"
expect 0 "$TWINBIT" replay --force -o c.twinbit t.twinbit
[ "$(cat folder)" != "$was" ] || fail "the folder of somebody else was taken"
contains out "\"k.ptx\": \"$(cat folder)/K/k.ptx\""
contains err "nothing was made that is not in the frozen cache"
rmdir "$was" "${was%/*}"
mkdir another-folder
TMPDIR=$PWD/another-folder expect 0 "$TWINBIT" replay --force -o c.twinbit t.twinbit
contains out "\"k.ptx\": \"$PWD/another-folder/.twinbit-$(id -u)/twinbit-cache-"
contains err "nothing was made that is not in the frozen cache"
[ -z "$(ls -A tmp)" ] || fail "left in TMPDIR: $(ls -A tmp)"

# NCCL's topology: one variable to write the file, another one to read it; a job without NCCL has none and is told nothing
cat >nccl.sh <<'SH'
echo "write ${NCCL_TOPO_DUMP_FILE:+yes} read ${NCCL_TOPO_FILE:+yes}"
[ -z "${NCCL_TOPO_DUMP_FILE:-}" ] || echo '<system version="2"/>' >"$NCCL_TOPO_DUMP_FILE"
[ -z "${NCCL_TOPO_FILE:-}" ] || cat "$NCCL_TOPO_FILE"
SH
expect 0 "$TWINBIT" run --force -o t.twinbit --pin strict -- sh nccl.sh
[ "$(cat out)" = "write yes read " ] || fail "the run that makes it: $(cat out)"
contains err "pin nccl.topology: 1 file is frozen"
expect 0 "$TWINBIT" replay --force -o c.twinbit t.twinbit
[ "$(grep -v '^replay' out | tr '\n' ' ')" = 'write  read yes <system version="2"/> ' ] || fail "the replay: $(cat out)"
contains err "pin nccl.topology: nothing was made that is not in the frozen cache"
NCCL_TOPO_FILE=$PWD/mine expect 1 "$TWINBIT" replay --force -o c.twinbit t.twinbit
contains err "pin nccl.topology: the job has $PWD/mine, which wins over @cache"
expect 0 "$TWINBIT" run --force -o t.twinbit --pin strict -- true
lacks err "nccl.topology"
expect 0 "$TWINBIT" replay --force -o c.twinbit t.twinbit -- sh nccl.sh
contains out "write yes read "

# the job's own folder wins, and nothing is frozen; runs of bisect-pins and -n have folders of their own
mkdir own
TORCHINDUCTOR_CACHE_DIR=$PWD/own expect 0 "$TWINBIT" run --force -o c.twinbit --pin compile.inductor_cache -- sh tool.sh
contains err "pin compile.inductor_cache: the job has $PWD/own, which wins over @cache"
lacks err "frozen"
expect 0 "$TWINBIT" replay --force -o d.twinbit c.twinbit
contains err "the trace that is replayed has no frozen cache of it"
expect 3 run -n 2 -o n.twinbit --pin compile.inductor_cache -- sh tool.sh
[ "$(grep -c '^miss' out)" -eq 4 ] || fail "the second of two runs: $(cat out)"

# what does not fit is not frozen
expect 0 "$TWINBIT" run --force -o c.twinbit --max-size 16M --pin compile.inductor_cache -- \
    sh -c 'head -c 9000000 /dev/zero >"$TORCHINDUCTOR_CACHE_DIR/big"'
contains err "more than a trace takes"
expect 0 "$TWINBIT" show c.twinbit pins
matches out '^missed +compile.inductor_cache .*too much to be frozen'
[ "$(sqlite3 c.twinbit 'SELECT count(*) FROM files')" = 0 ] || fail "files are in it all the same"

# refused, before the job starts: no cache in it, no trace, damaged, names that lead elsewhere
refuse() { # TRACE TEXT
    expect 125 "$TWINBIT" run --force -o x.twinbit --pin compile.inductor_cache="$1" -- touch ran
    contains err "$2"
    expect 125 "$TWINBIT" replay --force -o x.twinbit "$1" -- touch ran
    contains err "$2"
    [ ! -e ran ] || fail "the job was run with '$1'"
    [ ! -e x.twinbit ] || fail "a trace was left by '$1'"
    [ -z "$(ls -A tmp)" ] || fail "left in TMPDIR: $(ls -A tmp)"
}
spoil() { # FILE SQL
    cp a.twinbit "$1"
    sqlite3 "$1" "$2"
}
expect 0 run -o e.twinbit --pin observe -- true
expect 2 run -o x.twinbit --pin compile.inductor_cache=e.twinbit -- touch ran
contains err "'e.twinbit' holds no frozen cache of 'compile.inductor_cache': record it with"
expect 2 run -o x.twinbit --pin compile.inductor_cache=gone.twinbit -- touch ran
contains err "gone.twinbit"
expect 2 run -o x.twinbit --pin compile.inductor_cache=tool.sh -- touch ran
contains err "'tool.sh' is not a trace"
spoil lost.twinbit "DELETE FROM files WHERE path LIKE '%/b'"
refuse lost.twinbit "trace corrupted at the frozen cache 'compile.inductor_cache' in 'lost.twinbit'"
spoil cut.twinbit "UPDATE files SET data = substr(data, 1, 5) WHERE path LIKE '%/b'"
refuse cut.twinbit "trace corrupted at file 'sub dir/b', part 0"
spoil changed.twinbit "UPDATE files SET mode = 511"
refuse changed.twinbit "trace corrupted at file 'lock', part 0"
need_python
cat >lead.py <<'END'
import shutil, sqlite3, struct, sys
import ctypes.util, ctypes
xxh = ctypes.CDLL(ctypes.util.find_library("xxhash"))
xxh.XXH3_64bits.restype = ctypes.c_uint64
def check(*values):  # store/FORMAT.md
    text = b""
    for v in values:
        raw = v.encode() if isinstance(v, str) else None
        text += struct.pack("<Bq", 3, len(raw)) + raw if raw is not None else struct.pack("<Bq", 1, v)
    got = xxh.XXH3_64bits(text, ctypes.c_size_t(len(text)))
    return got - (1 << 64) if got >= 1 << 63 else got
shutil.copy("a.twinbit", "lead.twinbit")
db = sqlite3.connect("lead.twinbit")
for id, folder, path, mode, part, total, old in db.execute(
        "SELECT id, folder, path, mode, part, totalBytes, rowCheck FROM files").fetchall():
    assert check(folder, path, mode, part, total) == old
    if path.endswith("/b"):
        db.execute("UPDATE files SET path=?, rowCheck=? WHERE id=?",
                   (sys.argv[1], check(folder, sys.argv[1], mode, part, total), id))
db.commit()
END
if "$PYTHON" -c 'import ctypes.util, sys; sys.exit(not ctypes.util.find_library("xxhash"))'; then
    for path in ../../escaped /tmp/twinbit-escaped "sub dir/../../escaped" . "" "a//b"; do
        "$PYTHON" lead.py "$path"
        refuse lead.twinbit "has a file '$path', which leads out of its folder: nothing is taken from it"
    done
    [ ! -e escaped ] && [ ! -e /tmp/twinbit-escaped ] || fail "a file was made outside"
fi
