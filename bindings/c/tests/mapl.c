/* MAPL's boundary over the C interface: every pass beside plain loops in which mistakes can be planted, one
 * handle beside two, a restored state; errors are reported. */
#include "mapl_plain.h"

#include <stdlib.h>

static truestep_mapl_state given_state(void) {
    truestep_mapl_state state = {.struct_size = sizeof state};
    state.subspace = floats(subspace, WIDTH * RANK);
    state.sender_rows = floats(rows_p, WIDTH * RANK);
    state.receiver_rows = floats(rows_q, WIDTH * RANK);
    return state;
}

static truestep_mapl_boundary* make_boundary(const char* text, const truestep_mapl_state* state) {
    truestep_mapl_boundary* boundary = NULL;
    CHECK_OK(truestep_mapl_boundary_create(text, state, &boundary));
    return boundary;
}

static void look_at_parts(truestep_mapl_boundary* boundary, results* out) {
    for (int32_t side = TRUESTEP_MAPL_SENDER; side <= TRUESTEP_MAPL_RECEIVER; ++side) {
        truestep_values part;
        CHECK_OK(truestep_mapl_boundary_part(boundary, side, &part));
        CHECK(part.count == WIDTH * RANK);
        memcpy(out->parts[side], part.data, sizeof out->parts[side]);
    }
}

/* A micro-batch through all four passes. */
static results through(truestep_mapl_boundary* boundary, const inputs* in) {
    results out;
    memset(&out, 0, sizeof out);
    const truestep_values x = floats(in->x, TOKENS * WIDTH);
    const truestep_values g = floats(in->g, TOKENS * WIDTH);
    const truestep_values anchor_p = floats(in->anchor_p, IDS * RANK);
    const truestep_values anchor_q = floats(in->anchor_q, IDS * RANK);
    const truestep_values q = floats(out.q, TOKENS * WIDTH);
    const truestep_values z = floats(out.z, TOKENS * RANK);
    const truestep_values dz = floats(out.dz, TOKENS * RANK);
    const int64_t step = truestep_mapl_boundary_steps(boundary);
    CHECK_OK(truestep_mapl_boundary_compress(boundary, &x, &anchor_p, ids, TOKENS, out.q, out.z));
    CHECK_OK(truestep_mapl_boundary_decompress(boundary, &z, &anchor_q, ids, TOKENS, out.xhat));
    CHECK_OK(truestep_mapl_boundary_decompress_backward(boundary, step, &z, &g, ids, TOKENS, out.dz,
                                                        out.of_anchor_q));
    CHECK_OK(truestep_mapl_boundary_compress_backward(boundary, step, &q, &dz, ids, TOKENS, out.dx,
                                                      out.of_anchor_p));
    look_at_parts(boundary, &out);
    return out;
}

static int all_same(const results* a, const results* b) {
    const float* one = (const float*)a;
    const float* other = (const float*)b;
    for (size_t i = 0; i < sizeof *a / sizeof *one; ++i)
        if (one[i] != other[i])
            return 0;
    return 1;
}

/* Both forms are the plain one in every value, and no mistake is. */
static void passes_are_right(void) {
    const inputs in = make_inputs();
    const truestep_mapl_state state = given_state();
    static const char* const forms[] = {"width=4 rank=2 vocabulary=3 anchors=two",
                                        "width=4 rank=2 vocabulary=3 anchors=two arithmetic=reference"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) {
        truestep_mapl_boundary* boundary = make_boundary(forms[i], &state);
        const results got = through(boundary, &in);
        for (known_bug wrong = NONE; wrong < MISTAKES; ++wrong) {
            const results wanted = plain(&in, wrong);
            CHECK(all_same(&got, &wanted) == (wrong == NONE));
        }
        truestep_mapl_boundary_destroy(boundary);
    }
}

