# Each planted cause of examples/gpt_char is named: step, module, operator, element, bits. What `make demo` runs.
# labels: torch
# timeout: 900
# processors: 2
need_torch
expect 0 "$TB_SOURCE_DIR/examples/gpt_char/demo.sh" -o "$PWD/demo"
contains out "5 of 5 causes were named exactly"
lacks out WRONG
