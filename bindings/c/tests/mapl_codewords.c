/* Z as indices of codewords over the C interface: beside plain loops in which mistakes can be planted, one
 * handle beside two, a restored state; codebooks of another version, and other errors, are reported.
 */
#include "codewords_plain.h"

#include <stddef.h>
#include <stdlib.h>

#define CODED "width=4 rank=4 vocabulary=3 codewords=6 groups=2 rounds=2 subsets=3 decay=0.5"

static truestep_mapl_state state_with(const books* of) {
    truestep_mapl_state state = {.struct_size = sizeof state};
    state.micro_batches = of->through;
    state.codebooks = floats(&of->here[0][0][0], BOOKS * WORDS * EACH);
    state.learned = floats(&of->learned[0][0][0], BOOKS * WORDS * EACH);
    return state;
}

static truestep_mapl_boundary* make_coded(const char* text, const truestep_mapl_state* state) {
    truestep_mapl_boundary* boundary = NULL;
    CHECK_OK(truestep_mapl_boundary_create(text, state, &boundary));
    return boundary;
}

static coded encode(truestep_mapl_boundary* boundary, int batch) {
    coded made;
    float z[ROWS * RANK_Z];
    make_z(z, batch);
    const truestep_values values = floats(z, ROWS * RANK_Z);
    CHECK_OK(truestep_mapl_boundary_encode(boundary, &values, ROWS, made.message, made.z));
    return made;
}

static uint64_t version_of(const truestep_mapl_boundary* boundary, int32_t side) {
    uint64_t version = 0;
    CHECK_OK(truestep_mapl_boundary_version(boundary, side, &version));
    return version;
}

/* Do several turns have the plain loops' every byte, on both sides of one handle? */
static int follows(const char* text, wrong_word wrong) {
    books plain;
    make_books(&plain);
    const truestep_mapl_state state = state_with(&plain);
    truestep_mapl_boundary* boundary = make_coded(text, &state);
    CHECK(truestep_mapl_boundary_message_bytes(boundary, ROWS) == MESSAGE);
    int same_all = 1;
    for (int batch = 0; batch < BATCHES; ++batch) {
        float z[ROWS * RANK_Z];
        float came[ROWS * RANK_Z];
        make_z(z, batch);
        const coded wanted = encoded(&plain, z, wrong);
        const uint64_t version = version_of(boundary, TRUESTEP_MAPL_SENDER);
        const coded made = encode(boundary, batch);
        CHECK_OK(truestep_mapl_boundary_decode(boundary, made.message, MESSAGE, &version, ROWS, came));
        CHECK(memcmp(came, made.z, sizeof came) == 0); /* the sender knows what arrives */
        same_all = same_all && memcmp(wanted.message, made.message, MESSAGE) == 0 &&
                   memcmp(wanted.z, came, sizeof came) == 0;
    }
    truestep_mapl_state after = {.struct_size = sizeof after};
    const truestep_mapl_state wanted = state_with(&plain);
    CHECK_OK(truestep_mapl_boundary_state(boundary, &after));
    CHECK(after.micro_batches == BATCHES);
    same_all = same_all && same(after.codebooks, wanted.codebooks) && same(after.learned, wanted.learned);
    truestep_mapl_boundary_destroy(boundary);
    return same_all;
}

/* Both forms; and each mistake is another message, or another state. */
static void messages_are_right(void) {
    CHECK(follows(CODED, NO_MISTAKE));
    CHECK(follows(CODED " arithmetic=reference", NO_MISTAKE));
    CHECK(follows(CODED " payload=bf16", NO_MISTAKE)); /* which is of dz alone */
    for (wrong_word wrong = NO_MISTAKE + 1; wrong < WRONG_WORDS; ++wrong)
        CHECK(!follows(CODED, wrong));
}

/* A handle a side; each continues from a state of one of them. */
static void a_state_of_codewords_goes_on(void) {
    truestep_mapl_boundary* sender = make_coded(CODED, NULL);
    truestep_mapl_boundary* receiver = make_coded(CODED, NULL);
    float came[ROWS * RANK_Z];
    for (int batch = 0; batch < BATCHES; ++batch) {
        CHECK(version_of(sender, TRUESTEP_MAPL_SENDER) == version_of(receiver, TRUESTEP_MAPL_RECEIVER));
        if (batch == 4) { /* inside a turn */
            truestep_mapl_state state = {.struct_size = sizeof state};
            CHECK_OK(truestep_mapl_boundary_state(sender, &state));
            CHECK(state.micro_batches == 4 && !same(state.codebooks, state.learned));
            truestep_mapl_boundary* later = make_coded(CODED, &state);
            truestep_mapl_boundary_destroy(sender);
            sender = later;
            truestep_mapl_state other = {.struct_size = sizeof other};
            CHECK_OK(truestep_mapl_boundary_state(receiver, &other));
            CHECK_OK(truestep_mapl_boundary_state(sender, &state));
            CHECK(other.micro_batches == 4 && same(state.codebooks, other.codebooks));
            CHECK_OK(truestep_mapl_boundary_restore(receiver, &other));
        }
        const uint64_t version = version_of(sender, TRUESTEP_MAPL_SENDER);
        const coded made = encode(sender, batch);
        CHECK_OK(truestep_mapl_boundary_decode(receiver, made.message, MESSAGE, &version, ROWS, came));
        CHECK(memcmp(came, made.z, sizeof came) == 0);
    }
    truestep_mapl_boundary_destroy(sender);
    truestep_mapl_boundary_destroy(receiver);
}

