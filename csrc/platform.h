/*
 * platform.h - the one place that knows compilers and instruction sets.
 */
#ifndef PEGASOS_PLATFORM_H
#define PEGASOS_PLATFORM_H

#include <stdint.h> /* which defines __GLIBC__ with glibc */

/* No fused multiply-adds, for equal bits. gcc has only a flag for this: see CMakeLists.txt. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

#if defined(__GNUC__)
#define INLINE                inline __attribute__((always_inline))
#define PREFETCH(address)     __builtin_prefetch(address)
#define PREFETCH_FAR(address) __builtin_prefetch(address, 0, 2) /* not into the first cache */
#define MAYBE_UNUSED          __attribute__((unused))
#elif defined(_MSC_VER)
#define INLINE                __forceinline
#define PREFETCH(address)     ((void)(address))
#define PREFETCH_FAR(address) ((void)(address))
#define MAYBE_UNUSED
#else
#define INLINE                inline
#define PREFETCH(address)     ((void)(address))
#define PREFETCH_FAR(address) ((void)(address))
#define MAYBE_UNUSED
#endif

/* name_suffix, where the suffix is a macro: bodies included once per type have a name for each. */
#define PASTE2(name, suffix) name##_##suffix
#define PASTE(name, suffix)  PASTE2(name, suffix)

/* For loops over lanes that should have no jumps: gcc's -O2 unrolls none by itself. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define UNROLLED _Pragma("GCC unroll 16")
#else
#define UNROLLED
#endif

/* One machine-code version per instruction set, chosen when the library is loaded. This needs the
 * ifunc mechanism of glibc. All versions give the same bits: sums have a fixed shape (rows_body.h)
 * and the build forbids contraction to fused multiply-add. */
#if defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__) && !defined(PEGASOS_NO_CLONES)
#define HAS_CLONES
#define CLONES __attribute__((target_clones("avx2", "default")))
/* For loops that are faster with registers of twice the width: sums of products, bundles, kernel
 * functions. Adding rows is slower with them, and so are Pegasos's sparse loops. */
#define CLONES_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#define CLONES_WIDE
#endif

#endif
