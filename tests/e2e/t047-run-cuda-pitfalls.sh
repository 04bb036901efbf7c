# small CUDA programs in which a recorder of launches may go wrong, with every tap: the job is as it is alone, and
# the trace has what it did; then what filters, marks and snapshots do to such a trace
TOOL=$TB_BUILD_DIR/tests/recorder/cuda/cuda_pitfalls
[ -x "$TOOL" ] && [ -x "$TB_BUILD_DIR/tests/recorder/cuda/cuda_tool" ] ||
    skip "built without softgpu's driver or CUPTI, or with a sanitizer"
need_program sqlite3
export SOFTGPU_DEVICES=2

record() { # record STATUS TRACE OPTIONS... -- CMD...
    local status=$1 trace=$2
    shift 2
    expect "$status" "$TWINBIT" run --device softgpu --quiet --force -o "$trace" "$@"
}

covered() { # covered TRACE [REGEX] - no row of coverage but notes and those that fit
    "$TWINBIT" show "$1" coverage | grep -v '^note ' | grep -vE -- "${2:-^$}" >rows || true
    [ ! -s rows ] || fail "'$1' is not covered: $(cat rows)"
}

fills() { # fills TRACE [NAME] - the fingerprints that these launches wrote first
    "$TWINBIT" show "$1" events | grep "/${2:-fill}#" | awk '{ print $2 }'
}

count() { # count FILE N - it has so many lines
    [ "$(wc -l <"$1")" -eq "$2" ] || fail "$(wc -l <"$1") instead of $2 lines in '$1': $(head -n 5 "$1")"
}

# each case with each tap: same output and status as alone, nothing missing, the taps agree
for case in args equal hidden handles segments blocks pool reset library modules devices fault ending killed late_fork \
    early_fork threads capture nested graph_memory elsewhere; do
    status=0
    [ $case = killed ] && status=137
    expect $status "$TB_BUILD_DIR/bin/softgpu" run -- "$TOOL" $case
    mv out alone
    allowed='^$'
    [ $case = fault ] && allowed='fingerprint: wild: never arrived|fault: wild: .*CUDA_ERROR_ILLEGAL_ADDRESS \(700\)|cuda: module variables: '
    [ $case = graph_memory ] && allowed='cuda: graph: memory that a graph frees cannot be hashed behind it'
    for tap in shim cupti deferred; do
        options=(--tap $tap --inputs)
        [ $tap = deferred ] && options=(--tap cupti --enqueue deferred)
        record $status $case.$tap.twinbit "${options[@]}" -- "$TOOL" $case
        diff alone out || fail "$case: another output with --tap $tap"
        covered $case.$tap.twinbit "$allowed"
    done
    # threads: which is the first is chance; capture, nested, elsewhere: the taps see graphs differently
    case $case in
    threads | capture | nested | elsewhere | fault) ;;
    *) expect 0 "$TWINBIT" diff --verify $case.shim.twinbit $case.cupti.twinbit ;;
    esac
done

# a fingerprint that never arrives is lost, and the last lines say so
for tap in shim cupti; do
    expect 0 "$TWINBIT" run --device softgpu --force -o lost.twinbit --tap $tap -- "$TOOL" fault
    matches err "coverage: [0-9]+ rows?; 1 fingerprint never arrived \(diff will say unknown\)"
    lacks err "nothing lost"
    expect 0 "$TWINBIT" run --device softgpu --force -o lost.twinbit --tap $tap -- "$TOOL" args
    matches err "coverage: 0 rows; nothing lost"
done

