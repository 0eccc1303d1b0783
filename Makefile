# SPDX-License-Identifier: Apache-2.0
#
# The front door: each target is a line or two that calls meson or a script in tools/. Build directories
# are build/{release,test,clang,fuzz,tsan,coverage}; delete them freely.

# Command-line knobs and their defaults.
PREFIX ?= /usr/local
SEED ?= 1
SECONDS ?= 60
CYCLES ?= 1000
TARGET ?= fuzz_*

release = build/release

.DEFAULT_GOAL := all
.PHONY: all run test interop sim torture fuzz tsan valgrind bench tidy format lint-clang coverage install clean help \
    packages-build packages-test release

all: release ## build build/norn, optimised and hardened (the default)
	@ninja -C $(release) src/cmd/norn
	@ln -sfn release/src/cmd/norn build/norn

run: all ## build, then start the server on 127.0.0.1:4001 with its data in ./norn-data
	@echo 'In another terminal: build/norn doctor, build/norn help; docs/guide/http.md shows the rest. Ctrl-C stops.'
	@build/norn server

test: packages-build packages-test ## everything that proves the tree; ends with "N passed, M failed, K skipped"
	@tools/run_tests

interop: all packages-test ## the SDKs of others, unmodified, against norn; needs the network once (test/interop)
	@tools/run_interop --norn build/norn

sim: release ## run the simulator: make sim SEED=17 SECONDS=60
	@ninja -C $(release) test/sim/norn-sim
	$(release)/test/sim/norn-sim --seed $(SEED) --seconds $(SECONDS)

torture: release ## kill -9 and power-loss cycles against a real process: make torture CYCLES=1000
	@ninja -C $(release)
	TORTURE_CYCLES=$(CYCLES) meson test -C $(release) --no-rebuild --suite torture --timeout-multiplier 0 --verbose

# The tests of the C library in which threads meet: not those of its kit, which has one thread only.
threaded_lib = test_lib_hello test_lib_jobs test_lib_memory test_lib_orchestrator test_lib_policies test_lib_replay \
    test_lib_retry test_lib_worker
# The same of engine, server, streams and archive; the tests of hosts and of streams in a simulated world have one.
# Without test_server_workers, which measures tenths of seconds.
threaded = $(threaded_lib) test_archive_sqlite test_engine test_queue test_server_client test_server_entities \
    test_server_feed test_server_flow test_server_history test_server_leases test_server_lists test_server_waits \
    test_streams_bound
# And whole servers, under load and killed: the first race ends them, so that the test fails.
threaded_servers = test_ingest test_reply test_streams
# Without the two that fail every allocation in turn (test_lib_memory, test_lib_kit): they would take an hour. The rest
# takes some five minutes on two cores, ten when they are shared.
checked = $(filter-out test_lib_memory,$(threaded_lib)) test_lib_coroutine test_lib_kit_policies test_lib_kit_replay

tsan: packages-build packages-test ## library, engine and server with their threads under ThreadSanitizer
	@tools/setup_build tsan
	@ninja -C build/tsan src/cmd/norn $(addprefix test/unit/,$(threaded))
	meson test -C build/tsan --no-rebuild --timeout-multiplier 5 --print-errorlogs --suite unit $(threaded)
	TSAN_OPTIONS=halt_on_error=1 meson test -C build/tsan --no-rebuild --timeout-multiplier 5 --print-errorlogs \
	    --suite e2e $(threaded_servers)

valgrind: release packages-test ## the C library under valgrind's memcheck
	@ninja -C $(release) $(addprefix test/unit/,$(checked))
	meson test -C $(release) --no-rebuild --timeout-multiplier 20 --print-errorlogs --num-processes 1 \
	    --wrapper 'valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite' \
	    $(checked)

fuzz: packages-build packages-test ## fuzz every target for a while: make fuzz SECONDS=60 TARGET=fuzz_frame
	@tools/setup_build fuzz
	@ninja -C build/fuzz
	@set -e; for target in $(wildcard test/fuzz/$(TARGET).c); do \
	    tools/run_fuzz build/fuzz/test/fuzz/$$(basename $$target .c) $(SECONDS); done

bench: all ## measure the engine on this machine, one JSON object per benchmark
	build/norn bench engine --json
	build/norn bench grpc --idle-workers 1000 --json
	build/norn bench sleepers --count 1000000 --json

tidy: ## check the rules a machine can check (tools/tidy)
	@tools/tidy

format: ## rewrite src/ and test/ with clang-format-14 (the version counts: another formats differently)
	clang-format-14 -i $(shell find src test -name '*.[ch]')

lint-clang: packages-build packages-test ## compile everything with clang, warnings are errors
	@tools/setup_build clang
	@ninja -C build/clang

coverage: packages-build packages-test ## line and branch coverage of src/ in build/coverage/html
	@tools/setup_build coverage
	@ninja -C build/coverage
	meson test -C build/coverage --no-rebuild --suite unit --suite conformance --suite sim
	@mkdir -p build/coverage/html
	gcovr --root . --filter src/ build/coverage --print-summary --html-details build/coverage/html/index.html

install: all ## install norn and its C library under PREFIX (default /usr/local); DESTDIR is honoured
	@meson configure $(release) -Dprefix=$(PREFIX)
	@ninja -C $(release) installed
	meson install -C $(release) --no-rebuild

clean: ## remove build/
	rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

release: packages-build
	@tools/setup_build release

packages-build:
	@tools/install-packages build

packages-test:
	@tools/install-packages test
