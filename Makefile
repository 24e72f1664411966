# One target per task. `make help` lists them.
PYTHON  ?= python3
# `make test PYTHON=python3.13` works in an environment of that interpreter's own.
VENV    := $(if $(findstring command,$(origin PYTHON)),.venv-$(shell $(PYTHON) -c \
	'import sys; print("%d.%d" % sys.version_info[:2] + sys.abiflags)'),.venv)
BIN     := $(VENV)/bin
# Some environments forbid Python to keep what it compiled; then each of some thousand processes compiles everything again.
export PYTHONDONTWRITEBYTECODE =
# Tests of Rust and fuzzing read the official cases from there; `make test` lays them out where none are named.
ifeq ($(MONGODB_SPECIFICATIONS)$(wildcard build/specifications/ORIGIN.txt),build/specifications/ORIGIN.txt)
export MONGODB_SPECIFICATIONS := $(CURDIR)/build/specifications
endif
# Cargo takes no jobs from make, and says so at length where it finds that it could.
CARGO   := MAKEFLAGS= cargo
SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) .cargo/config.toml Cargo.toml Cargo.lock pyproject.toml

.PHONY: help build ready run simulate simulate-planted test specifications beside test-rust test-python test-server test-pythons test-all test-rest rest-beside rest-seeds rest-codecs rest-interpreter rest-python rest-faces rest-faults rest-pymongo lint-quick lint-rust lint-text lint-types lint-stubs lint-floors instructions test-websessions-long pymongo-suite library-suites bench bench-languages soak lint fmt stubs fuzz audit miri asan docs test-site demo lock clean third-party wheel wheels

help:    ## List the targets
	@grep -hE '^[a-z -]+: .*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-21s %s\n", $$1, $$2}'

# Two jobs, unless there is a make above that shares out its own: to ask for others then is warned of.
TWO_JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,--jobs 2)

# Compiling and pip's work fill two cores together; so they do below.
build:    ## Make .venv: the release build, the development tools and the peers
	@$(MAKE) --no-print-directory --silent $(TWO_JOBS) $(VENV)/.built $(VENV)/.requirements

# What is missing here is said at once, not by what fails for lack of it.
define prerequisites
	@command -v $(PYTHON) >/dev/null || { echo "cannot build: expected Python 3.11 or newer, got no $(PYTHON): install one, or name another: make run PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) tools/prerequisites.py
endef

# $(1): a list of requirements, in words that pip understands.
define pip_install
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(1) || { echo "cannot install $(2): pip says why above. It needs a package index, or PIP_NO_INDEX=1 and PIP_FIND_LINKS=folder of wheels, and room in TMPDIR" >&2; exit 1; }
endef

$(BIN)/maturin: requirements/run.txt
	$(prerequisites)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call pip_install,$$(grep ^maturin= $<),the build tool)
	@touch $@

# After the build tool, since two pips must not work in one environment.
$(VENV)/.requirements: requirements/dev.txt | $(BIN)/maturin
	@echo "Installing the development tools and the peers into $(VENV): a minute or two"
	@$(call pip_install,-r requirements/dev.txt,the development tools)
	@touch $@

# What is built stands in $(BIN)/mangonel's own environment, without being installed there; the lab says which build it was.
# The command begins as a shell's, since the path behind `#!` may hold no space; to Python these two lines are a string.
define installed
	echo "$(abspath python)" > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/mangonel.pth"
	printf "#!/bin/sh\n'''exec' \"%s\" \"\$$0\" \"\$$@\"\n' '''\nfrom mangonel.cli import main\nraise SystemExit(main())\n" "$(abspath $(BIN)/python)" > $(BIN)/mangonel
	chmod +x $(BIN)/mangonel
	echo $(1) > $(VENV)/mangonel-build
	touch $@
endef

$(VENV)/.built: $(SOURCES) | $(BIN)/maturin
	$(prerequisites)
	@echo "Building the driver, release profile: some four minutes on two cores"
	MAKEFLAGS= VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/maturin develop --release --locked --skip-install --quiet
	$(call installed,release)