for tap in shim cupti deferred; do
    # arguments as pointers and as one buffer are the same arguments
    fills args.$tap.twinbit >fills
    count fills 2
    [ "$(uniq fills | wc -l)" -eq 1 ] || fail "arguments of 'extra' are others"
    # zeros over zeros are writes
    fills equal.$tap.twinbit >fills
    count fills 2
    [ "$(uniq fills)" = "$(fills equal.$tap.twinbit cuMemsetD8)" ] || fail "equal writes were missed"
    # what is behind a struct, a table and a variable: 64 nines by table and variable, 64 fives by the struct
    "$TWINBIT" show hidden.$tap.twinbit tensors | grep '^w' >writes
    nine=$(awk '/by_global#0 counter/ { print $2 }' writes)
    five=$(awk '/by_struct#0 arg\+8/ { print $2 }' writes)
    [ -n "$nine" ] && [ -n "$five" ] || fail "no variable or no struct: $(cat writes)"
    grep 'by_table#0 reached through memory' writes | grep -q "$nine" || fail "what the table leads to was missed"
    grep 'by_table#0' writes | grep -q "$five" || fail "by_table might have written the other buffer: not hashed"
    # what a pointer and a distance lead to: 64 fours in a buffer that no argument names
    [ "$(awk '/by_distance#0 arg\+0/ { print $2 }' writes)" = "$five" ] || fail "by_distance: arg+0 is another"
    awk -v five="$five" '/by_distance#0 arg\+8/ && $2 != five && $2 ~ /^[0-9a-f]+$/ { found = 1 } END { exit !found }' writes ||
        fail "what the distance leads to was missed: $(grep by_distance writes)"
    # a CUkernel, and a launch with attributes
    fills handles.$tap.twinbit >fills
    count fills 2
    # the pieces of a segment, each its own fingerprint, and the table's buffer in all three launches
    fills segments.$tap.twinbit >fills
    count fills 3
    fills segments.$tap.twinbit by_table >fills
    count fills 3
    # what the table leads to, among blocks: each of them, and what lies between
    "$TWINBIT" show blocks.$tap.twinbit tensors | grep -E '^w .*(by_table|cuMemsetD8)' >writes
    expect 0 grep -cE 'by_table#0 (block|next)$' writes
    [ "$(cat out)" -eq 2 ] || fail "not a write of each block: $(cat writes)"
    expect 0 grep -c 'by_table#0 reached through memory' writes
    [ "$(cat out)" -ge 3 ] || fail "not all around the blocks: $(cat writes)"
    # a pointer beside them leads as far as the first
    "$TWINBIT" show blocks.$tap.twinbit tensors | grep -E '^w .* u32 +\[1024\] .*/fill#0 arg' >writes ||
        fail "not up to the first block"
    # memory of a pool that is used again: three fills, by_table once; the capture's fill is not the job's work
    fills pool.$tap.twinbit >fills
    count fills 3
    # contexts and modules that came and went: the same work, the same bytes, each time
    for case in reset:6 library:3 modules:4 devices:3 early_fork:3 ending:2; do
        for kernel in fill by_global; do
            fills ${case%:*}.$tap.twinbit $kernel >fills
            count fills "${case#*:}"
            [ "$(sort -u fills | wc -l)" -eq 1 ] || fail "$case: $kernel wrote other bytes: $(cat fills)"
        done
    done
    expect 0 "$TWINBIT" show devices.$tap.twinbit events
    matches out "/by_table#1 .* cuda:1"
    # in streams of a device that is not the current one: as if it were
    options=(--tap $tap --inputs)
    [ $tap = deferred ] && options=(--tap cupti --enqueue deferred)
    record 0 here.$tap.twinbit "${options[@]}" -- env HERE=1 "$TOOL" elsewhere
    "$TWINBIT" show elsewhere.$tap.twinbit tensors | awk '{ print $1, $2, $3, $4, $NF }' >tensors
    "$TWINBIT" show here.$tap.twinbit tensors | awk '{ print $1, $2, $3, $4, $NF }' | cmp tensors - ||
        fail "other fingerprints in streams of another device"
    [ "$(grep -c '^w - ' tensors)" -eq 0 ] && [ "$(grep -c '^w ' tensors)" -ge 14 ] || fail "not all was hashed"
    # after the fault and the reset
    fills fault.$tap.twinbit >fills
    count fills 2
    # SIGKILL: all that was queued before the last wait is there
    fills killed.$tap.twinbit >fills
    count fills 20
    [ "$(sort -u fills | grep -c '^[0-9a-f]\{32\}$')" -eq 20 ] || fail "fingerprints are missing: $(cat fills)"
    # a child that must not use CUDA: left alone
    fills late_fork.$tap.twinbit >fills
    count fills 1
    # launches of 1 2 3 4 5; graphs in graphs with 1 2 3 4 and 1 5 3 4: seen node by node, or as what they leave behind;
    # one launch more
    fills nested.$tap.twinbit >fills
    order='1 2 3 4 5 1 2 3 4 1 5 3 4'
    [ $tap = shim ] || order='1 2 3 4 5'
    for n in $order; do sed -n ${n}p fills; done | cmp - <(head -n -1 fills) ||
        fail "nodes of child graphs wrote other bytes: $(cat fills)"
    if [ $tap != shim ]; then
        fills nested.$tap.twinbit graph >graphs
        [ "$(uniq graphs)" = "$(sed -n 4p fills)" ] || fail "a graph's last bytes are others: $(cat graphs)"
    fi
    # memory that a graph leaves behind is known until it is freed, by a graph too: 7 by launch and graph, 8 by launches
    fills graph_memory.$tap.twinbit >fills
    count fills 5
    [ "$(sort fills | uniq -c | sort -n | awk '{ print $1 }' | tr '\n' ' ')" = "1 4 " ] || fail "fills differ: $(cat fills)"
    "$TWINBIT" show graph_memory.$tap.twinbit tensors | grep "^w $(head -n 1 fills) .*/graph#[135] arg+0" >writes
    count writes 3
    # eight threads at once, each its 50 fills
    fills threads.$tap.twinbit >fills
    count fills 400
    sort fills | uniq -c | awk '$1 != 8 { print; bad = 1 } END { exit bad }' || fail "threads mixed up"
