// Byte work: substring search, CRC-32 by table and by bits, SHA-256 of many messages with its
// published answers, base64, a hash table with open addressing.
#include "check.cuh"

#include <algorithm>
#include <string>

__constant__ uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ uint32_t rotr(uint32_t x, int n)
{
    return __funnelshift_r(x, x, n);
}

/* one message of at most 55 bytes a thread */
__global__ void sha256(uint32_t *out, const uint8_t *text, const int *length)
{
    uint32_t w[64], s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                    v[8];
    const uint8_t *p = text + threadIdx.x * 64;
    int n = length[threadIdx.x];
    for (int i = 0; i < 16; i++) {
        w[i] = 0;
        for (int k = 0; k < 4; k++) {
            int at = i * 4 + k;
            w[i] = w[i] << 8 | (at < n ? p[at] : at == n ? 0x80 : 0);
        }
    }
    w[15] = (uint32_t)n * 8;
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[i - 7] +
               (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 8; i++)
        v[i] = s[i];
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t1 = v[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                      K[i] + w[i];
        uint32_t t2 =
            (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        for (int k = 7; k > 0; k--)
            v[k] = v[k - 1];
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        out[threadIdx.x * 8 + i] = s[i] + v[i];
}

__host__ __device__ uint32_t crc_bits(const uint8_t *p, int n)
{
    uint32_t c = ~0u;
    for (int i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (0xedb88320u & (0 - (c & 1)));
    }
    return ~c;
}

__global__ void crc_table(uint32_t *out, const uint8_t *text, int piece)
{
    __shared__ uint32_t table[256];
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[i] = c;
    }
    __syncthreads();
    const uint8_t *p = text + threadIdx.x * piece;
    uint32_t c = ~0u;
    for (int i = 0; i < piece; i++)
        c = table[(uint8_t)c ^ p[i]] ^ c >> 8;
    out[threadIdx.x] = ~c;
}

__global__ void find_all(int *found, int *count, const char *text, int n, const char *what, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i + m > n)
        return;
    while (k < m && text[i + k] == what[k])
        k++;
    if (k == m)
        found[atomicAdd(count, 1)] = i;
}

__global__ void base64(char *out, const uint8_t *in, int groups)
{
    const char *digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups)
        return;
    uint32_t w = in[3 * i] << 16 | in[3 * i + 1] << 8 | in[3 * i + 2];
    for (int k = 0; k < 4; k++)
        out[4 * i + k] = digits[w >> (18 - 6 * k) & 63];
}

/* counts of words in a table with linear probing; 0 is an empty place */
__global__ void count_words(unsigned long long *keys, unsigned *counts, unsigned mask,
                            const uint64_t *words, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    for (unsigned at = (unsigned)(words[i] * 0x9e3779b97f4a7c15ull >> 40);; at++) {
        unsigned long long was = atomicCAS(&keys[at & mask], 0ull, (unsigned long long)words[i]);
        if (was == 0 || was == words[i]) {
            atomicAdd(&counts[at & mask], 1u);
            return;
        }
    }
}

static void hashes()
{
    const char *messages[3] = {"abc", "", "The quick brown fox jumps over the lazy dog"};
    const uint32_t want[3][2] = {
        {0xba7816bf, 0xf20015ad}, {0xe3b0c442, 0x7852b855}, {0xd7a8fbb3, 0x37c9e592}};
    std::vector<uint8_t> text(3 * 64);
    std::vector<int> length(3);
    for (int i = 0; i < 3; i++) {
        length[i] = (int)strlen(messages[i]);
        memcpy(&text[i * 64], messages[i], length[i]);
    }
    dev<uint8_t> d(text);
    dev<int> dl(length);
    dev<uint32_t> out(24);
    sha256<<<1, 3>>>(out.p, d.p, dl.p);
    SYNC();
    auto got = out.host();
    for (int i = 0; i < 3; i++)
        if (got[i * 8] != want[i][0] || got[i * 8 + 7] != want[i][1])
            fail("sha256 of '%s': %08x...%08x", messages[i], got[i * 8], got[i * 8 + 7]);
}

int main()
{
    hashes();
    const int pieces = 64, piece = 45, n = pieces * piece;
    auto bytes = random_ints<uint8_t>(n, 591, 'a', 'd');
    dev<uint8_t> d(bytes);
    dev<uint32_t> crc(pieces);
    crc_table<<<1, pieces>>>(crc.p, d.p, piece);
    std::vector<uint32_t> want(pieces);
    for (int i = 0; i < pieces; i++)
        want[i] = crc_bits(&bytes[i * piece], piece);
    expect_value("crc of 123456789", crc_bits((const uint8_t *)"123456789", 9), 0xcbf43926u);
    expect_equal("crc", crc.host(), want);

    std::string text(bytes.begin(), bytes.end()), what = "abca";
    dev<char> dwhat(std::vector<char>(what.begin(), what.end())), coded(n / 3 * 4);
    dev<int> found(n), count(1);
    find_all<<<blocks_for(n, 128), 128>>>(found.p, count.p, (const char *)d.p, n, dwhat.p, 4);
    base64<<<blocks_for(n / 3, 64), 64>>>(coded.p, d.p, n / 3);
    SYNC();
    std::vector<int> places, got = found.host();
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        places.push_back((int)at);
    got.resize(count.host()[0]);
    std::sort(got.begin(), got.end());
    expect_equal("found", got, places);
    auto c = coded.host();
    auto value = [](char x) {
        return x >= 'a'   ? x - 'a' + 26
               : x >= 'A' ? x - 'A'
               : x >= '0' ? x - '0' + 52
               : x == '+' ? 62
                          : 63;
    };
    for (int i = 0; i < n; i++) {
        int w = 0;
        for (int k = 0; k < 4; k++)
            w = w << 6 | value(c[i / 3 * 4 + k]);
        if ((uint8_t)(w >> (16 - i % 3 * 8)) != bytes[i])
            fail("base64 of byte %d", i);
    }

    auto words = random_ints<uint64_t>(3000, 592, 1, 200);
    for (auto &w : words)
        w *= 0x100000001ull;
    dev<uint64_t> dwords(words);
    dev<unsigned long long> keys(1024);
    dev<unsigned> counts(1024);
    count_words<<<blocks_for(3000, 96), 96>>>(keys.p, counts.p, 1023, dwords.p, 3000);
    SYNC();
    auto k = keys.host();
    auto many = counts.host();
    unsigned total = 0;
    for (int i = 0; i < 1024; i++) {
        unsigned times = (unsigned)std::count(words.begin(), words.end(), (uint64_t)k[i]);
        if (many[i] != (k[i] ? times : 0) || (k[i] && std::count(k.begin(), k.end(), k[i]) != 1))
            fail("key %llu counted %u times instead of %u", k[i], many[i], times);
        total += many[i];
    }
    expect_value("total", total, 3000u);
    return ok("bytes: sha256, crc, search, base64, hash table");
}
