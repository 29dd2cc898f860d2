# Each goal does its own set-up, which a second run skips.
.PHONY: demo test bench check format docs build stub clean

PRESET ?= release
JOBS ?= $(shell nproc)
BUILD := build/$(PRESET)

demo: build
	.venv/bin/python examples/mnist_demo.py $(ARGS)

test: build
	.venv/bin/python tools/run_tests.py --build $(BUILD) --jobs $(JOBS) $(ARGS)

bench:
	tools/setup.sh bench
	$(MAKE) build
	.venv-bench/bin/python bench/run.py $(ARGS)

check:
	tools/setup.sh check
	tools/check.sh

format:
	tools/setup.sh check
	git ls-files '*.cpp' '*.h' | xargs .venv-check/bin/clang-format -i

docs:
	tools/setup.sh docs
	.venv-docs/bin/mkdocs build --strict --quiet

build:
	tools/setup.sh
	@mkdir -p build
	cmake --preset $(PRESET) > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	cmake --build $(BUILD) --parallel $(JOBS)

# Rewrites the committed type stub after a change of src/bindings.
stub: build
	.venv/bin/python tools/make_stub.py

clean:
	rm -rf build reports
	find python -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/popxl/*.so
