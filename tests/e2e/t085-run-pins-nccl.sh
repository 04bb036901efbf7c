# What NCCL chooses, read back by its profiler plugin: as asked, otherwise, changed; the job's own plugin stays. A program
# in NCCL's place loads the plugin as NCCL does, in each version of the interface.
job="$TB_BUILD_DIR/tests/recorder/nccl/nccl_job"
[ -x "$job" ] || skip "built without tests"
tb_run() { "$TWINBIT" run --force -o t.twinbit "$@"; }
pins() { "$TWINBIT" show t.twinbit pins >pins; }

# nothing is asked for: no plugin
unset NCCL_PROFILER_PLUGIN
expect 0 tb_run -- "$job" 6 +x:0:2:1 1:AllReduce:4:RING:SIMPLE:8:17
contains out "no plugin"
expect 0 tb_run --pin basic -- "$job" 6 +x:0:2:1 1:AllReduce:4:RING:SIMPLE:8:17 # no pin of NCCL
contains out "no plugin"
expect 0 tb_run --pin nccl.proto -- "$job" 6 +x:0:2:1 1:AllReduce:4:RING:SIMPLE:8:17
contains out "version 6"

# what strict asks for holds
for version in 4 5 6; do
    expect 0 tb_run --pin strict -- "$job" $version +world:1:2:1 1:AllReduce:4096:RING:SIMPLE:8:17 \
        1:AllReduce:16:RING:SIMPLE:2:17 1:Broadcast:16:RING:SIMPLE:1:17 -1
    matches out "^version $version events (2|4098)\$"
    lacks err "pin nccl"
    pins
    matches pins '^held +nccl\.algo +requested Ring, observed AllReduce RING, Broadcast RING  \(strict\)'
    matches pins '^held +nccl\.proto +requested Simple, observed AllReduce SIMPLE, Broadcast SIMPLE  '
    matches pins '^read +nccl\.channels +observed AllReduce 2\.\.8, Broadcast 1  '
    matches pins '^read +nccl\.channels +observed 8, at AllReduce in communicator 1 \(rank 1 of 2\)'
    matches pins '^held +nccl\.threads +requested @keep, observed AllReduce 17 warps, Broadcast 17 warps  '
    matches pins '^held +nccl\.nvls +requested 0, observed not used  '
    matches pins "^read +nccl\.ranks +observed rank 1 of 2 on 1 host, host [^,]+, at communicator 1 'world'"
    matches pins '^read +nccl\.launch_order .*observed 3 collectives, order [0-9a-f]{16}, at communicator 1 '
done

# the same calls have the same order; others have another, which is no divergence and not told
order() { sed -n 's/.*collectives, order \([0-9a-f]*\), at all.*/\1/p' pins; }
first=$(order)
cp t.twinbit a.twinbit
expect 0 tb_run --pin strict -- "$job" 6 +world:1:2:1 1:AllReduce:4096:RING:SIMPLE:8:17 \
    1:AllReduce:16:RING:SIMPLE:2:17 1:Broadcast:16:RING:SIMPLE:1:17 -1
pins
[ "$(order)" = "$first" ] || fail "another order: $(order), $first"
expect 0 tb_run --pin strict -- "$job" 6 +world:1:2:1 1:Broadcast:16:RING:SIMPLE:1:17 \
    1:AllReduce:4096:RING:SIMPLE:8:17 1:AllReduce:16:RING:SIMPLE:2:17 -1
pins
[ "$(order)" != "$first" ] || fail "the order does not show"
"$TWINBIT" diff a.twinbit t.twinbit >out 2>err || true
lacks out "pin nccl"
lacks out DIVERGED

