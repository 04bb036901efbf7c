# labels: torch
# --force-pins: what torch or Python would have refused is refused all the same, and the setting stays; children that seed
# themselves draw numbers of their own, the same in each run.
need_python
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

cat >children.py <<'END'
import multiprocessing, os, random
def draw(_):
    random.seed(os.getpid() if _ else 5)
    return random.random()
if __name__ == "__main__":
    print(draw(0))
    for method in ("fork", "spawn"):
        for i in range(2):
            with multiprocessing.get_context(method).Pool(1) as pool:
                print(pool.apply(draw, (1,)))
END
for i in 1 2; do
    expect 0 run --pin basic --force-pins -- "$PYTHON" children.py
    cp out children.$i
done
cmp children.1 children.2 || fail "two runs differ: $(cat children.?)"
[ "$(sort -u children.1 | wc -l)" -eq 5 ] || fail "children draw the same: $(cat children.1)"

need_torch
cat >forks.py <<'END'
import os, torch
for i in range(2):
    if os.fork() == 0:
        torch.manual_seed(7)
        print(torch.rand(1).item(), flush=True)
        os._exit(0)
    os.wait()
torch.manual_seed(7)
print(torch.rand(1).item())
END
for i in 1 2; do
    expect 0 run --pin torch.seed --force-pins -- "$PYTHON" forks.py
    cp out forks.$i
done
cmp forks.1 forks.2 || fail "forks draw other numbers"
[ "$(sort -u forks.1 | wc -l)" -eq 3 ] || fail "forks draw the same: $(cat forks.1)"

cat >bad.py <<'END'
import torch
calls = [(torch.use_deterministic_algorithms, "yes"), (torch.use_deterministic_algorithms, 1), (torch.set_num_threads, 0),
         (torch.set_num_threads, -3), (torch.set_num_threads, "four"), (torch.set_num_threads, True),
         (torch.set_num_interop_threads, 0), (torch._C._set_cudnn_benchmark, None), (torch._C._set_mkldnn_deterministic, 3)]
for call, value in calls:
    try:
        call(value)
        print("taken")
    except (TypeError, RuntimeError) as e:
        print(type(e).__name__, str(e).splitlines()[0][:100])
try:
    torch.backends.cudnn.benchmark = "x"
    print("taken")
except (TypeError, RuntimeError) as e:
    print(type(e).__name__)
print("then", torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark, torch.get_num_threads())
torch.use_deterministic_algorithms(mode=False, warn_only=True)
torch.use_deterministic_algorithms(False)
torch.set_num_threads(1)
torch.set_num_interop_threads(2)
try:
    torch.set_num_interop_threads(3)
except RuntimeError as e:
    print("twice")
print("at last", torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(),
      torch.get_num_threads())
END
"$PYTHON" bad.py | sed '/^then/,$d' >plain
[ "$(wc -l <plain)" -eq 10 ] || fail "the job itself: $(cat plain)"
expect 0 run --pin strict,cpu.torch_threads=3,cpu.torch_interop_threads=4 --force-pins -- "$PYTHON" bad.py
sed '/^then/,$d' out | cmp - plain || fail "other errors: $(sed '/^then/,$d' out | diff - plain)"
contains out "then True False 3"
contains out "twice"
contains out "at last True False 3"
"$TWINBIT" show t.twinbit pins >pins
matches pins '^held  *torch\.deterministic .* observed True \(the job asked for False\)'
matches pins '^held  *cpu\.torch_threads .* observed 3 \(the job asked for 1\)'

# newer versions of torch tell two things of this one
echo 'import torch' >reduce.py
expect 0 run --pin torch.fp16_reduction=False,torch.bf16_reduction=True -- "$PYTHON" reduce.py
"$TWINBIT" show t.twinbit pins >pins
matches pins '^held  *torch\.fp16_reduction .* observed False'
matches pins '^held  *torch\.bf16_reduction .* observed True'
