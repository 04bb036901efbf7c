# The README's commands. The real build is CMake's; this installs what is missing and calls it.
#
#   make demo        installs, builds, records a training job twice, names the first bit
#   make demo-gpu    the same with a GPU job in CUDA C; where there is no GPU, on the software device
#   make demo-tinygrad   the same with tinygrad, which is fetched
#   make test        all tests but the labels slow and gpu
#   make test-slow   the slow ones
#   make bench       all benchmarks, into bench/results/
#   make build       only the program (C alone, no python)
#
# TWINBIT_PYTHON=/path/to/python uses that python; TWINBIT_PYTHON=none does without one.
.PHONY: all build demo demo-gpu demo-tinygrad test test-slow bench packages python tap clean

SHELL := /bin/bash
BUILD := build/dev

all: build

packages:
	@scripts/packages.sh build

python: packages
	@scripts/python.sh >/dev/null

build: packages
	@scripts/build.sh dev

# .venv stands or TWINBIT_PYTHON is checked before $(PYTHON) is asked for
PYTHON = TWINBIT_PYTHON="$$(scripts/python.sh)"

# The tap is compiled against that torch now: a job would wait for it.
tap: build python
	@$(PYTHON) && export TWINBIT_PYTHON && scripts/tap.sh $(BUILD)

demo: tap
	@$(PYTHON) && export TWINBIT_PYTHON && examples/gpt_char/demo.sh

# nvcc that is not there is fetched
demo-gpu: build
	@[ -n "$$(command -v nvcc /usr/local/cuda/bin/nvcc)" ] || { scripts/cuda_headers.sh --nvcc && cmake $(BUILD) >/dev/null; }
	@cmake --build $(BUILD) --target cuda_gpt | tail -n 1 && BUILD=$(abspath $(BUILD)) examples/cuda_gpt/demo.sh

demo-tinygrad: build
	@[ -n "$$TWINBIT_PYTHON" ] || scripts/packages.sh python
	@BUILD=$(abspath $(BUILD)) examples/tinygrad_gpt/demo.sh

test: tap
	@$(PYTHON) && export TWINBIT_PYTHON && scripts/test.sh $(BUILD) -LE 'slow|gpu'

test-slow: tap
	@$(PYTHON) && export TWINBIT_PYTHON && scripts/test.sh $(BUILD) -L slow -LE gpu

bench: tap
	@$(PYTHON) && export TWINBIT_PYTHON && \
	    for name in $$(bench/run --list | cut -d' ' -f1); do bench/run $$name || exit; done

clean:
	rm -rf build