static void other_versions_are_refused(void) {
    truestep_mapl_boundary* sender = make_coded(CODED, NULL);
    truestep_mapl_boundary* receiver = make_coded(CODED, NULL);
    float came[ROWS * RANK_Z];
    uint64_t versions[2];
    coded made[2];
    for (int batch = 0; batch < 2; ++batch) {
        versions[batch] = version_of(sender, TRUESTEP_MAPL_SENDER);
        made[batch] = encode(sender, batch);
    }
    const uint64_t before = version_of(receiver, TRUESTEP_MAPL_RECEIVER);
    CHECK_FAILS(truestep_mapl_boundary_decode(receiver, made[1].message, MESSAGE, &versions[1], ROWS, came),
                TRUESTEP_ERROR, "of other codebooks than this side has before its micro-batch 0");
    CHECK(version_of(receiver, TRUESTEP_MAPL_RECEIVER) == before);
    for (int batch = 0; batch < 2; ++batch)
        CHECK_OK(truestep_mapl_boundary_decode(receiver, made[batch].message, MESSAGE, &versions[batch],
                                               ROWS, came));
    truestep_mapl_boundary_destroy(sender);
    truestep_mapl_boundary_destroy(receiver);
}

/* What has come differs from what was sent: it shows where both sides are one handle's. */
static void what_is_on_its_way_is_no_state(void) {
    truestep_mapl_boundary* boundary = make_coded(CODED, NULL);
    truestep_mapl_state state = {.struct_size = sizeof state};
    float came[ROWS * RANK_Z];
    coded made = encode(boundary, 0);
    CHECK_OK(truestep_mapl_boundary_decode(boundary, made.message, MESSAGE, NULL, ROWS, came));
    made = encode(boundary, 1);
    CHECK_FAILS(truestep_mapl_boundary_state(boundary, &state), TRUESTEP_ERROR,
                "2 micro-batches have been encoded and 1 decoded; let all arrive");
    made.message[MESSAGE - 1] ^= 1U;
    CHECK_OK(truestep_mapl_boundary_decode(boundary, made.message, MESSAGE, NULL, ROWS, came));
    CHECK_FAILS(truestep_mapl_boundary_state(boundary, &state), TRUESTEP_ERROR,
                "the receiver has other codewords than the sender has sent");
    truestep_mapl_boundary_destroy(boundary);
}

static void bad_messages_are_told(void) {
    truestep_mapl_boundary* boundary = make_coded(CODED, NULL);
    truestep_mapl_boundary* plain = make_coded("width=4 rank=4 vocabulary=3", NULL);
    const uint64_t before = version_of(boundary, TRUESTEP_MAPL_SENDER);
    float z[ROWS * RANK_Z];
    unsigned char message[MESSAGE];
    memset(message, 0, sizeof message);
    make_z(z, 0);
    const truestep_values values = floats(z, ROWS * RANK_Z);
    uint64_t version = 0;
    CHECK_FAILS(truestep_mapl_boundary_encode(boundary, &values, ROWS + 1, message, NULL), TRUESTEP_ERROR,
                "z: it has 28 values; there are 32 values of 8 tokens of 4");
    CHECK_FAILS(truestep_mapl_boundary_encode(boundary, &values, -1, message, NULL), TRUESTEP_ERROR,
                "tokens is -1");
    CHECK_FAILS(truestep_mapl_boundary_encode(boundary, &values, ROWS, NULL, NULL), TRUESTEP_ERROR,
                "message is NULL");
    CHECK_FAILS(truestep_mapl_boundary_encode(plain, &values, ROWS, message, NULL), TRUESTEP_ERROR,
                "encode: the boundary has codewords=0");
    CHECK_FAILS(truestep_mapl_boundary_decode(plain, message, 0, NULL, ROWS, z), TRUESTEP_ERROR,
                "decode: the boundary has codewords=0");
    CHECK_FAILS(truestep_mapl_boundary_version(plain, 0, &version), TRUESTEP_ERROR, "codewords=0");
    CHECK_FAILS(truestep_mapl_boundary_version(boundary, 2, &version), TRUESTEP_ERROR, "side is 2");
    CHECK_FAILS(truestep_mapl_boundary_decode(boundary, message, MESSAGE - 1, NULL, ROWS, z),
                TRUESTEP_ERROR, "tokens of this boundary make it");
    message[0] = 7U << 3U;
    CHECK_FAILS(truestep_mapl_boundary_decode(boundary, message, MESSAGE, NULL, ROWS, z), TRUESTEP_ERROR,
                "message: token 0 has the index 7; there are 6 codewords");
    message[0] = 0;
    memset(message + INDEX_BYTES, 0xff, 4); /* no number */
    CHECK_FAILS(truestep_mapl_boundary_decode(boundary, message, MESSAGE, NULL, ROWS, z), TRUESTEP_ERROR,
                "message has a value that is not finite");
    z[5] = (float)strtod("inf", NULL);
    CHECK_FAILS(truestep_mapl_boundary_encode(boundary, &values, ROWS, message, NULL), TRUESTEP_ERROR,
                "z has a value that is not finite");
    CHECK(version_of(boundary, TRUESTEP_MAPL_SENDER) == before);
    CHECK(version_of(boundary, TRUESTEP_MAPL_RECEIVER) == before);
    CHECK(truestep_mapl_boundary_message_bytes(plain, ROWS) == 0);
    CHECK(truestep_mapl_boundary_message_bytes(boundary, 0) == MESSAGE - INDEX_BYTES);
    CHECK(truestep_mapl_boundary_message_bytes(boundary, -1) == 0);
    CHECK(truestep_mapl_boundary_message_bytes(NULL, ROWS) == 0);
    truestep_mapl_boundary_destroy(boundary);
    truestep_mapl_boundary_destroy(plain);
}

