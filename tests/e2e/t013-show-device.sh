# Work of a GPU in the views of show: launch shapes, streams, kernels, fingerprints that never came.
"$TB_BUILD_DIR/tests/cli/make_trace" a.twinbit device

expect 0 tb show a.twinbit events --limit 4
sed -E 's/^ *[0-9]+ //; s/^[0-9a-f]{32}/HASH/' out >seen
diff -u - seen <<'END' || fail "events"
HASH 0/train.py/main/0/forward:/cuMemcpyHtoDAsync#0  [copy kind htod stream:2 cuda:0]
-                                0/train.py/main/0/forward:/cuStreamWaitEvent#0  [sync stream:2 event:3]
HASH 0/train.py/main/0/forward:/scale#0  [launch grid 2,1,1 block 64,1,1 shared 0 stream:2 cuda:0]
no fingerprint                   0/train.py/main/0/forward:/scale#1  [launch grid 2,1,1 block 64,1,1 shared 0 stream:2 cuda:0]
END
expect 0 tb show a.twinbit events --op scale
lines out 2
expect 0 tb show a.twinbit tensors --op scale
matches out '^q - +\? +\[\] +stream:2 +.*scale#0 stream$'
expect 0 tb show a.twinbit sites
contains out '  kernel scale(float*, int)'
contains out '  image=0123abcd'
expect 0 tb show a.twinbit coverage
contains out 'fingerprint: scale: never arrived: the process ended before its device wrote it'

expect 0 tb show a.twinbit events --op scale --json
contains out '"kind": "launch", "operator": "scale"'
contains out '"kernel": "scale(float*, int)", "stream": 2'
contains out '"fp_kind": "sampled"'

# equal, but for what nobody knows
expect 3 tb diff a.twinbit a.twinbit
matches out '^UNKNOWN  1 fingerprint never arrived in either run'
