#!/bin/sh
# Runs fuzz targets for a time each, several side by side: test/fuzz.sh TIME JOBS
# What crashes a target is written below its package's testdata, and fails the run.
set -eu
export FUZZTIME=${1:?the time for each target, such as 30s} FUZZJOBS=${2:?how many targets run at once}

one() {
  # Targets whose inputs are large would use up their time with making them smaller.
  if out=$(go test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" -fuzzminimizetime 10x -parallel 1 "./$1" 2>&1); then
    printf '%s %s: %s\n' "$1" "$2" "$(printf '%s\n' "$out" | grep '^fuzz: elapsed' | tail -n 1)"
    return
  fi
  # The end of the time may come while an input runs, which go test calls a failure
  # without an input.
  if printf '%s\n' "$out" | grep -q 'context deadline exceeded' && ! printf '%s\n' "$out" | grep -q 'Failing input'; then
    printf '%s %s: ended in the middle of an input\n' "$1" "$2"
    return
  fi
  printf '%s %s: FAILED\n%s\n' "$1" "$2" "$out"
  return 1
}

if [ $# = 4 ]; then one "$3" "$4"; exit; fi
grep -rH --include='*_test.go' -o '^func Fuzz[A-Za-z0-9]*' internal |
  sed 's|/[^/]*:func | |' | sort -u |
  xargs -P "$FUZZJOBS" -L 1 "$0" "$FUZZTIME" "$FUZZJOBS"
