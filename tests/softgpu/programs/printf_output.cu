// printf in kernels: conversions, widths, many arguments, %s, %%, return values; the text is read
// back through a pipe in the order that one thread wrote it.
#include "check.cuh"

#include <string>

__global__ void one_thread(int *returned)
{
    char c = 'x';
    short h = -7;
    unsigned long long big = 0xfedcba9876543210ull;
    returned[0] = printf("plain\n");
    returned[1] = printf("%d %5d|%-5d|%05d %+d\n", 42, 42, 42, 42, 42);
    returned[2] = printf("%u %x %X %#o %lld %llx\n", 4000000000u, 255, 255, 8, -5ll, big);
    returned[3] = printf("%f %.3f %8.2e %g %a\n", 1.5f, 2.0 / 3, 12345.678, 1e-10, 0.5);
    returned[4] = printf("%c %s %.2s %% %hd %i\n", c, "text", "cut", h, -1);
    printf("%*d\n", 6, 9);
    returned[5] = printf("%p %ld\n", (void *)0x12345, -3l);
    returned[6] =
        printf("%d %d %d %d %d %d %d %d %d %d %d %d\n", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
}

__global__ void all_threads()
{
    printf("b%d t%d\n", (int)blockIdx.x, (int)threadIdx.x);
}

static std::string captured(void (*run)(void))
{
    int ends[2], saved = dup(1);
    fflush(stdout);
    if (saved < 0 || pipe(ends) || dup2(ends[1], 1) < 0)
        fail("cannot redirect stdout");
    run();
    fflush(stdout);
    dup2(saved, 1);
    close(ends[1]);
    close(saved);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, (size_t)n);
    close(ends[0]);
    return text;
}

static void run_one()
{
    dev<int> returned(7);
    one_thread<<<1, 1>>>(returned.p);
    SYNC();
    expect_equal("return values", returned.host(), {0, 5, 6, 5, 5, 2, 12});
}

static void run_all()
{
    all_threads<<<3, 40>>>();
    SYNC();
}

int main()
{
    std::string want = "plain\n"
                       "42    42|42   |00042 +42\n"
                       "4000000000 ff FF 010 -5 fedcba9876543210\n"
                       "1.500000 0.667 1.23e+04 1e-10 0x1p-1\n"
                       "x text cu % -7 -1\n"
                       "     9\n"
                       "0x12345 -3\n"
                       "1 2 3 4 5 6 7 8 9 10 11 12\n";
    std::string got = captured(run_one);
    if (got != want)
        fail("printf wrote\n%s", got.c_str());
    got = captured(run_all);
    std::vector<int> lines(3 * 40), once(3 * 40, 1);
    const char *p = got.c_str();
    for (int b, t, used; sscanf(p, "b%d t%d\n%n", &b, &t, &used) == 2; p += used)
        if (b >= 0 && b < 3 && t >= 0 && t < 40)
            lines[b * 40 + t]++;
    expect_equal("lines", lines, once);
    return ok("printf: 8 lines word for word, 120 lines of as many threads");
}
