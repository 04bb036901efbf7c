# As t220, at 3 points.
# labels: torch
# timeout: 600
need_torch
"$PYTHON" "$TB_SOURCE_DIR/tests/jobs/kill_points.py" 3
