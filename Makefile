# Every target is `python3 tools/setup.py TARGET`, which also works without make.
PYTHON ?= python3
TARGETS := setup demo test quick lint soak bench bench-quick compiled lock clean

# Words for the target: make test SUITES=unit, make bench BENCH=forest, make soak SOAK="forest --cases 1000"
test: WORDS = $(SUITES)
bench: WORDS = $(BENCH)
bench-quick: WORDS = $(BENCH)
soak: WORDS = $(SOAK)
lock: WORDS = $(LOCK)

.PHONY: $(TARGETS)
.DEFAULT_GOAL := setup

$(TARGETS):
	@$(PYTHON) tools/setup.py $@ $(WORDS)
