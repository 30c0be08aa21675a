# The front door. Each target first installs the Debian packages it misses, and says nothing when nothing is missing.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PROMPT ?= In two sentences: why is the sky blue?
DEMO_MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf
GEMMA_MODEL := models/gemma-3-270m-q4_k_m.gguf
PAGODA := build/release/bin/pagoda

.PHONY: demo test test-all test-slow test-readers build model models bench bench-gpu bench-server soak sanitize sanitize-threads fuzz format format-check layers lint kernels release install clean deps deps-dev

demo: build model
	@$(PAGODA) run $(DEMO_MODEL) "$(PROMPT)" --max-tokens 200

deps:
	@tools/install_packages.sh build

deps-dev:
	@tools/install_packages.sh build develop

build: deps
	@tools/build.sh release pagoda

model: deps
	@tools/fetch_model.sh smollm2

models: model
	@tools/fetch_model.sh gemma3

test: deps model
	@tools/fetch_nvrtc.sh
	@tools/build.sh release all
	@ctest --test-dir build/release -L core -j2 --output-on-failure

test-all: test test-slow

# After `make test`.
test-slow: models
	@tools/install_packages.sh browser
	@tools/fetch_test_data.sh
	@tools/fetch_browser_tests.sh
	@tools/fetch_server_clients.sh
	@ctest --test-dir build/release -L slow -j2 --output-on-failure

# The drills in the numbers of a release, then every wrong value of every field and the crawl of all routes without a key:
# about a quarter of an hour. What they measured is printed.
soak: build model
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/server/drills_test.py
	@cd tests/server && PYTHONDONTWRITEBYTECODE=1 PAGODA_PROGRAM=$(CURDIR)/$(PAGODA) PAGODA_MODEL=$(CURDIR)/$(DEMO_MODEL) \
	  python3 -m unittest protocol_test.Fields edge_test.Keys

# Quantised checkpoints between Pagoda and transformers, compressed-tensors and MLX: 7 GB of Python packages, so no part of
# `test-all`.
test-readers: build model
	@tests/slow/readers.sh build/release $(PAGODA) $(DEMO_MODEL)

# The parser, text and KV tests with the address and undefined-behaviour sanitizers.
sanitize: deps model
	@tools/build.sh asan test_base test_quant test_io test_text test_kv test_sched
	@ctest --test-dir build/asan -R '^test_(base|quant|io|text|kv|sched)$$' --output-on-failure

# The threads under the thread sanitizer.
sanitize-threads: deps model
	@tools/build.sh tsan test_base test_device test_engine test_server pagoda
	@ctest --test-dir build/tsan -R '^test_(base|device|engine|server)$$' --output-on-failure
	@cd tests/server && PYTHONDONTWRITEBYTECODE=1 PAGODA_PROGRAM=$(CURDIR)/build/tsan/bin/pagoda \
	  PAGODA_MODEL=$(CURDIR)/$(DEMO_MODEL) PAGODA_DRILL_SCALE=0.1 TSAN_OPTIONS=exitcode=66 python3 -m unittest \
	  drills_test.Drills.test_cancelled_requests_leave_the_idle_block_count \
	  drills_test.Drills.test_disconnects_at_random_moments drills_test.Drills.test_sigterm_under_64_streams \
	  protocol_test.Together edge_test.Ends

fuzz: deps-dev
	@CXX=clang++ tools/build.sh fuzz fuzzers
	@for target in build/fuzz/bin/fuzz_*; do \
	  name=$${target##*fuzz_}; mkdir -p build/fuzz/new_inputs/$$name; \
	  "$$target" -max_total_time=60 -rss_limit_mb=512 -timeout=1 build/fuzz/new_inputs/$$name tests/fuzz/corpus/$$name; done

bench: build models
	@tools/bench.sh

# The figures that a GPU is held to, on a machine that has one: ROWS="decode-8b-*" chooses; no ROWS: all.
bench-gpu: build
	@tools/build.sh release pagoda attention_cuda step_gap engine_load mma_bulk_rows_chain mma_bulk_codes_chain wgmma_codes_check gpu_parity gpu_models
	@tools/bench_gpu.py $(ROWS)

# The server's figures on this machine, as they are kept in bench/results/cpu_serve.jsonl.
bench-server: build
	@tools/install_packages.sh bench
	@python3 bench/serve_cpu.py

format: deps-dev
	@git ls-files '*.h' '*.cc' 'web/*.js' 'tests/page/*.mjs' | xargs clang-format -i

format-check: deps-dev
	@git ls-files '*.h' '*.cc' 'web/*.js' 'tests/page/*.mjs' | xargs clang-format --dry-run --Werror

layers:
	@python3 tools/check_layers.py

lint: deps-dev
	@tools/build.sh release pagoda
	@git ls-files 'src/*.cc' 'apps/*.cc' | xargs clang-tidy -p build/release --quiet

# The GPU kernels of configs/, for every GPU that Pagoda knows, in one file; what has not changed is not compiled again.
kernels: deps
	@tools/fetch_nvrtc.sh
	@tools/build.sh release pack_kernels
	@build/release/bin/pack_kernels build/nvrtc/libnvrtc.so.12 build/kernels build/kernels.pack

# The program as others get it: with those kernels, stripped, checked.
release: kernels
	@tools/build.sh release pagoda_packed
	@strip -o build/pagoda build/release/bin/pagoda_packed
	@tools/check_release.sh build/pagoda

install: build
	@cmake --install build/release

clean:
	@rm -rf build
