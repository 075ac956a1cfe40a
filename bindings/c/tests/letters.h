/* Messages of the tests' own: what is sent is copied at once, and found by who takes it. */
#ifndef TRUESTEP_ABI_TESTS_LETTERS_H
#define TRUESTEP_ABI_TESTS_LETTERS_H

#include "support.h"

#include <pthread.h>

enum { MOST_RANKS = 4, MOST_LETTERS = 64 };

typedef struct letter {
    void* data;
    size_t bytes;
    uint64_t number;
} letter;

typedef struct post_office {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    letter letters[MOST_RANKS][MOST_RANKS][MOST_LETTERS]; /* from, to */
    int count[MOST_RANKS][MOST_RANKS];
    int taken[MOST_RANKS][MOST_RANKS];
    int fails; /* every wait for a message that comes */
} post_office;

typedef struct counter {
    post_office* office;
    int32_t rank;
    int under_way; /* started and not waited for */
} counter;

truestep_messages messages_of(counter* mine, int32_t ranks);
post_office* open_office(void);
void close_office(post_office* office);

#endif
