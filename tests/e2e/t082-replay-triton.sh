# labels: torch slow
# timeout: 600
# Triton's cache and its tuner's choices, frozen with a trace: on the software device a replay reads what was chosen by timing,
# and compiles nothing, in the folder of then or another one.
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
need_softgpu
need_module triton
need_program gcc # Triton compiles its launchers
export SOFTGPU_EAGER=1 OMP_NUM_THREADS=1 TMPDIR=$PWD/tmp XDG_CACHE_HOME=$PWD/xdg
mkdir tmp other
unset TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR
cat >job.py <<'END'
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (64, 128, 256)], key=["n"])
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


n = 1000
x = torch.arange(n, dtype=torch.float32).cuda()
out = torch.zeros(n).cuda()
add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, x, out, n)
assert torch.equal(out.cpu(), 2 * x.cpu())
print(add.best_config.kwargs["BLOCK"], "timed" if getattr(add, "bench_time", None) else "read")
END
expect 0 "$TWINBIT" run --device softgpu -o a.twinbit --pin strict,compile.triton_cache -- "$PYTHON" job.py
matches out '^[0-9]+ timed$'
chosen=$(cut -d' ' -f1 out)
matches err 'pin compile.triton_cache: [0-9]+ files are frozen'
for folder in tmp other; do
    TMPDIR=$PWD/$folder expect 0 "$TWINBIT" replay -o $folder.twinbit a.twinbit
    contains out "$chosen read"
    contains out "replay: bit-exact: "
    contains err "pin compile.triton_cache: nothing was made that is not in the frozen cache"
done
# another size of the problem is another choice: timed anew, and told
sed "s|n = 1000|n = 1001|" job.py >more.py
expect 0 "$TWINBIT" replay -o c.twinbit a.twinbit -- "$PYTHON" more.py
matches out '^[0-9]+ timed$'
matches err 'pin compile.triton_cache: [0-9]+ files? (is|are) not in the frozen cache: '
"$TWINBIT" show c.twinbit coverage >rows
contains rows ".autotune.json: not in the frozen cache"
