/*
 * Requests for what the kernels of an image do. A thread reads the images and analyses them, one
 * after the other; results are kept by the content, for the same image comes from every process of
 * a job. The server's thread asks, and is woken by an event when an answer is there.
 */
#include "collector/collector_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fingerprint/fingerprint.h"
#include "kernelinfo/kernelinfo.h"

#define MOST_IMAGE ((off_t)1 << 30)
#define MOST_KEPT ((size_t)64 << 20)

/* What is known of one image; shared by requests and the list of what is kept. */
struct result {
    struct result *next;
    struct tb_fp_leaf hash;
    uint64_t bytes; /* of the image */
    void *table;    /* NULL: @why not */
    size_t size;
    char why[TB_ERROR_TEXT];
};

struct request {
    struct request *next;
    uint64_t ticket;
    int fd; /* the image */
    bool done;
    int answer_fd; /* the table */
    char why[TB_ERROR_TEXT];
};

struct tb_images {
    pthread_mutex_t lock;
    pthread_cond_t wanted;
    pthread_t thread;
    bool running, closing;
    int event, cancel;
    uint64_t tickets;
    struct request *requests; /* in order */
    struct result *kept;      /* newest first; the thread's own */
};

/* ---------------------------------------------------------------- the thread */

/* All of the image, as memory of our own: its sender may still write to it, or cut it. */
static void *read_image(int fd, size_t *n, struct result *r)
{
    struct stat st;
    char *p = NULL;
    size_t at = 0;
    ssize_t got = 1;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > MOST_IMAGE) {
        (void)snprintf(r->why, sizeof(r->why), "an image of no or too many bytes");
        return NULL;
    }
    p = malloc((size_t)st.st_size);
    while (p && at < (size_t)st.st_size && got > 0) {
        got = pread(fd, p + at, (size_t)st.st_size - at, (off_t)at);
        at += got > 0 ? (size_t)got : 0;
    }
    if (!p)
        (void)snprintf(r->why, sizeof(r->why), "no memory for an image");
    *n = at;
    return p;
}

static void drop(struct result *r)
{
    free(r->table);
    free(r);
}

static void forget_old(struct tb_images *s)
{
    struct result **at = &s->kept;
    size_t sum = 0;

    while (*at) {
        struct result *r = *at;

        sum += r->size + sizeof(*r);
        if (sum <= MOST_KEPT || r == s->kept) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        drop(r);
    }
}

/* The result for the image in @fd, found or made; owned by the list. NULL: no memory */
static const struct result *result_of(struct tb_images *s, int fd)
{
    struct result *r = calloc(1, sizeof(*r));
    struct tb_error err = {0};
    size_t n = 0;
    void *image;

    if (!r)
        return NULL;
    image = read_image(fd, &n, r);
    if (image) {
        r->hash = tb_fp_leaf_hash(image, n);
        r->bytes = n;
    }
    for (struct result *k = s->kept; image && k; k = k->next)
        if (k->bytes == n && k->hash.lo == r->hash.lo && k->hash.hi == r->hash.hi) {
            free(image);
            drop(r);
            return k;
        }
    if (image && tb_kernelinfo_until(image, n, &s->cancel, &r->table, &r->size, &err) != TB_OK)
        (void)snprintf(r->why, sizeof(r->why), "%s", err.text);
    free(image);
    r->next = s->kept;
    s->kept = r;
    forget_old(s);
    return r;
}

