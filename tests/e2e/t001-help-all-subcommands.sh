# Help, version and errors of the program itself.
expect 0 tb help
contains out "usage: twinbit SUBCOMMAND"
lines err 0
cp out help
expect 0 tb -h
cmp out help
expect 0 tb --help
cmp out help

# every subcommand of the list has -h, --help and `help NAME`, on stdout, status 0
names=$(sed -n '/^subcommands:/,/^$/s/^  \([a-z]*\) .*/\1/p' help)
[ "$(wc -w <<<"$names")" -ge 2 ] || fail "no subcommands in the help"
for name in $names; do
    expect 0 tb "$name" -h
    contains out "usage: twinbit $name"
    lines err 0
    cp out one
    expect 0 tb "$name" --help
    cmp out one
    expect 0 tb help "$name"
    cmp out one
    expect 2 tb "$name" --no-such-option
    lines out 0
    lines err 1
    contains err "twinbit: $name: unknown option '--no-such-option'"
done

expect 0 tb version
matches out '^twinbit [0-9]+\.[0-9]+\.[0-9]+$'
cp out version
expect 0 tb --version
cmp out version

expect 2 tb
lines out 0
contains err "usage: twinbit"
expect 2 tb vers
lines out 0
same err <<'END'
twinbit: unknown subcommand 'vers' (see 'twinbit help')
END
expect 2 tb help vers
contains err "unknown subcommand 'vers'"
expect 2 tb version extra
contains err "twinbit: version: unexpected argument 'extra'"

# output that cannot be written is an error, not silence
if [ -w /dev/full ]; then
    got=0
    tb version >/dev/full 2>err || got=$?
    [ $got -eq 2 ] || fail "status $got on a full disk"
    contains err "cannot write standard output"
fi