# something else than was asked for, and another choice for the same size
expect 0 tb_run --pin strict -- "$job" 6 +x:0:2:1 1:AllReduce:4096:RING:SIMPLE:8:17 1:AllReduce:4096:TREE:SIMPLE:4:17
matches err 'pin nccl\.algo: NCCL changed it from Ring to TREE at AllReduce of 4096 ncclFloat32 in communicator 1 \(rank 0 of 2\), RING before'
pins
matches pins '^missed +nccl\.algo +requested Ring, observed AllReduce RING\+TREE'
matches pins '^changed +nccl\.channels +observed 4, at AllReduce of 4096 .* 8 before'
"$TWINBIT" diff a.twinbit t.twinbit >out 2>err || true
contains out "pin nccl.channels: AllReduce 2..8, Broadcast 1 | AllReduce 4..8"
expect 0 tb_run --pin strict -- "$job" 6 +x:0:2:1 1:AllReduce:4096:NVLS:SIMPLE:8:17
contains err "pin nccl.algo: set to Ring, but AllReduce NVLS was seen"
contains err "pin nccl.nvls: set to 0, but AllReduce NVLS was seen"

# what NCCL does not tell of: the calls are counted
expect 0 tb_run --pin strict -- "$job" 6 +x:0:2:1 '1?AllReduce:4' 1:AllReduce:4096:RING:SIMPLE:8:17 '1?AllReduce:4' \
    '1?Broadcast:4'
contains err "pin nccl.algo: set to Ring, but no algorithm, as of symmetric kernels, for 2 of 3 calls was seen at AllReduce in all"
pins
matches pins '^held +nccl\.algo +requested Ring, observed AllReduce RING  '
lacks pins "observed no algorithm, as of symmetric kernels, for 1"

# the job's own: a value, a plugin
NCCL_ALGO=Tree expect 0 tb_run --pin strict -- "$job" 6 +x:0:2:1 1:AllReduce:4096:TREE:SIMPLE:8:17
contains err "pin nccl.algo: the job has Tree, which wins over Ring"
pins
matches pins '^read +nccl\.algo +requested Ring, observed TREE, at AllReduce in communicator 1'
NCCL_PROFILER_PLUGIN=/absent/own.so expect 0 tb_run --pin strict -- sh -c 'echo $NCCL_PROFILER_PLUGIN'
contains out /absent/own.so
contains err "NCCL takes one profiler plugin, and the job has '/absent/own.so': what NCCL chooses is not read"
pins
matches pins '^job +nccl\.channels +observed /absent/own\.so, at NCCL_PROFILER_PLUGIN of the job'

# only read: nothing is set, nothing is told
expect 0 tb_run --pin observe -- "$job" 6 +x:0:2:1 1:AllReduce:4096:TREE:LL:8:17 1:AllReduce:4096:RING:LL:8:17 \
    1:AllGather:16:CE:-:0:0
lacks err "pin nccl"
pins
matches pins '^read +nccl\.algo +observed AllGather CE, AllReduce TREE\+RING  '
matches pins '^changed +nccl\.algo +observed RING, at AllReduce of 4096'
expect 0 "$TWINBIT" pins --verify -- "$job" 6 +x:0:2:1 1:AllReduce:4096:RING:SIMPLE:8:17
matches out '^held +nccl\.algo +Ring +AllReduce RING'
matches out '^read +nccl\.channels +@log +AllReduce 8'

# many threads and communicators; a child
expect 0 tb_run --pin strict -- "$job" 6 threads:8:1000
pins
contains pins "observed 8000 collectives, order"
expect 0 tb_run --pin strict -- "$job" 6 +x:0:2:1 1:AllReduce:4:RING:SIMPLE:8:17 fork +x:0:4:1 2:Reduce:4:RING:SIMPLE:1:4
pins
matches pins '^held +nccl\.algo +requested Ring, observed Reduce RING  '

# which GPU
if [ -e "$TB_BUILD_DIR/softgpu/lib/libcuda.so.1" ]; then
    expect 0 tb_run --device softgpu --pin observe -- "$job" 6 libcuda +x:0:2:1 1:AllReduce:4:RING:LL:2:4
    pins
    matches pins '^read +nccl\.ranks +observed rank 0 of 2 on 1 host, host [^,]+, GPU [0-9a-fA-F]+:[0-9a-f]+:'
fi