/* The table in a memfd that nobody can change. */
static int seal(const struct result *r)
{
    const char *p = r->table;
    size_t at = 0;
    ssize_t put = 1;
    int fd = memfd_create("twinbit-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    while (fd >= 0 && at < r->size && put > 0) {
        put = write(fd, p + at, r->size - at);
        at += put > 0 ? (size_t)put : 0;
    }
    if (fd >= 0 && at == r->size &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static void answer(struct tb_images *s, int fd, struct request *to)
{
    const struct result *r = result_of(s, fd);

    if (r && r->table && (to->answer_fd = seal(r)) >= 0)
        return;
    (void)snprintf(to->why, sizeof(to->why), "%s",
                   r && !r->table ? r->why : "no memory for the answer");
}

static struct request *first_open(struct tb_images *s)
{
    struct request *r = s->requests;

    while (r && r->done)
        r = r->next;
    return r;
}

/* Only this thread marks requests done, and only done ones are taken away. */
static void *work(void *arg)
{
    struct tb_images *s = arg;
    struct request *r;

    (void)pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        r = first_open(s);
        if (!r) {
            (void)pthread_cond_wait(&s->wanted, &s->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&s->lock);
        answer(s, r->fd, r);
        (void)pthread_mutex_lock(&s->lock);
        r->done = true;
        (void)eventfd_write(s->event, 1);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---------------------------------------------------------------- the server's side */

enum tb_status tb_images_open(struct tb_images **out, struct tb_error *err)
{
    struct tb_images *s = calloc(1, sizeof(*s));

    if (!s)
        return tb_fail(err, TB_ERR_NOMEM, "no memory for the collector");
    s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->event < 0) {
        free(s);
        return tb_fail_sys(err, TB_ERR_SYS, errno, "cannot make an eventfd");
    }
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->wanted, NULL);
    *out = s;
    return TB_OK;
}

int tb_images_event(const struct tb_images *s)
{
    return s->event;
}

bool tb_images_ready(struct tb_images *s)
{
    eventfd_t value;

    return eventfd_read(s->event, &value) == 0;
}

uint64_t tb_images_ask(struct tb_images *s, int fd)
{
    struct request *r = calloc(1, sizeof(*r)), **end = &s->requests;
    uint64_t ticket = 0;

    if (r && !s->running)
        s->running = pthread_create(&s->thread, NULL, work, s) == 0;
    if (!r || !s->running) {
        free(r);
        (void)close(fd);
        return 0;
    }
    *r = (struct request){.fd = fd, .answer_fd = -1};
    (void)pthread_mutex_lock(&s->lock);
    r->ticket = ticket = ++s->tickets;
    while (*end)
        end = &(*end)->next;
    *end = r;
    (void)pthread_cond_signal(&s->wanted);
    (void)pthread_mutex_unlock(&s->lock);
    return ticket;
}

static void free_request(struct request *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    if (r->answer_fd >= 0)
        (void)close(r->answer_fd);
    free(r);
}

bool tb_images_answer(struct tb_images *s, uint64_t ticket, int *fd, char *why, size_t n)
{
    struct request **at = &s->requests, *r;
    bool done;

    (void)pthread_mutex_lock(&s->lock);
    while (*at && (*at)->ticket != ticket)
        at = &(*at)->next;
    r = *at;
    done = !r || r->done;
    if (r && done)
        *at = r->next;
    (void)pthread_mutex_unlock(&s->lock);
    if (!done)
        return false;
    *fd = r ? r->answer_fd : -1;
    (void)snprintf(why, n, "%s", r ? r->why : "no such request");
    if (r) {
        r->answer_fd = -1;
        free_request(r);
    }
    return true;
}

void tb_images_close(struct tb_images *s)
{
    if (!s)
        return;
    __atomic_store_n(&s->cancel, 1, __ATOMIC_RELAXED);
    (void)pthread_mutex_lock(&s->lock);
    s->closing = true;
    (void)pthread_cond_signal(&s->wanted);
    (void)pthread_mutex_unlock(&s->lock);
    if (s->running)
        (void)pthread_join(s->thread, NULL);
    while (s->requests) {
        struct request *r = s->requests;

        s->requests = r->next;
        free_request(r);
    }
    while (s->kept) {
        struct result *r = s->kept;

        s->kept = r->next;
        drop(r);
    }
    (void)close(s->event);
    (void)pthread_cond_destroy(&s->wanted);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}
