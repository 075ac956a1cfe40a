/* Section 23.1 of the specification in plain loops, in which mistakes can be planted. */
#ifndef TRUESTEP_ABI_TESTS_CODEWORDS_PLAIN_H
#define TRUESTEP_ABI_TESTS_CODEWORDS_PLAIN_H

#include "support.h"

enum { RANK_Z = 4, GROUPS = 2, ROUNDS = 2, BOOKS = GROUPS * ROUNDS, WORDS = 6, EACH = RANK_Z / GROUPS };
enum { SUBSETS = 3, TRAVEL = WORDS / SUBSETS, ROWS = 7, BITS = 3, BATCHES = 8 };
enum { INDEX_BYTES = (ROWS * BOOKS * BITS + 7) / 8, MESSAGE = INDEX_BYTES + 4 * BOOKS * TRAVEL * EACH };

typedef enum wrong_word {
    NO_MISTAKE,
    TIES_TO_HIGHER,
    SAME_VECTOR_EACH_ROUND,
    FIRST_WORD_LEARNED,
    UNUSED_WORDS_SHRINK,
    NEWER_WORDS_DECODE,
    LEARNING_COPY_ENCODES,
    ONE_ORDER_FOR_ALL_TURNS,
    BITS_LOST_OVER_THE_EDGE,
    WRONG_WORDS
} wrong_word;

typedef struct books {
    float here[BOOKS][WORDS][EACH];
    float learned[BOOKS][WORDS][EACH];
    int64_t through;
} books;

typedef struct coded {
    unsigned char message[MESSAGE];
    float z[ROWS * RANK_Z];
} coded;

/* Of halves, in which some lie as near as others and some are the same. */
void make_books(books* of);
void make_z(float* z, int batch);
/* What a micro-batch makes: the message, and Z as it will be decoded. */
coded encoded(books* of, const float* z, wrong_word wrong);

#endif
