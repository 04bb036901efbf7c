# Programs that the preloaded library is not in (static, environment cut, set-user-id) are named, with how often.
need_program gcc
run() { "$TWINBIT" run --force -o t.twinbit "$@"; }

cat >draw.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    unsigned char b[32];
    int fd = open("/dev/urandom", O_RDONLY);
    if (getrandom(b, 16, 0) != 16 || read(fd, b + 16, 16) != 16)
        return 1;
    for (int i = 0; i < 32; i++)
        printf("%02x", b[i]);
    puts("");
    usleep(argc > 1 ? 1000 * atoi(argv[1]) : 0);
    return 0;
}
END
gcc draw.c -o dynamic
gcc -static draw.c -o static || skip "no static libc"

# the job itself; what it draws is real
expect 0 run --pin strict -- ./static
cp out first
matches err "pins: not in '.*/static' \(1 time\): its entropy, order of folders and temporary names are real: statically linked"
expect 0 run --pin observe -- ./static
cmp -s out first && fail "it is pinned"
contains err "pins: not in '"
expect 0 "$TWINBIT" show t.twinbit pins
matches out "^unseen +system.entropy .*observed nothing: statically linked .*\[.*/static\]"

# children, told by who executes them, however short they live
expect 0 run --pin strict -- sh -c './static; ./static; env -i ./dynamic; ./dynamic; exec ./dynamic'
matches err "pins: not in '.*/static' \(2 times\): .*: statically linked"
matches err "pins: not in '.*/dynamic' \(1 time\): .*: LD_PRELOAD or TWINBIT_PINS is not in its environment"
expect 0 "$TWINBIT" show t.twinbit coverage
matches out "2x pins: .*/static: its entropy, order of folders and temporary names are not pinned: statically linked"
matches out "1x pins: .*/dynamic: "
"$TWINBIT" show t.twinbit pins | grep -E "^held +system.entropy .*\[dynamic\]" >pin || fail "the others are not held"

# grandchildren of such a child: seen, if they live a while
cp dynamic other
expect 0 run --pin strict -- env -i sh -c './other 1200; true'
matches err "pins: not in '.*/other' \(1 time\): .*: libtwinbit_pins is not in it"

# another user's rights: the loader ignores the library
if [ "$(id -u)" = 0 ]; then
    cp dynamic setuid
    chown 65534 setuid && chmod 4755 setuid
    expect 0 run --pin strict -- sh -c './setuid; true'
    matches err "pins: not in '.*/setuid' \(1 time\): .*: set-user-id, set-group-id or with capabilities"
fi

# nothing to say: no pins are asked for, or all are reached, scripts and their loader as well
expect 0 run -- ./static
lacks err "pins: not in"
printf '#!/bin/sh\n./dynamic\n' >script && chmod +x script
cp static ldconfig # draws nothing, as is known of its namesake
expect 0 run --pin strict -- sh -c './script; ./ldconfig; sleep 0.6 & wait'
lacks err "pins: not in"
