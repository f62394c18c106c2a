#!/bin/sh
# Runs fuzz targets for a time each, several packages side by side: test/fuzz.sh TIME JOBS
# An input that crashes a target is written below testdata of its package, and fails the run.
set -eu
export FUZZTIME=${1:?the time for each target, such as 30s} FUZZJOBS=${2:?how many packages run at once}

# run_target PROGRAM CACHE PACKAGE TARGET runs one target in the folder of its package.
run_target() {
  # Targets whose inputs are large would use up their time with making them smaller.
  if out=$("$1" -test.run '^$' -test.fuzz "^$4\$" -test.fuzzcachedir "$2" -test.fuzztime "$FUZZTIME" \
    -test.fuzzminimizetime 10x -test.parallel 1 2>&1); then
    # The compiler's option for instrumentation is not documented.
    if printf '%s\n' "$out" | grep -q 'not built with coverage'; then
      printf '%s %s: FAILED: the program is not instrumented\n' "$3" "$4"
      return 1
    fi
    printf '%s %s: %s\n' "$3" "$4" "$(printf '%s\n' "$out" | grep '^fuzz: elapsed' | tail -n 1)"
    return
  fi
  # The time may end while an input runs, which is a failure without an input.
  if printf '%s\n' "$out" | grep -q 'context deadline exceeded' && ! printf '%s\n' "$out" | grep -q 'Failing input'; then
    printf '%s %s: ended in the middle of an input\n' "$3" "$4"
    return
  fi
  printf '%s %s: FAILED\n%s\n' "$3" "$4" "$out"
  return 1
}

# run_package PACKAGE builds the instrumented program of a package once, and runs its targets in it. Only our own code is
# instrumented: go test -fuzz also compiles all of its dependencies again, which takes minutes, and slows their code.
run_package() {
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  go test -c -vet=off -ldflags='-s -w' -gcflags="$(go list -m)/...=-d=libfuzzer" -o "$folder/program" "./$1"
  targets=$(grep -ho '^func Fuzz[A-Za-z0-9]*' "$1"/*_test.go | sed 's|^func ||' | sort -u)
  # Inputs that reach new code are kept for the next run.
  cache=$(go env GOCACHE)/fuzz/$(go list "./$1")
  mkdir -p "$cache"
  cd "$1"
  code=0
  for target in $targets; do
    run_target "$folder/program" "$cache" "$1" "$target" || code=1
  done
  return $code
}

if [ $# = 3 ]; then run_package "$3"; exit; fi
grep -rl --include='*_test.go' '^func Fuzz' internal | xargs -n 1 dirname | sort -u |
  xargs -P "$FUZZJOBS" -n 1 "$0" "$FUZZTIME" "$FUZZJOBS"
