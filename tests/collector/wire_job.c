/*
 * A job that speaks the wire by hand, with a device that is behind it:
 *   wire_job PROCESSES LAUNCHES STAMPED
 * Each process writes LAUNCHES events whose fingerprints are still to come, then STAMPED of them,
 * those with the lowest tickets but not in their order, and kills itself.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fingerprint/fingerprint.h"
#include "tests/collector/producer.h"

static uint64_t nonce;

/* One message, and for HELLO its reply. */
static void say(uint32_t kind, uint32_t thread, int fd)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct tb_wire_msg m = {.magic = TB_WIRE_MAGIC,
                            .version = TB_WIRE_VERSION,
                            .size = sizeof(m),
                            .kind = kind,
                            .nonce = nonce,
                            .pid = getpid(),
                            .thread = thread};
    struct iovec iov = {&m, sizeof(m)};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    struct tb_wire_reply reply;
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof(to.sun_path), "%s", getenv(TB_WIRE_ENV));
    if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof(to)) != 0)
        exit(85);
    if (fd >= 0) {
        h.msg_control = &control;
        h.msg_controllen = sizeof(control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &fd, sizeof(int));
    }
    if (sendmsg(s, &h, 0) != (ssize_t)sizeof(m))
        exit(86);
    if (kind == TB_MSG_HELLO &&
        (recv(s, &reply, sizeof(reply), 0) != (ssize_t)sizeof(reply) || reply.status != 0))
        exit(87);
    close(s);
}

static void run(uint64_t launches, uint64_t stamped)
{
    static const char text[] = "cuda\nfill\tgrid=1,1,1\tblock=64,1,1\nw f32 cuda:0 [64] - out\n";
    struct producer p;
    struct device d;

    producer_open(&p, nonce, 0, 65536);
    device_open(&d, nonce, 1, 65536);
    say(TB_MSG_HELLO, 0, -1);
    say(TB_MSG_RING, 0, p.fd);
    say(TB_MSG_SLOTS, 1, d.fd);
    uint32_t site = producer_site(&p, text);
    for (uint64_t i = 0; i < launches; i++) {
        struct tb_wire_access a = {
            .alloc = 1 | (uint64_t)TB_FP_BYTES << 48 | TB_ACCESS_PENDING, .fp_a = i, .fp_b = 1};
        producer_event(&p,
                       (struct tb_wire_event){
                           .kind = TB_EV_LAUNCH, .seq = i, .open = i, .site = site, .args = i},
                       &a, 1);
    }
    for (uint64_t i = 0, k = 0; i < 65536; i++, k = (k * 5 + 3) % 65536)
        if (k < stamped)
            device_stamp(&d, k, k, nonce);
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    unsigned processes = argc == 4 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;

    if (!processes)
        return 88;
    for (unsigned k = 1; k <= processes; k++) {
        pid_t pid = k < processes ? fork() : 0;
        if (pid < 0)
            return 89;
        if (pid)
            continue;
        nonce = 1000 + k;
        if (k == processes)
            while (wait(NULL) > 0)
                ;
        run(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    }
    return 90;
}
