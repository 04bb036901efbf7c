# Sourced with $build set: the libraries of that build come first for programs started afterwards.
# build=none: those of the system, that is, a real GPU.
if [ "$build" != none ]; then
    lib=$build/softgpu/lib
    if [ ! -e "$lib/libcuda.so.1" ] || ! ls "$lib"/libcudart.so.1? >/dev/null 2>&1; then
        echo "skipped: no libcuda.so.1 and libcudart.so in $lib"
        exit 77
    fi
    export LD_LIBRARY_PATH=$lib
    sanitizer=$(ldd "$lib/libcuda.so.1" | grep -oE 'lib[at]san\.so\.[0-9]+' | head -n 1)
    case $sanitizer in
    libasan*)
        # The program itself is not instrumented: the sanitizer must come first, and what a faulting
        # program leaves behind is no leak of the libraries.
        preload=$(gcc -print-file-name="$sanitizer"):$(gcc -print-file-name=libubsan.so)
        export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 UBSAN_OPTIONS=halt_on_error=1
        ;;
    libtsan*)
        echo "skipped: programs that are not built with TSan cannot run below it"
        exit 77
        ;;
    esac
fi

# run_seeded SEED COMMAND... - within a minute, under that seed; its exit status
run_seeded() {
    local seed=$1
    shift
    env ${preload:+LD_PRELOAD="$preload"} SOFTGPU_SEED="$seed" timeout "${SOFTGPU_TEST_TIMEOUT:-60}" "$@"
}