/* Micro-batch `number` of made-up data through a sender and a receiver, which may be one. */
static void carry(truestep_mapl_boundary* sender, truestep_mapl_boundary* receiver, int32_t number) {
    results out;
    float values[2][TOKENS * WIDTH];
    for (int i = 0; i < TOKENS * WIDTH; ++i)
        for (int32_t which = 0; which < 2; ++which)
            values[which][i] = synthetic(which, number, i);
    const truestep_values x = floats(values[0], TOKENS * WIDTH);
    const truestep_values g = floats(values[1], TOKENS * WIDTH);
    const truestep_values z = floats(out.z, TOKENS * RANK);
    const truestep_values dz = floats(out.dz, TOKENS * RANK);
    CHECK_OK(truestep_mapl_boundary_compress(sender, &x, NULL, ids, TOKENS, NULL, out.z));
    CHECK_OK(truestep_mapl_boundary_decompress(receiver, &z, NULL, ids, TOKENS, out.xhat));
    CHECK_OK(truestep_mapl_boundary_decompress_backward(receiver, truestep_mapl_boundary_steps(receiver),
                                                        &z, &g, ids, TOKENS, out.dz, NULL));
    CHECK_OK(truestep_mapl_boundary_compress_backward(sender, truestep_mapl_boundary_steps(sender), &x, &dz,
                                                      ids, TOKENS, out.dx, NULL));
}

static truestep_mapl_state look_at(const truestep_mapl_boundary* boundary) {
    truestep_mapl_state state = {.struct_size = sizeof state};
    CHECK_OK(truestep_mapl_boundary_state(boundary, &state));
    return state;
}

static int same_boundary(const truestep_mapl_boundary* a, const truestep_mapl_boundary* b) {
    const truestep_mapl_state first = look_at(a);
    const truestep_mapl_state second = look_at(b);
    return first.steps == second.steps && same(first.subspace, second.subspace) &&
           same(first.moment, second.moment);
}

/* A step of a process with both sides. */
static void step_alone(truestep_mapl_boundary* boundary, int32_t step, double rate) {
    int32_t stepped = 0;
    carry(boundary, boundary, 2 * step);
    carry(boundary, boundary, 2 * step + 1);
    CHECK_OK(truestep_mapl_boundary_step(boundary, rate, NULL, &stepped));
    CHECK(stepped == 1);
}

static void step_apart(truestep_mapl_boundary* sender, truestep_mapl_boundary* receiver, int32_t step,
                       double rate) {
    carry(sender, receiver, 2 * step);
    carry(sender, receiver, 2 * step + 1);
    truestep_values part;
    CHECK_OK(truestep_mapl_boundary_part(receiver, TRUESTEP_MAPL_RECEIVER, &part));
    CHECK_OK(truestep_mapl_boundary_step(sender, rate, &part, NULL));
    const truestep_mapl_state made = look_at(sender);
    CHECK_OK(truestep_mapl_boundary_follow(receiver, &made.subspace));
    CHECK(same(look_at(receiver).subspace, made.subspace));
}

/* One handle, a handle a side, and one from a restored state: the same bits at every step. */
static void two_handles_are_one(const char* text, double rate) {
    truestep_mapl_boundary* one = make_boundary(text, NULL);
    truestep_mapl_boundary* sender = make_boundary(text, NULL);
    truestep_mapl_boundary* receiver = make_boundary(text, NULL);
    for (int32_t step = 0; step < 4; ++step) {
        const truestep_mapl_state before = look_at(one);
        truestep_mapl_boundary* later = make_boundary(text, &before);
        step_alone(one, step, rate);
        step_apart(sender, receiver, step, rate);
        CHECK(same_boundary(one, sender));
        CHECK(truestep_mapl_boundary_steps(receiver) == step + 1);
        carry(later, later, 77);
        CHECK_OK(truestep_mapl_boundary_forget(later));
        step_alone(later, step, rate);
        CHECK(same_boundary(one, later));
        const truestep_mapl_state now = look_at(sender);
        CHECK_OK(truestep_mapl_boundary_restore(later, &now));
        CHECK(same_boundary(one, later));
        double distance = 1.0;
        double bound = 0.0;
        CHECK_OK(truestep_mapl_boundary_distance(one, &distance, &bound));
        CHECK(distance <= bound && (distance < 1e-5 || rate > 0.1));
        truestep_mapl_boundary_destroy(later);
    }
    truestep_mapl_boundary_destroy(one);
    truestep_mapl_boundary_destroy(sender);
    truestep_mapl_boundary_destroy(receiver);
}

