# Bad input gets one clear line on stderr, nothing on stdout, status 2.
bad() {
    local text=$1
    shift
    expect 2 tb "$@"
    lines out 0
    lines err 1
    contains err "$text"
}

"$TB_BUILD_DIR/tests/cli/make_trace" a.twinbit

bad "show: no trace named" show
bad "show: unknown view 'eventz'" show a.twinbit eventz
bad "show: unexpected argument 'more'" show a.twinbit events more
bad "show: 'coverage' does not take --step" show a.twinbit coverage --step 1
bad "show: 'steps' does not take --op" show a.twinbit steps --op addmm
bad "option '--limit': 'x' is not acceptable" show a.twinbit --limit x
bad "absent.twinbit" show absent.twinbit

echo "not a database" >text.twinbit
bad "text.twinbit" show text.twinbit
contains err "not a trace"
: >empty.twinbit
bad "empty.twinbit" show empty.twinbit
mkdir folder.twinbit
bad "folder.twinbit" show folder.twinbit

# another program's database, another version, a cut file
if command -v sqlite3 >/dev/null; then
    sqlite3 other.twinbit 'CREATE TABLE t(x)'
    bad "not a trace" show other.twinbit
    cp a.twinbit version.twinbit
    sqlite3 version.twinbit "PRAGMA user_version = 99; UPDATE meta SET value = '99' WHERE name = 'minReader'"
    bad "version" show version.twinbit
fi
for size in 10 100 1000 5000; do
    head -c $size a.twinbit >short.twinbit
    got=0
    tb show short.twinbit events >out 2>err || got=$?
    [ $got -eq 2 ] || fail "status $got for a trace cut at $size bytes"
    lines err 1
done

# no permission
if [ "$(id -u)" -ne 0 ]; then
    chmod 000 a.twinbit
    bad "a.twinbit" show a.twinbit
fi

# what is no file is refused, not waited for
mkfifo pipe.twinbit
expect 2 timeout 20 "$TWINBIT" show pipe.twinbit
contains err "not a readable file"
expect 2 timeout 20 "$TWINBIT" diff pipe.twinbit pipe.twinbit
expect 125 timeout 20 "$TWINBIT" run --force -o pipe.twinbit -- true
contains err "it is not a trace"
[ -p pipe.twinbit ] || fail "the pipe was replaced"
