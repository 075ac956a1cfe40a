/* Section 22 of the specification in plain loops, in which mistakes can be planted. */
#ifndef TRUESTEP_ABI_TESTS_MAPL_PLAIN_H
#define TRUESTEP_ABI_TESTS_MAPL_PLAIN_H

#include "support.h"

enum { WIDTH = 4, RANK = 2, IDS = 3, TOKENS = 5 };

/* Orthonormal in halves, beside inputs in quarters: all sums of this data are exact, in any order. */
extern const float subspace[WIDTH * RANK];
extern const float rows_p[RANK * WIDTH];
extern const float rows_q[RANK * WIDTH];
extern const int64_t ids[TOKENS];

typedef struct results {
    float q[TOKENS * WIDTH];
    float z[TOKENS * RANK];
    float xhat[TOKENS * WIDTH];
    float dz[TOKENS * RANK];
    float dx[TOKENS * WIDTH];
    float parts[2][WIDTH * RANK];
    float of_anchor_p[IDS * RANK];
    float of_anchor_q[IDS * RANK];
} results;

typedef struct inputs {
    float x[TOKENS * WIDTH];
    float g[TOKENS * WIDTH];
    float anchor_p[IDS * RANK];
    float anchor_q[IDS * RANK];
} inputs;

typedef enum known_bug {
    NONE,
    ANCHOR_NOT_TAKEN_OFF,
    ANCHOR_NOT_ADDED_BACK,
    SENDERS_ANCHOR_ON_BOTH,
    TRANSPOSED_IN_BACKWARD,
    SENDERS_PART_IS_NONE,
    PART_OF_XHAT,
    REPEATED_IDS_OVERWRITE,
    ANCHORS_SIGN,
    MISTAKES
} known_bug;

inputs make_inputs(void);
/* What a micro-batch makes. */
results plain(const inputs* in, known_bug wrong);

#endif