/* The sender's part alone leads elsewhere. */
static void the_receivers_part_counts(const char* text) {
    const float zeros[WIDTH * RANK] = {0.0F};
    const truestep_values nothing = floats(zeros, WIDTH * RANK);
    truestep_mapl_boundary* right = make_boundary(text, NULL);
    truestep_mapl_boundary* sender = make_boundary(text, NULL);
    truestep_mapl_boundary* receiver = make_boundary(text, NULL);
    step_alone(right, 0, 0.1);
    carry(sender, receiver, 0);
    carry(sender, receiver, 1);
    CHECK_FAILS(truestep_mapl_boundary_step(sender, 0.1, NULL, NULL), TRUESTEP_ERROR,
                "2 micro-batches have come back through the sender and 0 through the receiver");
    CHECK_OK(truestep_mapl_boundary_step(sender, 0.1, &nothing, NULL));
    CHECK(!same(look_at(right).subspace, look_at(sender).subspace));
    truestep_mapl_boundary_destroy(right);
    truestep_mapl_boundary_destroy(sender);
    truestep_mapl_boundary_destroy(receiver);
}

/* The two forms add in another order: as matrices they are near. */
static void forms_are_near(void) {
    truestep_mapl_boundary* fast = make_boundary("width=4 rank=2 vocabulary=3", NULL);
    truestep_mapl_boundary* slow = make_boundary("width=4 rank=2 vocabulary=3 arithmetic=reference", NULL);
    for (int32_t step = 0; step < 3; ++step) {
        step_alone(fast, step, 0.1);
        step_alone(slow, step, 0.1);
        const truestep_mapl_state first = look_at(fast);
        const truestep_mapl_state second = look_at(slow);
        for (int i = 0; i < WIDTH * RANK; ++i) {
            const float off =
                ((const float*)first.subspace.data)[i] - ((const float*)second.subspace.data)[i];
            CHECK(off < 1e-5F && off > -1e-5F);
        }
    }
    truestep_mapl_boundary_destroy(fast);
    truestep_mapl_boundary_destroy(slow);
}

