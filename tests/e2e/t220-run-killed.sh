# SIGKILL of the job, of twinbit, and of both, at 50 seeded points of a torch job.
# labels: torch slow
# timeout: 1800
need_torch
"$PYTHON" "$TB_SOURCE_DIR/tests/jobs/kill_points.py" 50