# maturin builds, runs tools/training.py, and builds again by the branches that it took. What is not played there stays quick
# (pgso). A release build, so one that is there already is replaced.
$(VENV)/.trained: $(SOURCES) tools/training.py tools/instructions/everyday.py | $(BIN)/maturin
	$(prerequisites)
	@echo "Building the driver twice, the second time by what the first did: some eight minutes on two cores"
	RUSTFLAGS="-Cllvm-args=-pgso=false" MAKEFLAGS= VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/maturin develop --release --pgo --locked --skip-install --quiet
	touch $(VENV)/.built
	$(call installed,trained)

.PHONY: trained
trained:    ## Make the release build by a profile of its usual work: needs rustup component add llvm-tools
	@$(MAKE) --no-print-directory --silent $(VENV)/.trained

# Half the work of the release build, whose figures are those to quote. In the folder of the tests, which take others' crates
# as compiled here.
$(VENV)/.quick: $(SOURCES) | $(BIN)/maturin
	$(prerequisites)
	@echo "Building the driver, quick profile: about a minute and a half on two cores"
	MAKEFLAGS= VIRTUAL_ENV="$(abspath $(VENV))" $(BIN)/maturin develop --profile dev --locked --skip-install
	$(call installed,quick)

$(VENV)/.peers: requirements/run.txt | $(BIN)/maturin
	@echo "Installing a MongoDB server and the peers of the five comparisons"
	$(call pip_install,-r requirements/run.txt,what is compared)
	touch $@

# The other side of the fourth comparison. Where it cannot be had, that is said and the comparison goes without.
.PHONY: redis
redis: $(BIN)/maturin
	@$(BIN)/python tools/unpacked.py redis-server $(VENV)

# A release build that is there is used; else a quick one is made while pip installs the rest.
RUN_NEEDS := redis $(if $(wildcard $(VENV)/.built),$(VENV)/.built,$(VENV)/.quick $(VENV)/.peers)
READY     := $(if $(wildcard $(VENV)/.built),$(VENV)/.built,$(VENV)/.quick) $(VENV)/.requirements

# Continuous integration makes the release build first; `test-rest`, and what has figures to quote, ask for it.
ready:    ## Make .venv with what tests need: the release build if it is there, else a quick one
	@$(MAKE) --no-print-directory --silent $(TWO_JOBS) $(READY)

run:    ## The five old comparisons and find_one against the peers, on one screen, in 90 seconds
	@$(MAKE) --no-print-directory --silent --jobs 3 $(RUN_NEEDS)
	@$(BIN)/python -m compileall -q python/mangonel    # as pip does for the peers
	@$(BIN)/mangonel lab first -o target/lab

# Tests wait for servers more than they work, so there are three workers for each core; each has servers of its own.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 3 * (os.cpu_count() or 1)))')
# Longer faults, which are most of what a sample leaves out, come with deadlines: they get more of a processor each.
FEWER ?= $(shell $(PYTHON) -c 'import os; print(min(8, 1 + (os.cpu_count() or 1)))')
# Their data is kept in memory where there is room: it goes when they end, and nothing waits for a disk.
SCRATCH := $(shell test -w /dev/shm && test $$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) -gt 8000000 2>/dev/null && echo TMPDIR=/dev/shm)
# Another server: `make test MONGOD=path/to/mongod`, of any version from 4.4 on. Without it, the wheel's.
ifdef MONGOD
export MANGONEL_MONGOD := $(abspath $(MONGOD))
endif
PYTEST  := $(SCRATCH) MANGONEL_INSTALL_SERVERS=1 $(BIN)/python -m pytest --tb=short --workers $(WORKERS)

SHORT := MANGONEL_SOAK_SECONDS=6 MANGONEL_CUT_SECONDS=6 MANGONEL_STRESS_SECONDS=6 MANGONEL_MODEL_RUNS=2
LONG  := MANGONEL_SOAK_SECONDS=120 MANGONEL_CUT_SECONDS=90 MANGONEL_FAILOVER_SECONDS=120 MANGONEL_MODEL_RUNS=100 MANGONEL_STRESS_SECONDS=60