static void bad_settings_are_told(void) {
    truestep_mapl_boundary* boundary = NULL;
    static const struct {
        const char* settings;
        const char* told;
    } wrong[] = {{"width=4 rank=5", "rank is 5; it must be from 1 to the width, which is 4"},
                 {"width=4", "rank is 0"},
                 {"", "width is 0"},
                 {"width=4 rank=2 density=1", "'density=1' is not a setting"},
                 {"width=4 rank=2 anchors=one", "anchors: 'one' is unknown"},
                 {"width=4 rank=2 vocabulary=0", "vocabulary is 0"},
                 {"width=9999999999 rank=2", "from 1 to 2^24"},
                 {"width=4 rank=2 arithmetic=exact", "give optimized or reference"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        CHECK_FAILS(truestep_mapl_boundary_create(wrong[i].settings, NULL, &boundary), TRUESTEP_ERROR,
                    wrong[i].told);
    CHECK_FAILS(truestep_mapl_boundary_create(NULL, NULL, &boundary), TRUESTEP_ERROR, "settings is NULL");
    CHECK(boundary == NULL);
}

static void bad_states_are_told(truestep_mapl_boundary* boundary) {
    truestep_mapl_state state = given_state();
    state.subspace.count = 7;
    CHECK_FAILS(truestep_mapl_boundary_restore(boundary, &state), TRUESTEP_ERROR,
                "state: subspace: it has 7 values; there are 8 values of width 4 and rank 2");
    float off[WIDTH * RANK];
    memcpy(off, subspace, sizeof off);
    off[0] = 0.75F;
    state.subspace = floats(off, WIDTH * RANK);
    CHECK_FAILS(truestep_mapl_boundary_restore(boundary, &state), TRUESTEP_ERROR,
                "the subspace is off the manifold: |A^T A - I| is 0.4375, and rounding explains ");
    state = given_state();
    state.receiver_rows = floats(off, WIDTH * RANK);
    CHECK_FAILS(truestep_mapl_boundary_restore(boundary, &state), TRUESTEP_ERROR,
                "P does not have orthonormal rows");
    state = given_state();
    state.steps = -1;
    CHECK_FAILS(truestep_mapl_boundary_restore(boundary, &state), TRUESTEP_ERROR, "steps is -1");
    state.struct_size = 3;
    CHECK_FAILS(truestep_mapl_boundary_restore(boundary, &state), TRUESTEP_ERROR, "struct_size is 3");
    const truestep_values far = floats(off, WIDTH * RANK);
    CHECK_FAILS(truestep_mapl_boundary_follow(boundary, &far), TRUESTEP_ERROR, "off the manifold");
    CHECK_FAILS(truestep_mapl_boundary_step(boundary, 0.6, NULL, NULL), TRUESTEP_ERROR, "less than 0.52");
    const truestep_mapl_state after = look_at(boundary);
    const truestep_mapl_state before = given_state();
    CHECK(after.steps == 0 && same(before.subspace, after.subspace) &&
          same(before.sender_rows, after.sender_rows) && same(before.receiver_rows, after.receiver_rows));
    state = given_state();
    truestep_mapl_boundary* other = NULL;
    CHECK_FAILS(truestep_mapl_boundary_create("width=4 rank=2 anchors=shared", &state, &other),
                TRUESTEP_ERROR, "has one P");
    CHECK_FAILS(truestep_mapl_boundary_create("width=4 rank=2", &state, &other), TRUESTEP_ERROR,
                "anchors=none");
    CHECK(other == NULL);
}

static void bad_passes_are_told(truestep_mapl_boundary* boundary) {
    inputs in = make_inputs();
    results out;
    const truestep_values x = floats(in.x, TOKENS * WIDTH);
    const truestep_values few = floats(in.x, TOKENS * WIDTH - 1);
    const truestep_values z = floats(in.g, TOKENS * RANK);
    const truestep_values anchor = floats(in.anchor_p, IDS * RANK);
    const truestep_values small = floats(in.anchor_p, IDS);
    const int64_t beyond[TOKENS] = {0, 1, 2, 3, 0};
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &x, &anchor, beyond, TOKENS, out.q, out.z),
                TRUESTEP_ERROR, "the id of token 3 is 3; the vocabulary is 3");
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &few, &anchor, ids, TOKENS, out.q, out.z),
                TRUESTEP_ERROR, "activations: it has 19 values; there are 20 values of 5 tokens of 4");
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &x, &small, ids, TOKENS, out.q, out.z),
                TRUESTEP_ERROR, "anchor: it has 3 values; there are 6 values of 3 ids and rank 2");
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &x, NULL, ids, TOKENS, out.q, out.z),
                TRUESTEP_ERROR, "anchor is NULL");
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &x, &anchor, ids, TOKENS, NULL, out.z),
                TRUESTEP_ERROR, "q is NULL");
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &x, &anchor, ids, -1, out.q, out.z),
                TRUESTEP_ERROR, "tokens is -1");
    const truestep_values one = floats(in.x, WIDTH);
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &one, &anchor, NULL, 1, out.q, out.z),
                TRUESTEP_ERROR, "ids is NULL");
    CHECK_FAILS(truestep_mapl_boundary_decompress(boundary, &x, &anchor, ids, TOKENS, out.xhat),
                TRUESTEP_ERROR, "z: it has more than 10 values");
    CHECK_FAILS(truestep_mapl_boundary_decompress_backward(boundary, 1, &z, &x, ids, TOKENS, out.dz, NULL),
                TRUESTEP_ERROR, "went forward at step 1, and A is that of step 0");
    in.x[3] = (float)strtod("inf", NULL);
    CHECK_FAILS(truestep_mapl_boundary_compress(boundary, &x, &anchor, ids, TOKENS, out.q, out.z),
                TRUESTEP_ERROR, "activations has a value that is not finite");
    CHECK_FAILS(truestep_mapl_boundary_decompress_backward(boundary, 0, &z, &x, ids, TOKENS, out.dz, NULL),
                TRUESTEP_ERROR, "gradient has a value that is not finite");
    for (int i = 0; i < TOKENS * WIDTH; ++i)
        in.x[i] = 3e38F;
    CHECK_FAILS(truestep_mapl_boundary_decompress_backward(boundary, 0, &z, &x, ids, TOKENS, out.dz, NULL),
                TRUESTEP_ERROR, "dz overflows; nothing has changed");
    look_at_parts(boundary, &out);
    for (int i = 0; i < WIDTH * RANK; ++i)
        CHECK(out.parts[0][i] == 0.0F && out.parts[1][i] == 0.0F);
    const truestep_values no_values = floats(in.g, 0);
    CHECK_OK(truestep_mapl_boundary_compress(boundary, &no_values, &anchor, NULL, 0, NULL, NULL));
}

