# what a profile only counts was real, or ordered by chance: one closing line names it, under observe and for single pins none does
need_python
cat >clock.py <<'EOF'
import time, uuid
print(time.time(), uuid.uuid1())
EOF
cat >orders.py <<'EOF'
import multiprocessing as mp
from concurrent.futures import ThreadPoolExecutor, as_completed
if __name__ == "__main__":
    with ThreadPoolExecutor(4) as pool:
        print(sum(f.result() for f in as_completed([pool.submit(int, i) for i in range(8)])))
    with mp.get_context("fork").Pool(2) as pool:
        print(pool.map(abs, range(4)))
EOF

real="^twinbit: pins: real, or ordered by chance, as no pin sets it:"
expect 0 "$TWINBIT" run --force --pin strict -o a -- "$PYTHON" clock.py
matches err "$real system.time \([0-9]+ readers? of the clock\); see 'twinbit show TRACE pins'\$"

expect 0 "$TWINBIT" run --force --pin strict -o a -- "$PYTHON" orders.py
matches err "$real data.completion_order \(8 hand-outs\), data.pool_threads \(8 tasks of pools\), data.pool_threads \(1 pool of"
[ "$(grep -c 'ordered by chance' err)" = 1 ] || fail "not one line: $(cat err)"
expect 0 "$TWINBIT" pins --verify -- "$PYTHON" orders.py
matches out "^read +data.completion_order .* its order is chance: no pin sets it, and a replay repeats it"
matches out "^read +system.time .* it was real: no pin sets it"

if command -v openssl >/dev/null; then
    expect 0 "$TWINBIT" run --force --pin strict -o a -- openssl rand -hex 4
    matches err "$real system.entropy \([0-9]+ draws? of cryptography\)"
fi

expect 0 "$TWINBIT" run --force --pin observe -o a -- "$PYTHON" orders.py
lacks err "ordered by chance"
expect 0 "$TWINBIT" run --force --pin python.hashseed -o a -- "$PYTHON" orders.py
lacks err "ordered by chance"
