#include "letters.h"

#include <stdlib.h>

typedef struct awaited {
    int32_t from; /* -1: it was sent */
    uint64_t number;
    void* data;
    size_t bytes;
} awaited;

static awaited* under_way(counter* mine, awaited given) {
    awaited* made = malloc(sizeof *made);
    if (made == NULL)
        abort();
    *made = given;
    mine->under_way += 1;
    return made;
}

static int32_t send_letter(void* self, int32_t traffic, int32_t peer, uint64_t number, const void* data,
                           size_t bytes, void** message) {
    counter* mine = self;
    post_office* office = mine->office;
    CHECK(traffic == (number == 0 ? 0 : 5));
    letter sent = {malloc(bytes + 1), bytes, number};
    if (sent.data == NULL)
        abort();
    memcpy(sent.data, data, bytes);
    pthread_mutex_lock(&office->mutex);
    office->letters[mine->rank][peer][office->count[mine->rank][peer]++] = sent;
    pthread_cond_broadcast(&office->changed);
    pthread_mutex_unlock(&office->mutex);
    *message = under_way(mine, (awaited){-1, number, NULL, 0});
    return 0;
}

static int32_t ask_for_letter(void* self, int32_t traffic, int32_t peer, uint64_t number, void* data,
                              size_t bytes, void** message) {
    CHECK(traffic == (number == 0 ? 0 : 5));
    *message = under_way(self, (awaited){peer, number, data, bytes});
    return 0;
}

static int32_t wait_for_letter(void* self, void* message) {
    counter* mine = self;
    post_office* office = mine->office;
    awaited* one = message;
    mine->under_way -= 1;
    const int fails = office->fails && one->from >= 0;
    if (one->from >= 0 && !fails) {
        pthread_mutex_lock(&office->mutex);
        int* taken = &office->taken[one->from][mine->rank];
        while (*taken == office->count[one->from][mine->rank])
            pthread_cond_wait(&office->changed, &office->mutex);
        letter* came = &office->letters[one->from][mine->rank][(*taken)++];
        pthread_mutex_unlock(&office->mutex);
        CHECK(came->number == one->number && came->bytes == one->bytes);
        memcpy(one->data, came->data, one->bytes);
        free(came->data);
    }
    free(one);
    if (fails)
        truestep_set_error("the post is on strike");
    return fails;
}

truestep_messages messages_of(counter* mine, int32_t ranks) {
    return (truestep_messages){
        sizeof(truestep_messages), mine, mine->rank, ranks, send_letter, ask_for_letter,
        wait_for_letter,           NULL};
}

post_office* open_office(void) {
    post_office* office = calloc(1, sizeof *office);
    if (office == NULL)
        abort();
    pthread_mutex_init(&office->mutex, NULL);
    pthread_cond_init(&office->changed, NULL);
    return office;
}

void close_office(post_office* office) {
    for (int from = 0; from < MOST_RANKS; ++from)
        for (int to = 0; to < MOST_RANKS; ++to)
            for (int i = office->taken[from][to]; i < office->count[from][to]; ++i)
                free(office->letters[from][to][i].data);
    pthread_cond_destroy(&office->changed);
    pthread_mutex_destroy(&office->mutex);
    free(office);
}
