# Every task of the project is a target; `make help` lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
MEMBERS := $(patsubst %/pyproject.toml,%,$(wildcard schemas/pyproject.toml libs/*/pyproject.toml services/*/pyproject.toml infra/*/pyproject.toml))
STAMP := $(VENV)/.ready
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
# The tests start Python some hundred times: compiled once, its modules take half as long to import.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

.PHONY: setup
setup: $(STAMP) ## Make the virtual environment from the lock and install every member

$(STAMP): requirements.lock pyproject.toml $(addsuffix /pyproject.toml,$(MEMBERS))
	@echo "==> python environment ($(VENV))"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m uv --version >/dev/null 2>&1 || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-uv.lock
	@$(BIN)/python -m uv pip install --python $(BIN)/python --require-hashes --build-constraints requirements.lock -r requirements.lock
	@$(BIN)/python -m uv pip install --python $(BIN)/python --no-deps --no-build-isolation $(addprefix -e ,$(MEMBERS))
	@touch $@

COMPILE := $(BIN)/python -m uv pip compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --python-version 3.11
.PHONY: lock
lock: ## Resolve pyproject.toml into requirements.lock and the images' locks (hashes, no registry hosts)
	$(COMPILE) --all-extras --group dev pyproject.toml -o requirements.lock
	$(COMPILE) --constraint requirements.lock --no-emit-package numpy --no-emit-package pyarrow requirements-readers.in -o requirements-readers.lock
	$(COMPILE) --constraint requirements.lock $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.lock) requirements-peers.in -o requirements-peers.lock
	$(COMPILE) requirements-docs.in -o requirements-docs.lock
	$(COMPILE) --constraint requirements.lock --extra gateway --extra console --extra planner pyproject.toml -o infra/docker/edge.lock
	$(COMPILE) --constraint requirements.lock --extra enricher --extra listener pyproject.toml -o infra/docker/enricher.lock
	$(COMPILE) --constraint requirements.lock --extra worker --extra committer pyproject.toml -o infra/docker/jvm.lock
	$(BIN)/python -c "import pathlib,re; text=pathlib.Path('requirements.lock').read_text(); pathlib.Path('requirements-uv.lock').write_text(re.search(r'(?ms)^uv==.*?(?=^\S)', text + '\n#').group(0))"

.PHONY: demo
demo: setup ## The main job on the embedded stack: three writers, before and after, rows verified
	$(BIN)/firnline demo

DIST ?= dist
.PHONY: dist
dist: setup ## One wheel of all members, with the `firnline` command: DIST=folder
	@rm -rf build firnline.egg-info
	$(BIN)/python -m uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir $(DIST)
	@rm -rf build firnline.egg-info

VERSION ?=
.PHONY: release
release: setup ## A release of HEAD in dist/: wheel, sdist, chart, SBOM, notes, checksums, and images: VERSION=0.1.0; IMAGES= for none
	$(BIN)/python infra/release.py "$(VERSION)"
	@if [ -n "$(IMAGES)" ] && $(DOCKER) info >/dev/null 2>&1; then \
	  $(MAKE) images sbom TAG="$(VERSION)" DIST=dist/images; \
	else echo "release: no images, which need an engine (DOCKER=$(DOCKER)) and their names (IMAGES=$(IMAGES))"; fi

# BUILD_OPTIONS: of `docker build`, such as another base: --build-arg PYTHON=...
IMAGES := edge enricher jvm catalog
DOCKER ?= docker
TAG ?= local
.PHONY: images
images: ## The images firnline-edge, -enricher, -jvm, and -catalog for trials: TAG=local, BUILD_OPTIONS=...
	$(foreach one,$(IMAGES),$(DOCKER) build --target $(one) --tag firnline-$(one):$(TAG) --file infra/docker/Dockerfile --build-arg VERSION=$(TAG) --build-arg REVISION=$$(git rev-parse HEAD) $(BUILD_OPTIONS) . &&) true

.PHONY: sbom
sbom: ## What is in each image, as CycloneDX: DIST=folder
	mkdir -p $(DIST)
	$(foreach one,$(filter-out catalog,$(IMAGES)),$(DOCKER) run --rm --interactive --entrypoint python firnline-$(one):$(TAG) - < infra/docker/sbom.py > $(DIST)/firnline-$(one).cdx.json &&) true

# A JAVA_HOME for the tests, whose JVMs start from archives of their classes. Without it they take longer.
CLASSES := $(VENV)/java/bin/java
$(CLASSES): $(STAMP) $(wildcard infra/local_stack/src/firnline_local/*.lock) tests/kit/class_archives.py infra/docker/java.sh
	@echo "==> archives of Java's classes"
	-@$(BIN)/python -m tests.kit.class_archives $(VENV)/java >/dev/null

# DISTRIBUTE=loadgroup WORKERS=2: tests that share a server run on one worker (tests/kit/groups.py).
WORKERS ?= 3
DISTRIBUTE ?= loadfile
.PHONY: test
test: setup ## Lint, types and every test but those of the long run: unit, contract, integration, e2e
	$(MAKE) --jobs 3 --output-sync lint types test-demo
	$(BIN)/pytest --numprocesses $(WORKERS) --dist $(DISTRIBUTE) --no-loadscope-reorder --durations 40 --ignore $(DEMO)

.PHONY: test-alerts
test-alerts: setup ## Alert rules and boards: their names, and that each alert fires (needs promtool)
	$(BIN)/pytest tests/test_signals.py

DEMO := tests/e2e/test_demo.py
.PHONY: test-demo
test-demo: setup $(CLASSES) ## The demo with every service killed once; no other test runs beside it
	$(BIN)/pytest $(DEMO)

.PHONY: test-long
test-long: setup ## What `make test` leaves out (marker `long`), for hours: ONLY="tests/integration/lake tests/fuzz ..."
	$(BIN)/pytest -m long --durations 40 $(ONLY)

.PHONY: test-lake
test-lake: setup ## Catalogs and stores of other products, with their capture: Nessie, a Hive metastore, S3, HDFS
	$(BIN)/pytest -m "long or not long" --durations 20 tests/integration/lake

KUBERNETES := tests/kubernetes
.PHONY: test-cluster
test-cluster: setup ## Executors on other hosts, lost and killed: Spark's own master, YARN and Kubernetes (15 min; needs root)
	$(KUBERNETES)/build.sh node
	$(WITH_ENGINE) sh -c 'make images && $(BIN)/pytest -m long tests/integration/cluster'

.PHONY: test-chart
test-chart: setup ## The Helm chart by Helm and Kubernetes' API server, both built from Go modules once: needs root, Debian, Go
	$(KUBERNETES)/build.sh api
	$(BIN)/pytest -m long $(KUBERNETES)/test_manifests.py

.PHONY: test-kubernetes
test-kubernetes: setup ## The chart on a node on this machine, with the images of `make images`: writers, restarts, kills, KEDA
	$(KUBERNETES)/build.sh node keda
	$(WITH_ENGINE) sh -c 'make images && $(BIN)/pytest -x -m long $(KUBERNETES)/test_node.py'

# With the engine that answers `docker`, else podman and stand-ins for public images: needs root, Debian and Go.
WITH_ENGINE := tests/kit/engine/engine.sh with
.PHONY: test-images
test-images: setup ## Build the images and run each as any user on a read-only root
	$(WITH_ENGINE) sh -c 'make images && $(BIN)/pytest -m long tests/images'

.PHONY: test-compose
test-compose: setup ## docker-compose.yml from up to verified rows, with services killed, and its profiles: 7 min, and the images; TESTS=names
	$(WITH_ENGINE) sh -c 'make images && COMPOSE="$${COMPOSE:-$$(tests/kit/engine/base_images.sh compose)}" $(BIN)/pytest -s -m long $(if $(TESTS),-k "$(TESTS)") tests/compose'

.PHONY: unit
unit: setup ## Unit tests only: no server but a Redis, no Spark
	$(BIN)/pytest -m "not stack and not spark and not e2e"

.PHONY: integration
integration: setup ## What needs real servers or Spark
	$(BIN)/pytest -m "(stack or spark) and not e2e"

.PHONY: e2e
e2e: setup ## The whole system as processes
	$(BIN)/pytest -m e2e

FOLDER ?= .firnline/nessie
.PHONY: nessie
nessie: setup ## A Nessie to try things on, with OpenID and S3, until Ctrl-C: FOLDER=...
	$(BIN)/python -m tests.kit.serve_nessie $(FOLDER)

MINUTES ?= 1
.PHONY: fuzz-rewrite
fuzz-rewrite: setup ## Random histories against Iceberg's readers: MINUTES=n, or SEED=n again
	$(if $(SEED),FIRNLINE_FUZZ_SEED=$(SEED),FIRNLINE_FUZZ_MINUTES=$(MINUTES)) $(BIN)/pytest -x -s -k "seed or minutes" tests/fuzz/test_fuzz_rewrite.py

.PHONY: fuzz-actions
fuzz-actions: setup ## All actions in any order, killed and beside writers; every snapshot's rows by Spark: MINUTES=n, or SEED=n again
	$(if $(SEED),FIRNLINE_ACTIONS_SEED=$(SEED),FIRNLINE_ACTIONS_MINUTES=$(MINUTES)) $(BIN)/pytest -x -s -k "seed or minutes" tests/fuzz/test_fuzz_actions.py

DEPTH ?= 3
THIN ?= 1
TABLES ?= v2,v2p,v3,v3p
.PHONY: schedules
schedules: setup ## Orders of writers' steps and commits: DEPTH=n, THIN=n, TABLES=v2,v3p, or SCHEDULE="..."
	PYTHONPATH=tests/schedules $(BIN)/python -m firnline_schedules \
	  $(if $(SCHEDULE),--schedule "$(SCHEDULE)",--depth $(DEPTH) --thin $(THIN) --tables $(TABLES))

.PHONY: chaos
chaos: setup ## Writers and faults of every kind at once on the whole stack: MINUTES=n, SEED=s again; CONFIG=reference or nessie: on a secured lake
	PYTHONPATH=tests/chaos:. $(BIN)/python -m firnline_chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(CONFIG),--config $(CONFIG))

.PHONY: fuzz-inputs
fuzz-inputs: setup ## Hostile records, requests, properties and lists beside ordinary writers: MINUTES=n, SEED=s again
	PYTHONPATH=tests/chaos:. $(BIN)/python -m firnline_chaos.hostile --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

.PHONY: rck
rck: setup ## Iceberg's REST Compatibility Kit, directly and through the gateway (3 min)
	$(BIN)/pytest -s -m long tests/integration/gateway/test_compatibility_kit.py

.PHONY: readers
readers: setup ## The rewrite's outputs as ClickHouse reads them too (chdb and pandas, 600 MB)
	$(BIN)/python -m uv pip install --python $(BIN)/python --target $(VENV)/readers --require-hashes --no-deps -r requirements-readers.lock
	PYTHONPATH=$(CURDIR)/$(VENV)/readers $(BIN)/pytest tests/integration/worker/test_independent_readers.py

.PHONY: lint
lint: setup ## Ruff: rules and format; import-linter: who imports whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

.PHONY: format
format: setup ## Let ruff write the format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: types
types: setup ## mypy: strict, and names and calls of the tests
	$(BIN)/mypy $(addsuffix /src,$(MEMBERS)) $(wildcard $(addsuffix /tests,$(MEMBERS))) tests bench infra/release.py

.PHONY: bench-start
bench-start: setup ## Cold start: up to ready, commit to first byte read
	$(BIN)/python bench/cold_start.py

CAPTURE ?= postgres
.PHONY: bench-capture
bench-capture: setup ## From a commit to its task, without a gateway: CAPTURE=postgres|sweep|gateway, TABLES=n
	PYTHONPATH=. $(BIN)/python -m bench.capture --capture $(CAPTURE) $(if $(filter-out file,$(origin TABLES)),--tables $(TABLES))

.PHONY: bench-assess
bench-assess: setup ## `firnline assess` of a lake of metadata alone: TABLES=n
	PYTHONPATH=. $(BIN)/python -m bench.assess --tables $(if $(filter-out file,$(origin TABLES)),$(TABLES),2000)

PART ?= all
ROUNDS ?= 5
SCALE ?= 1
STREAM = $(if $(filter-out file,$(origin MINUTES)),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE)) $(if $(filter 0,$(BUSY)),--no-busy)
CLUSTER = $(if $(SIDES),--sides $(SIDES)) $(if $(LIMIT_MINUTES),--limit-minutes $(LIMIT_MINUTES))
BENCH_FOLDER ?= .firnline/bench
PEERS ?= $(findstring peers,$(PART))
WITH_PEERS = $(filter-out 0,$(PEERS))
.PHONY: bench-rewrite
bench-rewrite: setup $(if $(WITH_PEERS),$(VENV)/peers/.ready) ## The rewrite beside Iceberg's own: PART=all|main,keys,growth..., ROUNDS=n, SCALE=x; PEERS=1: Sail and Trino too; of streams MINUTES=n, RATE=n, BUSY=0; of cluster SIDES=firnline,stock, LIMIT_MINUTES=n
	$(BIN)/python -m bench.rewrite.run --part $(PART) $(if $(WITH_PEERS),--peers) --rounds $(ROUNDS) --scale $(SCALE) $(STREAM) $(CLUSTER) --folder $(BENCH_FOLDER); \
	  status=$$?; $(BIN)/python -m bench.rewrite.report && exit $$status

# Sail and its client, on no other program's path (232 MB). Trino is fetched by the bench itself.
$(VENV)/peers/.ready: requirements-peers.lock | setup
	$(BIN)/python -m uv pip install --python $(BIN)/python --target $(VENV)/peers --require-hashes --no-deps -r requirements-peers.lock
	@touch $@

.PHONY: bench-rewrite-report
bench-rewrite-report: setup ## Write bench/results into its README, and the plot
	$(BIN)/python -m bench.rewrite.report

.PHONY: bench-rewrite-tables
bench-rewrite-tables: setup ## Only make the tables of the main parts
	$(BIN)/python -m bench.rewrite.table --folder $(BENCH_FOLDER) main composite

.PHONY: bench-actions
bench-actions: setup ## Actions on whole tables beside Iceberg's own: PART=all|expire|expire_again|orphans|manifests|dangling|sort|statistics, SCALE=x; of sort DAYS=n, COMMITS=n a day
	$(BIN)/python -m bench.actions.run --part $(PART) --scale $(SCALE) $(if $(filter-out file,$(origin DAYS)),--days $(DAYS)) $(if $(COMMITS),--commits $(COMMITS)) --folder $(BENCH_FOLDER)

.PHONY: soak
soak: setup ## Tables under writers at several paces, with Firnline and without; what grows: MINUTES=n (30), TABLES=n (50), STORE=s3|files; WRITERS=engines: Flink, Spark, Kafka Connect, PyIceberg, DuckDB on files
	PYTHONPATH=. $(BIN)/python -m bench.soak.run --folder $(BENCH_FOLDER) $(if $(filter-out file,$(origin MINUTES)),--minutes $(MINUTES)) $(if $(filter-out file,$(origin TABLES)),--tables $(TABLES)) $(if $(STORE),--store $(STORE)) $(if $(WRITERS),--writers $(WRITERS))

DAYS ?= 10
.PHONY: simulate
simulate: TABLES = 1000
simulate: setup ## The policy on a synthetic fleet beside its peers: TABLES=n, DAYS=n, TARGET=mb, SEED=n, SYSTEMS=a,b, SHARD=k/n
	$(BIN)/python -m bench.simulate.run --tables $(TABLES) --days $(DAYS) $(if $(SYSTEMS),--systems $(SYSTEMS)) $(if $(SEED),--seed $(SEED)) $(if $(TARGET),--target $(TARGET)) $(if $(SHARD),--shard $(SHARD))

YEAR_FOLDER ?= bench/results
.PHONY: policy-year
policy-year: setup ## A year of single tables beside its peers: DAYS=n (365), SYSTEMS=a,b, YEAR_FOLDER=... for table and plot
	$(BIN)/python -m bench.simulate.year --folder $(YEAR_FOLDER) $(if $(filter-out file,$(origin DAYS)),--days $(DAYS)) $(if $(TARGET),--target $(TARGET)) $(if $(SYSTEMS),--systems $(SYSTEMS))

.PHONY: policy-minutes
policy-minutes: setup ## Streams of single tables by the minute: DAYS=n (30), SYSTEMS=a,b
	$(BIN)/python -m bench.simulate.year --tick 60 --days $(if $(filter-out file,$(origin DAYS)),$(DAYS),30) $(if $(SYSTEMS),--systems $(SYSTEMS),--systems firnline,firnline_heat,amoro,hourly_convert) --streams

.PHONY: bench-policy
bench-policy: setup ## An accelerated hour on the real stack, beside what the simulator foretells
	$(BIN)/python -m bench.policy.run --folder $(BENCH_FOLDER)

.PHONY: simulate-sweep
simulate-sweep: setup ## Which assumption of the simulator changes its conclusion: TABLES=n, DAYS=n
	$(BIN)/python -m bench.simulate.sweep $(if $(TABLES),--tables $(TABLES)) $(if $(filter-out file,$(origin DAYS)),--days $(DAYS))

.PHONY: simulate-placement
simulate-placement: setup ## Load of the largest planner by the mean, before and after a failure, with tables of Zipf loads: BUCKETS=n, PLANNERS=n,..., TABLES=n
	$(BIN)/python -m bench.simulate.placement $(if $(BUCKETS),--buckets $(BUCKETS)) $(if $(PLANNERS),--planners $(PLANNERS)) $(if $(filter-out file,$(origin TABLES)),--tables $(TABLES))

.PHONY: bench-scale
bench-scale: setup ## 400 waiting tasks on 1, 2 and 4 workers in cgroups, workers and a planner killed: needs root, cgroup v1
	PYTHONPATH=. $(BIN)/python -m bench.scale.run $(if $(filter-out file,$(origin TABLES)),--tables $(TABLES))

.PHONY: bench-fleet
bench-fleet: setup ## A fleet under commits at Zipf paces through two gateways: TABLES=n (2000), MINUTES=n (30), RATE=commits a second (50)
	PYTHONPATH=. $(BIN)/python -m bench.scale.fleet $(if $(filter-out file,$(origin TABLES)),--tables $(TABLES)) $(if $(filter-out file,$(origin MINUTES)),--minutes $(MINUTES)) $(if $(RATE),--per-second $(RATE))

.PHONY: bench-sizing
bench-sizing: setup ## Cores, memory, disk and topic bytes of each service with 100 to 50,000 real tables: 45 min, MOST=tables
	PYTHONPATH=. $(BIN)/python -m bench.scale.sizing $(if $(MOST),--most $(MOST)) $(if $(filter-out file,$(origin MINUTES)),--minutes $(MINUTES))

FLEETS ?= 1000,100000,1000000
DRIVERS ?= kafka,faust
.PHONY: bench-planner
bench-planner: setup ## One planner process on a real broker: FLEETS=tables,... SCALE=x DRIVERS=kafka,faust|none
	$(BIN)/python -m bench.planner.run --tables $(FLEETS) --drivers $(DRIVERS) --scale $(SCALE)
	$(BIN)/python -m bench.planner.report

.PHONY: up
up: setup ## Start the embedded stack in the foreground (Ctrl-C stops it)
	$(BIN)/firnline up

.PHONY: down
down: setup ## Stop an embedded stack
	$(BIN)/firnline down

.PHONY: docs-reference
docs-reference: setup ## Write the tables of docs/reference from the code
	$(BIN)/python -m tests.tools.reference

# The generator's packages stay out of the environment of the code.
$(VENV)/docs/.ready: requirements-docs.lock | setup
	$(BIN)/python -m uv pip install --python $(BIN)/python --target $(VENV)/docs --require-hashes --no-deps -r requirements-docs.lock
	@touch $@

.PHONY: docs
docs: $(VENV)/docs/.ready ## Build the documentation into site/, with strict links
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(VENV)/docs $(BIN)/python -m mkdocs build --strict

.PHONY: clean
clean: ## Remove the environment and all local state
	rm -rf $(VENV) site .firnline .mypy_cache .ruff_cache .import_linter_cache .pytest_cache
