# Processes that go on after the job's end are told, and are in coverage; those that end with it are not.
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

expect 0 run --pin strict -- sh -c 'setsid sleep 3 & setsid sleep 4 & sleep 0.2'
matches err "2 processes of the job go on after its end \(sleep, sleep\): from here on not recorded, and without pins in programs that they start; let the job wait for them"
expect 0 "$TWINBIT" show t.twinbit coverage
matches out '1x outlived: sleep, sleep: processes go on after the job.s end: not recorded'

expect 0 run -- sh -c 'setsid sleep 3 & sleep 0.2'
matches err "1 process of the job goes on after its end \(sleep\): from here on not recorded; let the job wait for it"

# they end within a moment, or the job waits
expect 0 run --pin strict -- sh -c 'sleep 0.1 & exit 0'
lacks err "after its end"
expect 0 run --pin strict -- sh -c 'sleep 0.1 & wait'
lacks err "after its end"
expect 0 "$TWINBIT" show t.twinbit coverage
lacks out outlived