# What only computes fills the time in which the tests of Python wait for servers; what it says is shown after them.
test: ready specifications    ## Lint without clippy and stubtest, and a sample of every kind of test: Rust without a server, Python with a real mongod
	@echo "Playing the tests of Python; lint and the tests of Rust run beside them, their output comes last (target/beside.log)"
	@$(MAKE) --no-print-directory --jobs 2 --keep-going beside test-python; status=$$?; cat target/beside.log; exit $$status

# The official cases: PyMongo's copies, unless MONGODB_SPECIFICATIONS names a folder. Without a network the last lines say so.
specifications: ready
	@test -n "$(MONGODB_SPECIFICATIONS)" || $(BIN)/python tools/specifications.py build/specifications

beside:
	@mkdir -p target
	@nice $(MAKE) --no-print-directory lint-quick test-rust > target/beside.log 2>&1

test-python: ready
	$(SHORT) $(PYTEST) --sample --durations=20 $(ARGS)

# What needs only a server, on one that runs: the cases of the specifications, and every face.
SERVER_SUITES := tests/spec tests/driver tests/sessions tests/faces tests/gridfs tests/monitoring
test-server: ready    ## The suites that need only a server, on the one that URI names: URI=mongodb://127.0.0.1/
	$(if $(URI),,$(error test-server: expected URI=mongodb://..., of a server that may be written to))
	MANGONEL_URI="$(URI)" $(BIN)/python -m pytest --tb=short $(SERVER_SUITES) $(ARGS)

# The interpreters of this machine, one of each minor version.
PYTHONS ?= $(foreach minor,11 12 13 14,$(firstword $(shell python3.$(minor) -c 'import sys; print(sys.executable)' 2>/dev/null) \
	$(wildcard $(HOME)/.pyenv/versions/3.$(minor).*/bin/python3)))

test-pythons:    ## The tests of Python on each interpreter that is found: PYTHONS="python3.12 python3.13"
	for python in $(PYTHONS); do $(MAKE) --no-print-directory test-python PYTHON=$$python || exit 1; done

test-rust:    ## The tests of the core, which need neither Python nor a server
	$(CARGO) test --locked --quiet -p mangonel-bson -p mangonel-columns -p mangonel-proto -p mangonel-simulation

SECONDS ?= 60
simulate:    ## The core in a simulated world: new seeds for SECONDS=60, or one again: SEED=7 HTML=run.html
	$(CARGO) run --locked --quiet --profile test -p mangonel-simulation --bin simulate -- \
		$(if $(SEED),--seed $(SEED),--seconds $(SECONDS)) $(if $(HTML),--html $(HTML)) $(ARGS)

simulate-planted:    ## Plant faults into a copy of the core, and see that the simulation finds each (half an hour)
	$(PYTHON) tools/planted.py $(ARGS)

# What PyMongo's suite is bounded to here, on both drivers: `make pymongo-suite` runs all of it, which takes an hour.
# Six of asyncio, so that they share no process with the same tests of the blocking face.
PYMONGO_FILES ?= $(addprefix asynchronous/test_,bulk collection crud_unified cursor database gridfs) \
	$(addprefix test_,bson bulk change_stream collection cursor database) \
	$(addprefix test_,gridfs gridfs_bucket json_util objectid transactions_unified uri_parser)

test-all: test test-rest    ## Everything: `make test`, and what it leaves out, clippy, stubtest and browsers among it

# All faces, loops and paths, longer faults, PyMongo's own tests, the fuzz targets. What only computes runs beside them.
test-rest: build
	@$(MAKE) --no-print-directory --jobs 2 --keep-going rest-beside rest-python; status=$$?; \
		cat target/rest-beside.log; exit $$status

rest-beside:
	@mkdir -p target
	@nice $(MAKE) --no-print-directory --keep-going lint-rust lint-stubs rest-seeds rest-codecs rest-interpreter fuzz audit miri asan FUZZ_SECONDS=20 > target/rest-beside.log 2>&1

# `make test` plays the first two hundred. New ones come behind them: one that fails is mended, and goes to KEPT in `tests/seeds.rs`.
rest-seeds:
	MANGONEL_SEEDS=3000 $(CARGO) test --locked --quiet -p mangonel-simulation --test seeds every_promise
	@$(MAKE) --no-print-directory simulate SECONDS=60

rest-codecs: build
	$(BIN)/python tools/fuzz_codec.py --seconds 60
	$(BIN)/python tools/fuzz_json.py --inputs 200000

# Everyday work on the newest other interpreter that is found, with a core that is built as quickly as the quick one.
UNLINKED := CARGO_PROFILE_RELEASE_LTO=false CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0
OTHER = $(lastword $(filter-out $(realpath $(BIN)/python),$(realpath $(PYTHONS))))
rest-interpreter: build
	$(if $(OTHER),$(UNLINKED) $(BIN)/python tools/other_interpreter.py $(OTHER),@echo "rest-interpreter: not run, no other interpreter was found")

# Each part is played although one before it failed.
rest-python: build
	@status=0; for part in rest-faces rest-faults rest-pymongo test-site; do \
		$(MAKE) --no-print-directory $$part || status=1; done; exit $$status

# UNTIL, in seconds since 1970, is when it begins no further file: it says how many tests are left out. All of the faults are
# played after it, in their long form.
rest-faces:
	$(PYTEST) --workers $(FEWER) --rest --ignore tests/faults $(if $(UNTIL),--until $(UNTIL))

rest-faults:
	$(LONG) $(PYTEST) --workers $(FEWER) tests/faults tests/websessions/test_model.py

rest-pymongo:
	$(BIN)/python tools/pymongo_suite $(PYMONGO_FILES)

test-websessions-long: ready    ## The model of websessions, 2000 runs on each side of three stores (minutes)
	MANGONEL_INSTALL_SERVERS=1 MANGONEL_MODEL_RUNS=2000 MANGONEL_FAILOVER=1 $(BIN)/python -m pytest \
		tests/websessions/test_model.py tests/websessions/test_failover_long.py tests/websessions/test_redis_failover.py \
		-s $(ARGS)

instructions: build    ## Count the instructions of codec, protocol and mapper; UPDATE=1 keeps the counts
	$(BIN)/python tools/instructions.py $(if $(UPDATE),--update)

pymongo-suite: build    ## PyMongo's own tests on this driver, with the figures in docs/dev/pymongo-suite.md (long)
	$(BIN)/python tools/pymongo_suite --write $(ARGS)

library-suites: build    ## The tests of libraries on top of PyMongo, on it and on this driver; ARGS="--write" or names (root, long)
	$(BIN)/python tools/library_suites $(ARGS)

bench: build    ## Every experiment in full, for the documentation's figures: hours
	$(BIN)/python -m compileall -q python/mangonel
	$(BIN)/mangonel lab run

# Two runs: the figures, and a planted slowdown that has to be found.
LANGUAGES := target/languages
LANGUAGES_BUDGET ?= 15m
bench-languages: build    ## Client CPU in Python, C, Rust, Go, Node.js and Java, where their tools are; writes the page and the front pages' chart
	$(BIN)/python -m compileall -q python/mangonel
	mkdir -p $(LANGUAGES)
	$(BIN)/mangonel lab run languages languages-one-core languages-idle crowd --brief --budget $(LANGUAGES_BUDGET) -o $(LANGUAGES)/run.jsonl
	$(BIN)/mangonel lab run languages-control --brief --rounds 3 --budget 150 \
		--contender mangonel-program --contender c-program --contender rust-program \
		--plant mangonel-program=15% --plant c-program=15% -o $(LANGUAGES)/planted.jsonl
	$(BIN)/python tools/docs_languages.py $(LANGUAGES)/run.jsonl $(LANGUAGES)/planted.jsonl
	$(BIN)/python tools/docs_benchmarks.py --cost $(LANGUAGES)/run.jsonl
	MANGONEL_LINT_LANGUAGES=1 $(BIN)/python -m pytest tests/lab/test_languages.py

# Clippy reads every crate once more, which is 68 s of processor time in a clone, and stubtest every module, which is 11 s
# each time: `make test` leaves both to `make test-rest`.
lint: SLOW := lint-rust lint-stubs
lint lint-quick: ready    ## Formatting, types, floors side by side; `lint` has clippy and stubtest too
	@$(MAKE) --no-print-directory $(TWO_JOBS) $(filter --output-sync,$(addprefix --,$(.FEATURES))) lint-types $(SLOW) lint-floors lint-text

# With the profile and the folder of the tests, all three take others' crates as compiled once: the C of zstd is 25 s.
# The fuzz targets are checked, not linked, so nothing is compiled of libFuzzer and any compiler will do.
lint-rust:
	$(CARGO) clippy --profile test --locked --quiet --all-targets -- -D warnings
	CUSTOM_LIBFUZZER_PATH=unused/libunused.a $(CARGO) clippy --profile test --manifest-path fuzz/Cargo.toml --target-dir target --locked --quiet --bins -- -D warnings

lint-text:
	cargo fmt --check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(PYTHON) tools/words.py

lint-types:
	$(BIN)/mypy

# The mapper's modules with terminals are their own types, but for the twins.
TYPED := mangonel._core mangonel.api mangonel.gridfs.api mangonel.encryption.api $(addprefix mangonel.odm.,\
	connections.connection model.any_ref model.many model.refs query.aggregates query.columns query.query query.reads query.watch query.writes store.document store.files)

lint-stubs:
	MYPYPATH=python $(BIN)/stubtest $(TYPED) --allowlist tools/stubtest-allowlist.txt --ignore-unused-allowlist

lint-floors:
	$(PYTHON) tools/stubs.py --check
	$(BIN)/lint-imports --no-cache
	$(PYTHON) tools/flows.py
	$(PYTHON) tools/core_rules.py
	$(PYTHON) tools/third_party.py --check
	$(PYTHON) tools/planted.py --check

third-party:    ## Write the licences and the bill of materials of what is linked in
	$(PYTHON) tools/third_party.py

wheel: build    ## Build the wheel for this Python and the source distribution, into dist/
	$(BIN)/maturin build --release --locked --strip --sdist --interpreter $(BIN)/python --out dist

$(VENV)/wheels/.requirements: requirements/wheels.txt
	test -x $(VENV)/wheels/bin/python || $(PYTHON) -m venv $(VENV)/wheels
	$(VENV)/wheels/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/wheels.txt
	touch $@

# Rust's own libraries for the other systems: rustup target add, for each that is built for.
wheels: $(VENV)/wheels/.requirements    ## Build and check the wheels of all systems, into dist/: WHEELS="manylinux-x86_64 --python 3.13"
	$(VENV)/wheels/bin/python tools/wheels.py $(WHEELS)

stubs:    ## Write the types of both faces from the definitions
	$(PYTHON) tools/stubs.py

# One minute finds slips; hours find bugs: make fuzz FUZZ_SECONDS=3600 FUZZ_TARGETS=bson_decode
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
# The sanitizers need a nightly compiler, or a stable one told to act like it.
FUZZ_CARGO := $(if $(shell rustup toolchain list 2>/dev/null | grep nightly),cargo +nightly,RUSTC_BOOTSTRAP=1 cargo)

target/tools/bin/cargo-fuzz:
	cargo install --locked --quiet --root target/tools cargo-fuzz

fuzz: target/tools/bin/cargo-fuzz    ## Fuzz each target for FUZZ_SECONDS
	for target in $(FUZZ_TARGETS); do \
		case $$target in bson_*) $(PYTHON) fuzz/seeds.py $$target || true ;; esac; \
		PATH="$(abspath target/tools/bin):$$PATH" $(FUZZ_CARGO) fuzz run $$target -- \
			-max_total_time=$(FUZZ_SECONDS) -use_value_profile=1 -print_final_stats=1 || exit 1; \
	done

# These two are part of the long tests where the machine has what they need; else they say what is missing.
ADVISORIES := https://github.com/RustSec/advisory-db

audit:    ## Known faults of the crates we link: needs cargo-audit, and the network for its database
	@cargo audit --version >/dev/null 2>&1 || { echo "audit: not available, cargo-audit is not installed"; exit 0; }; \
	git ls-remote --exit-code $(ADVISORIES) HEAD >/dev/null 2>&1 || { echo "audit: not available, no $(ADVISORIES)"; exit 0; }; \
	cargo audit

# Half a minute. Without the exhaustive tests and the properties, which take Miri hours.
miri:    ## The BSON crate's tests under Miri: needs a nightly compiler with that component
	@cargo +nightly miri --version >/dev/null 2>&1 || { echo "miri: not available, no nightly compiler with it"; exit 0; }; \
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --locked --quiet -p mangonel-bson \
		--test reader --test text -- --skip every_cut

# A build of its own, some minutes; then half a minute of stress. Leaks are not looked for: the interpreter keeps what it has.
HOST    := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
ASAN    := target/asan
LIBASAN := $(shell cc -print-file-name=libasan.so 2>/dev/null)

asan: build    ## The stress test on a build that AddressSanitizer watches: needs its runtime, of the C compiler
	@test -f "$(LIBASAN)" || { echo "asan: not available, the C compiler has no libasan.so"; exit 0; }; set -e; \
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address PYO3_PYTHON="$(abspath $(BIN)/python)" CARGO_TARGET_DIR=$(ASAN) \
		CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
		cargo build --locked --quiet --release --target $(HOST) -p mangonel-py --features extension-module; \
	rm -rf $(ASAN)/python && mkdir -p $(ASAN)/python && cp -r python/mangonel $(ASAN)/python/; \
	cp $(ASAN)/$(HOST)/release/lib_core.so $(ASAN)/python/mangonel/$$($(BIN)/python -c \
		'import sysconfig; print("_core" + sysconfig.get_config_var("EXT_SUFFIX"))'); \
	MANGONEL_STRESS_LD_PRELOAD=$(LIBASAN) MANGONEL_STRESS_PYTHONPATH="$(abspath $(ASAN))/python" \
		ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc MANGONEL_STRESS_SECONDS=30 $(BIN)/python -m pytest -q -p no:xdist tests/faults/test_stress.py

# The figures of the long forms go to docs/dev/NOTES.md.
soak: ready    ## Mixed work on both faces for 15 minutes: what grows?
	MANGONEL_SOAK_SECONDS=900 $(BIN)/python -m pytest -s tests/faults/test_soak.py

fmt:    ## Format everything
	cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

lock: $(VENV)/.requirements    ## Resolve requirements/{dev,run,docs,wheels}.in into their .txt
	rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --disable-pip-version-check -r requirements/dev.in
	$(VENV)/lock/bin/pip freeze | sed -E "s/^(backports|beanie).*/&; python_version < '3.14'/" > requirements/dev.txt && rm -rf $(VENV)/lock
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --disable-pip-version-check -c requirements/dev.txt -r requirements/run.in
	$(VENV)/lock/bin/pip freeze > requirements/run.txt && rm -rf $(VENV)/lock
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --disable-pip-version-check -r requirements/docs.in
	$(VENV)/lock/bin/pip freeze > requirements/docs.txt && rm -rf $(VENV)/lock
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --disable-pip-version-check -r requirements/wheels.in
	$(VENV)/lock/bin/pip freeze > requirements/wheels.txt && rm -rf $(VENV)/lock

demo: ready    ## Run the demo application with a replica set of its own, at http://127.0.0.1:8000
	$(BIN)/mangonel demo $(ARGS)

$(VENV)/docs/.requirements: requirements/docs.txt
	test -x $(VENV)/docs/bin/python || $(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	touch $@

# The names of the reference are found by importing the package, so it is built first; with the same Python.
docs: ready $(VENV)/docs/.requirements    ## Build the documentation into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --strict --quiet --clean

# Its pages are looked at with axe on a desk and on a phone, light and dark.
test-site: docs    ## Build the documentation, and look at it in Chromium
	MANGONEL_SITE=build/site $(PYTEST) tests/docs/test_site_in_browser.py $(ARGS)

clean:    ## Remove what was built
	rm -rf $(VENV) target python/mangonel/*.so