/* All choose one codeword, and their sum is more than fp32 holds. */
static void what_overflows_is_not_learned(void) {
    books of;
    make_books(&of);
    float z[ROWS * RANK_Z];
    unsigned char message[MESSAGE];
    for (int i = 0; i < ROWS * RANK_Z; ++i)
        z[i] = 3e38F;
    for (int i = 0; i < EACH; ++i)
        of.here[0][1][i] = of.learned[0][1][i] = 3e38F;
    const truestep_values values = floats(z, ROWS * RANK_Z);
    const truestep_mapl_state state = state_with(&of);
    truestep_mapl_boundary* boundary = make_coded(CODED, &state);
    CHECK_FAILS(truestep_mapl_boundary_encode(boundary, &values, ROWS, message, NULL), TRUESTEP_ERROR,
                "a codeword that is learned from it overflows; nothing has changed");
    truestep_mapl_state after = {.struct_size = sizeof after};
    CHECK_OK(truestep_mapl_boundary_state(boundary, &after));
    CHECK(after.micro_batches == 0 && same(after.learned, state.learned));
    truestep_mapl_boundary_destroy(boundary);
}

static void bad_codebooks_are_told(void) {
    books of;
    make_books(&of);
    truestep_mapl_boundary* boundary = NULL;
    truestep_mapl_state state = state_with(&of);
    state.micro_batches = -1;
    CHECK_FAILS(truestep_mapl_boundary_create(CODED, &state, &boundary), TRUESTEP_ERROR,
                "micro_batches is -1");
    state = state_with(&of);
    CHECK_FAILS(truestep_mapl_boundary_create("width=4 rank=4", &state, &boundary), TRUESTEP_ERROR,
                "state: there are codebooks, and the boundary has codewords=0");
    state.codebooks.count = 5;
    CHECK_FAILS(truestep_mapl_boundary_create(CODED, &state, &boundary), TRUESTEP_ERROR,
                "state: codebooks: it has 5 values; there are 48 values of 4 books of 6 codewords of 2");
    state = state_with(&of);
    of.learned[1][0][1] = 0.5F;
    CHECK_FAILS(truestep_mapl_boundary_create(CODED, &state, &boundary), TRUESTEP_ERROR,
                "state: learned: the first codeword of book 1 is not 0");
    state.struct_size = offsetof(truestep_mapl_state, micro_batches);
    CHECK_FAILS(truestep_mapl_boundary_create(CODED, &state, &boundary), TRUESTEP_ERROR, "struct_size is");
    CHECK_FAILS(truestep_mapl_boundary_create("width=4 rank=4 codewords=6 groups=3", NULL, &boundary),
                TRUESTEP_ERROR, "groups is 3; it must divide the rank, which is 4");
    CHECK_FAILS(truestep_mapl_boundary_create("width=4 rank=4 rounds=2", NULL, &boundary), TRUESTEP_ERROR,
                "codewords is 0, and there are settings of quantization");
    CHECK(boundary == NULL);
}

/* A caller that was compiled before there were codewords. */
static void an_earlier_state_is_whole_without_codewords(void) {
    truestep_mapl_state state = {.struct_size = offsetof(truestep_mapl_state, micro_batches),
                                 .micro_batches = 77};
    truestep_mapl_boundary* boundary = make_coded("width=4 rank=4", &state);
    CHECK_OK(truestep_mapl_boundary_state(boundary, &state));
    CHECK(state.subspace.count == 16 && state.micro_batches == 77 && state.codebooks.count == 0);
    CHECK_OK(truestep_mapl_boundary_restore(boundary, &state));
    truestep_mapl_boundary_destroy(boundary);
}

void mapl_codewords_are_right(void) {
    messages_are_right();
    a_state_of_codewords_goes_on();
    other_versions_are_refused();
    what_is_on_its_way_is_no_state();
    bad_messages_are_told();
    what_overflows_is_not_learned();
    bad_codebooks_are_told();
    an_earlier_state_is_whole_without_codewords();
}
