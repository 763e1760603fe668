/* check.h - a C test framework of one page: CHECK(condition) reports, RUN(test) names. */
#ifndef CHECK_H
#define CHECK_H

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

#endif
