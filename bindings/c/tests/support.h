/* What the tests of the C interface share: checks, made-up numbers, ranks that are threads. */
#ifndef TRUESTEP_ABI_TESTS_SUPPORT_H
#define TRUESTEP_ABI_TESTS_SUPPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <truestep.h>

enum { TENSORS = 3, SIZE = 100, RANKS = 3, STEPS = 6, MASK_BYTES = (SIZE + 7) / 8 };

extern const truestep_tensor model[TENSORS];
extern const char* const settings;

/* Counted from any thread; main ends with them. */
void check_failed(const char* file, int line, const char* what);
int failed_checks(void);
#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define CHECK_OK(call) check_ok((call), __FILE__, __LINE__, #call)
void check_ok(truestep_status status, const char* file, int line, const char* what);
/* The call has this status, and its line holds the text. */
#define CHECK_FAILS(call, status, text) check_fails((call), (status), (text), __FILE__, __LINE__, #call)
void check_fails(truestep_status got, truestep_status wanted, const char* text, const char* file, int line,
                 const char* what);

float synthetic(int32_t rank, int32_t step, int64_t index);
void make_gradient(float* gradient, int32_t rank, int32_t step);
void make_parameters(float* parameters);
truestep_values floats(const float* values, int64_t count);
truestep_problem* make_problem(int32_t workers, const char* text);

/* A step of the reference with all ranks' made-up gradients. */
void reference_step(truestep_reference* reference, int32_t ranks, int32_t step);

/* Runs the function for each rank in its own thread. */
void run_ranks(int32_t ranks, void (*function)(int32_t rank, void* shared), void* shared);

/* Ranks of this process. */
typedef struct group_of {
    truestep_group* group;
    int32_t ranks;
} group_of;
/* An optimizer, and the reference beside it unless that is NULL. */
truestep_optimizer* make_rank(const group_of* shared, int32_t rank, truestep_reference** reference);

/* Are two views the same, in every bit? */
int same(truestep_values a, truestep_values b);
/* All that an optimizer shows beside what the reference has of this rank. */
void check_views(truestep_optimizer* optimizer, truestep_reference* reference, int32_t rank);

/* Views of what an optimizer holds, from which another, or the same, may go on. */
truestep_state state_of(truestep_optimizer* optimizer);

/* A communicator of the tests' own among threads, through truestep_exchanges. */
typedef struct exchange_room exchange_room;
exchange_room* exchange_room_make(int32_t ranks);
void exchange_room_free(exchange_room* room);
truestep_exchanges exchanges_of(exchange_room* room, int32_t rank, void* place);
/* From this exchange on, counted from 0, every wait of this rank fails. */
void exchange_room_fail(exchange_room* room, int32_t rank, int64_t from);
size_t exchange_place_size(void);

/* Of the other files. */
void bad_input_is_told(void);
void parts_are_their_sum(void);
void gradients_are_used_up(void);
void gasloc_is_right(const char* folder);
void mapl_is_right(void);
void mapl_codewords_are_right(void);
void traces_are_judged(const char* folder);
void parts_of_runs_are_judged(const char* folder);
void parameter_groups_are_judged(const char* folder);
void parts_of_scaled_runs_are_judged(const char* folder);
void ranks_record_by_themselves(const char* folder);
void what_is_missing_is_told(const char* folder);

#endif