done

# the pieces themselves
"$TWINBIT" show segments.shim.twinbit tensors | grep -c 'by_table#0 reached through memory' >pieces
[ "$(cat pieces)" -ge 3 ] || fail "by_table saw too few allocations"

# launches that come back while something else changes; deferred ones are looked at anew each time
for tap in shim cupti deferred; do
    options=(--tap $tap)
    [ $tap = deferred ] && options=(--tap cupti --enqueue deferred)
    record 0 plans.$tap.twinbit "${options[@]}" -- "$TOOL" plans
    covered plans.$tap.twinbit 'memory was used by streams at once' # until it is known that they use parts
    # the number that was an address for a while
    sqlite3 plans.$tap.twinbit "select args, count(*) from v_events where operator = 'store' group by 1" >numbers
    [ "$(cut -d'|' -f2 numbers | sort -n | xargs)" = "4 8" ] || fail "arguments of 'store': $(cat numbers)"
    [ $tap = shim ] || expect 0 "$TWINBIT" diff --verify plans.shim.twinbit plans.$tap.twinbit
done
"$TWINBIT" show plans.shim.twinbit tensors >tensors
for size in 524288 1048576 'i32 *\[1024\].*whole' 'i32 *\[256\].*part'; do
    n=$(grep -cE "^w .*($size)" tensors)
    [ "$n" -ge 4 ] || fail "$n instead of 4 writes of $size: $(head -n 40 tensors)"
done

# filters: what they leave out is said, and is the same in every run
record 0 only.twinbit --kernel 'by_*' -- "$TOOL" hidden
"$TWINBIT" show only.twinbit events >events
contains events by_table
record 0 without.twinbit --kernel '!by_*' -- "$TOOL" hidden
"$TWINBIT" show without.twinbit events >events
lacks events by_
"$TWINBIT" show without.twinbit coverage >rows
contains rows "filter: by_table: launches that --kernel leaves out"
for tap in shim cupti; do
    record 0 without.twinbit --tap $tap --kernel '!fill' -- "$TOOL" nested
    "$TWINBIT" show without.twinbit events >events
    lacks events /fill#
    "$TWINBIT" show without.twinbit tensors | grep '^w' >writes || true
    count writes 0
    n=$("$TWINBIT" show without.twinbit coverage | grep 'filter: fill: launches' | awk '{ n += $3 } END { print n }')
    [ "$n" -eq 14 ] || fail "$n of 14 launches and nodes are said to be left out"
