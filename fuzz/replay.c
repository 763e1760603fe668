/*
 * replay.c - runs a fuzz target without libFuzzer: on the files given, then on `count` random
 * inputs.
 *
 *     replay_TARGET COUNT SEED FILE...
 */
#include "input.h"

int main(int argc, char **argv)
{
    enum { MOST = 1 << 14 };
    static uint8_t bytes[MOST];
    if (argc < 3) {
        fprintf(stderr, "usage: %s COUNT SEED FILE...\n", argv[0]);
        return 2;
    }
    const long long count = atoll(argv[1]);
    for (int f = 3; f < argc; f++) {
        FILE *file = fopen(argv[f], "rb");
        if (!file) {
            perror(argv[f]);
            return 1;
        }
        const size_t size = fread(bytes, 1, MOST, file);
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, size);
    }
    uint64_t generator = strtoull(argv[2], NULL, 0);
    for (long long k = 0; k < count; k++) {
        const size_t size = (size_t)pegasos_bounded_random(&generator, 2048);
        for (size_t j = 0; j < size; j++)
            bytes[j] = (uint8_t)pegasos_bounded_random(&generator, 256);
        LLVMFuzzerTestOneInput(bytes, size);
    }
    printf("%d files and %lld random inputs\n", argc - 3, count);
    return 0;
}
