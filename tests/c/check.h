/* check.h - a C test framework of one page: CHECK(condition) reports, RUN(test) names tests. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

static int checks_made, checks_failed;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        checks_made++;                                                                             \
        if (!(condition)) {                                                                        \
            checks_failed++;                                                                       \
            printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                         \
        }                                                                                          \
    } while (0)

#define RUN(test)                                                                                  \
    do {                                                                                           \
        const int before = checks_failed;                                                          \
        test();                                                                                    \
        printf("%s %s\n", checks_failed == before ? "ok    " : "FAILED", #test);                   \
    } while (0)

#define REPORT() (printf("%d checks, %d failed\n", checks_made, checks_failed), checks_failed != 0)

/* A digest of bits, which starts with FNV1A, and a file for it. */
#define FNV1A UINT64_C(0xcbf29ce484222325)

static inline uint64_t fnv1a(uint64_t digest, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        digest = (digest ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return digest;
}

static inline int write_hex(const char *path, uint64_t digest)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return 1;
    fprintf(file, "%016llx\n", (unsigned long long)digest);
    return fclose(file);
}

#endif
