#!/bin/sh
# Runs the tests on a GPU. A test that finds none fails, and so does a run in which no test ran.
#   run.sh [FILTER]           the tests whose names contain FILTER, "cuda" if there is none
#   run.sh shuffle [ARGUMENT]... the suite of every op in one process, in the orders of ten seeds
#   run.sh python [ARGUMENT]...  the tests of the Python package, with pytest
#   run.sh sanitize [FILTER]  every kernel under compute-sanitizer: memcheck, racecheck, initcheck and synccheck, on
#                             the few cases that launch all kernels; FILTER chooses ops: "softmax"
# Logs go to $OUT, or beside this file.
set -u
cd "$(dirname "$0")" || exit 1
out="${OUT:-$PWD}"

prepare() {
    # CUDA's libraries, where they came as Python packages.
    packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null)
    for folder in "$packages"/nvidia/*/lib /usr/local/cuda/lib64; do
        [ -d "$folder" ] && LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
    done
    export LD_LIBRARY_PATH
    export LANDFALL_REQUIRE_CUDA=1
    export LANDFALL_CACHE="${LANDFALL_CACHE:-$PWD/cache}"
    [ -d shared ] && export LANDFALL_SHARED="$PWD/shared"
    if [ -f programs.tar.xz ]; then
        tar xf programs.tar.xz || exit 1
        rm programs.tar.xz
    fi
}

# The number of tests that passed, from the harness's own lines.
passed() {
    sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed.*/\1/p' "$1" | awk '{n += $1} END {print n + 0}'
}

tests() {
    log="$out/gpu-tests.log"
    : >"$log"
    failed=0
    for test in tests/*; do
        [ -d "$test" ] && continue
        echo "== $test" >>"$log"
        "$test" "$1" --show-output >>"$log" 2>&1 || failed=1
    done
    grep -E '^(test .*FAILED|test result:|error|thread .* panicked)' "$log"
    echo "GPU tests passed: $(passed "$log") (log: $log)"
    [ "$(passed "$log")" -gt 0 ] && [ "$failed" -eq 0 ]
}

# One process of the sanitizer: a tool and the tests for it. Its log ends with a line that says how it ended.
part() {
    tool=$1
    shift
    # Of the inputs of a graph it sees a copy from the host as never made, now and then; of single launches it does not.
    [ "$tool" = initcheck ] && export LANDFALL_CUDA_GRAPH=0
    # A part is a process of its own.
    log="$parts/$tool.$$"
    # Every process listens on a port of its own; where all cores are busy, it is long until the first connects.
    timeout "$part_limit" "$sanitizer" --tool "$tool" --error-exitcode 9 --max-connections 256 --launch-timeout 120 \
        --report-api-errors explicit --show-backtrace device --target-processes application-only \
        tests/suite --exact "$@" --test-threads 1 --show-output >"$log" 2>&1
    echo "part ended with $?: $*" >>"$log"
}

sanitize() {
    export LANDFALL_SAMPLES=few
    # Memory piece by piece: bounds and age of each tensor are then known to the sanitizer.
    export LANDFALL_CUDA_POOL=0
    # So is each value of a program.
    export LANDFALL_REUSE=nothing
    sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    "$sanitizer" --version >/dev/null || {
        echo "no compute-sanitizer: install the CUDA toolkit, or have its folder in PATH"
        return 1
    }
    parts=$(mktemp -d) || return 1
    part_limit=400
    export sanitizer parts part_limit
    list=$(tests/suite --list --format terse cuda::parity cuda::guards cuda::recorded | sed -n 's/: test$//p' | grep -F -- "$1")
    wanted=$(printf '%s' "$list" | grep -c .)
    [ "$wanted" -gt 0 ] || {
        echo "no test has \"$1\" in its name"
        return 1
    }
    # Without the sanitizer first: a test that fails by itself is told apart, and kernels are compiled once.
    plain="$out/sanitize-plain.log"
    # shellcheck disable=SC2086 # names of tests have no spaces
    tests/suite --exact $list >"$plain" 2>&1 || {
        grep -E '^(test .*FAILED|test result:)' "$plain"
        echo "tests fail without the sanitizer (log: $plain)"
        return 1
    }
    for tool in memcheck racecheck initcheck synccheck; do
        echo "$list" | xargs -n 6 echo "$tool"
    done | xargs -P "$(nproc)" -L 1 sh ./run.sh part
    failed=0
    for tool in memcheck racecheck initcheck synccheck; do
        log="$out/sanitize-$tool.log"
        cat "$parts/$tool".* >"$log"
        bad=$(grep '^part ended with' "$log" | grep -vc '^part ended with 0:')
        echo "== $tool: $(passed "$log") of $wanted tests passed, $bad parts with errors (log: $log)"
        sed -n 's/^=* *\(.*SUMMARY: .*\)/\1/p' "$log" | sort | uniq -c
        [ "$(passed "$log")" -eq "$wanted" ] && [ "$bad" -eq 0 ] || failed=1
    done
    rm -r "$parts"
    return "$failed"
}

case "${1:-}" in
part)
    shift
    part "$@"
    ;;
shuffle)
    prepare
    shift
    tests/suite --seeds 10 "$@" 2>&1 | tee "$out/gpu-shuffle.log" | grep -E '^(seed|test result:)'
    ! grep -q 'test result: FAILED' "$out/gpu-shuffle.log" && grep -q 'test result: ok' "$out/gpu-shuffle.log"
    ;;
python)
    prepare
    shift
    PYTHONPATH="$PWD/tests/python${PYTHONPATH:+:$PYTHONPATH}" python3 -m pytest -p no:cacheprovider tests/python/tests "$@" >"$out/python.log" 2>&1
    ended=$?
    grep -E '^(FAILED|ERROR|SKIPPED|[0-9]+ |=.* (passed|failed|error))' "$out/python.log"
    exit "$ended"
    ;;
sanitize)
    prepare
    sanitize "${2:-}"
    ;;
*)
    prepare
    tests "${1:-cuda}"
    ;;
esac
