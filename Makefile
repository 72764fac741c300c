PYTHON ?= python3
TORCH  ?= torch==2.13.0
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(shell find src/chronoscale/cuda_ext/csrc -type f 2>/dev/null)

.PHONY: demo test check sanitize install clean

demo: install
	$(BIN)/chronoscale demo

test: install check
	$(BIN)/pytest

check: install
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy

# By hand: the CUDA kernels, emulated, under the address sanitizer; the CPU library under the thread sanitizer.
THREAD := build/thread
sanitize: install
	$(BIN)/python tests/emulation
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
	touch $@

clean:
	rm -rf $(VENV) build dist runs