done
for n in 1 2; do
    record 0 share.$n.twinbit --sample 0.5 -- "$TOOL" nested
    covered share.$n.twinbit '^not covered +[0-9]+x sample: fill: launches that --sample leaves out$'
    fills share.$n.twinbit >share.$n
done
n=$(wc -l <share.1)
[ "$n" -gt 2 ] && [ "$n" -lt 14 ] || fail "--sample 0.5 took $n of 14 launches, 8 of them in graphs"
cmp share.1 share.2 || fail "two runs sampled other launches of nodes"
for n in 1 2; do
    record 0 share.$n.twinbit --sample 0.3 -- "$TOOL" many
    fills share.$n.twinbit >share.$n
done
n=$(wc -l <share.1)
[ "$n" -gt 10 ] && [ "$n" -lt 60 ] || fail "--sample 0.3 took $n of 100 launches"
cmp share.1 share.2 || fail "two runs sampled other launches"
expect 0 "$TWINBIT" diff share.1.twinbit share.2.twinbit
record 0 other.twinbit --sample 0.3 --seed 7 -- "$TOOL" many
fills other.twinbit >other
! cmp -s share.1 other || fail "--seed 7 sampled the same launches"

# twinbit.h: ranges, steps, names of tensors, pauses; a window of steps; snapshots of what is read and written
record 0 marks.twinbit --inputs --snapshot '0/attention:/fill#0' --snapshot '1/forward:/cuMemcpyDtoD#0' -- "$TOOL" marks
"$TWINBIT" show marks.twinbit events >events
for step in 0 1 2 3; do
    contains events "/main/$step/attention:/fill#0"
    contains events "/main/$step/forward:/step#0"
done
[ "$(grep -c '/fill#' events)" -eq 4 ] || fail "what the program paused was recorded"
"$TWINBIT" show marks.twinbit tensors >tensors
matches tensors "^w [0-9a-f]{32} i32 +\[256\] .*fill#0 weights"
"$TWINBIT" show marks.twinbit coverage >rows
contains rows "4x paused: process: by the program (twinbit_pause)"
sqlite3 marks.twinbit "select hex(data) from snapshots" >snapshots
count snapshots 3 # fill wrote; the copy read and wrote
# of nodes there are none, but they count: the launch behind them
record 0 nodes.twinbit --snapshot '0/forward:/fill#6' --snapshot '0/forward:/fill#13' -- "$TOOL" nested
"$TWINBIT" show nodes.twinbit coverage >rows
contains rows "snapshot: fill: a node of a graph: its bytes are not kept"
"$TWINBIT" show nodes.twinbit events | awk '$3 ~ "/fill#13$" { print $1 }' >wanted
count wanted 1
sqlite3 nodes.twinbit "select accessId >> 16 from snapshots" | cmp wanted - || fail "another launch's bytes were kept"
record 0 window.twinbit --steps 1..2 -- "$TOOL" marks
"$TWINBIT" show window.twinbit events | grep '/fill#' >events
count events 2
contains events "/main/1/attention:"
contains events "/main/2/attention:"

# NVTX's ranges, alone and with ours inside
record 0 nvtx.twinbit -- "$TOOL" nvtx
if ! grep -q "no header" out; then
    "$TWINBIT" show nvtx.twinbit events >events
    contains events "/layer:/fill#0"
    contains events "/layer:inner/fill#0"
    contains events "/layer:own/fill#0"
    contains events "/forward:/fill#0"
fi

# a process whose environment was cut is said, if it lives long enough to be seen
record 0 cut.twinbit -- env -i LD_LIBRARY_PATH="$TB_BUILD_DIR/softgpu/lib" "$TB_BUILD_DIR/tests/recorder/cuda/cuda_tool" wait
"$TWINBIT" show cut.twinbit coverage >rows
contains rows "libtwinbit is not in it (its environment was cut"