/* What would make A no number leaves it; the step counts. */
static void a_gradient_that_is_not_finite_steps_nowhere(truestep_mapl_boundary* boundary) {
    float huge[WIDTH * RANK];
    for (int i = 0; i < WIDTH * RANK; ++i)
        huge[i] = (float)strtod("inf", NULL);
    const truestep_values part = floats(huge, WIDTH * RANK);
    int32_t stepped = 1;
    CHECK_OK(truestep_mapl_boundary_step(boundary, 0.1, &part, &stepped));
    CHECK(stepped == 0 && truestep_mapl_boundary_steps(boundary) == 1);
    const truestep_values right = floats(subspace, WIDTH * RANK);
    CHECK(same(look_at(boundary).subspace, right));
}

static void in_the_middle_of_a_step(truestep_mapl_boundary* boundary) {
    const inputs in = make_inputs();
    const results first = through(boundary, &in);
    truestep_mapl_state state = {.struct_size = sizeof state};
    const truestep_values part = floats(first.parts[1], WIDTH * RANK);
    CHECK_FAILS(truestep_mapl_boundary_state(boundary, &state), TRUESTEP_ERROR, "a step is in progress");
    const truestep_values right = floats(subspace, WIDTH * RANK);
    truestep_values now;
    CHECK_OK(truestep_mapl_boundary_subspace(boundary, &now));
    CHECK(same(now, right));
    CHECK_FAILS(truestep_mapl_boundary_step(boundary, 0.1, &part, NULL), TRUESTEP_ERROR,
                "has been the receiver");
    CHECK_FAILS(truestep_mapl_boundary_follow(boundary, &part), TRUESTEP_ERROR, "has been the sender");
    CHECK_OK(truestep_mapl_boundary_forget(boundary));
    const results again = through(boundary, &in);
    CHECK(all_same(&first, &again));
    CHECK_OK(truestep_mapl_boundary_forget(boundary));
}

void mapl_is_right(void) {
    passes_are_right();
    two_handles_are_one("width=4 rank=2 vocabulary=3", 0.1);
    two_handles_are_one("width=4 rank=2 vocabulary=3 order=momentum_first beta=0.5 seed=7", 0.1);
    two_handles_are_one("width=4 rank=2 vocabulary=3 arithmetic=reference", 0.1);
    two_handles_are_one("width=4 rank=2 vocabulary=3 retraction_iterations=1", 0.25);
    the_receivers_part_counts("width=4 rank=2 vocabulary=3");
    forms_are_near();
    bad_settings_are_told();
    const truestep_mapl_state state = given_state();
    truestep_mapl_boundary* boundary = make_boundary("width=4 rank=2 vocabulary=3 anchors=two", &state);
    bad_states_are_told(boundary);
    bad_passes_are_told(boundary);
    in_the_middle_of_a_step(boundary);
    a_gradient_that_is_not_finite_steps_nowhere(boundary);
    truestep_mapl_boundary_destroy(boundary);
    truestep_mapl_boundary_destroy(NULL);
    CHECK_FAILS(truestep_mapl_boundary_forget(NULL), TRUESTEP_ERROR, "boundary is NULL");
}
