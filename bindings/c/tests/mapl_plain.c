#include "mapl_plain.h"

const float subspace[WIDTH * RANK] = {0.5F, 0.5F, 0.5F, -0.5F, 0.5F, 0.5F, 0.5F, -0.5F};
const float rows_p[RANK * WIDTH] = {0.5F, 0.5F, -0.5F, -0.5F, 0.5F, -0.5F, 0.5F, -0.5F};
const float rows_q[RANK * WIDTH] = {0.5F, -0.5F, -0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F};
const int64_t ids[TOKENS] = {2, 0, 2, 1, 2};

static void make_dyadic(float* values, int count, int32_t which) {
    for (int i = 0; i < count; ++i)
        values[i] = (float)((i * 7 + which * 5 + i * i) % 23 - 11) / 4.0F;
}

inputs make_inputs(void) {
    inputs made;
    make_dyadic(made.x, TOKENS * WIDTH, 1);
    make_dyadic(made.g, TOKENS * WIDTH, 2);
    make_dyadic(made.anchor_p, IDS * RANK, 3);
    make_dyadic(made.anchor_q, IDS * RANK, 4);
    return made;
}

static float a_at(int i, int j, int transposed) {
    return transposed ? subspace[j * WIDTH + i] : subspace[i * RANK + j];
}

static float anchored(const float* anchor, const float* rows, int token, int i) {
    float sum = 0.0F;
    for (int j = 0; j < RANK; ++j)
        sum += anchor[ids[token] * RANK + j] * rows[j * WIDTH + i];
    return sum;
}

results plain(const inputs* in, known_bug wrong) {
    results out;
    memset(&out, 0, sizeof out);
    const int turned = wrong == TRANSPOSED_IN_BACKWARD;
    for (int n = 0; n < TOKENS; ++n)
        for (int i = 0; i < WIDTH; ++i) {
            const float off = wrong == ANCHOR_NOT_TAKEN_OFF ? 0.0F : anchored(in->anchor_p, rows_p, n, i);
            out.q[n * WIDTH + i] = in->x[n * WIDTH + i] - off;
            for (int j = 0; j < RANK; ++j) {
                out.z[n * RANK + j] += out.q[n * WIDTH + i] * a_at(i, j, 0);
                out.dz[n * RANK + j] += in->g[n * WIDTH + i] * a_at(i, j, turned);
            }
        }
    for (int n = 0; n < TOKENS; ++n)
        for (int i = 0; i < WIDTH; ++i) {
            const float* table = wrong == SENDERS_ANCHOR_ON_BOTH ? in->anchor_p : in->anchor_q;
            for (int j = 0; j < RANK; ++j) {
                out.xhat[n * WIDTH + i] += out.z[n * RANK + j] * a_at(i, j, 0);
                out.dx[n * WIDTH + i] += out.dz[n * RANK + j] * a_at(i, j, turned);
            }
            if (wrong != ANCHOR_NOT_ADDED_BACK)
                out.xhat[n * WIDTH + i] += anchored(table, rows_q, n, i);
        }
    for (int n = 0; n < TOKENS; ++n)
        for (int j = 0; j < RANK; ++j) {
            float of_p = 0.0F;
            float of_q = 0.0F;
            for (int i = 0; i < WIDTH; ++i) {
                const float left = wrong == PART_OF_XHAT ? out.xhat[n * WIDTH + i] : out.q[n * WIDTH + i];
                if (wrong != SENDERS_PART_IS_NONE)
                    out.parts[0][i * RANK + j] += left * out.dz[n * RANK + j];
                out.parts[1][i * RANK + j] += in->g[n * WIDTH + i] * out.z[n * RANK + j];
                of_p -= out.dx[n * WIDTH + i] * rows_p[j * WIDTH + i];
                of_q += in->g[n * WIDTH + i] * rows_q[j * WIDTH + i];
            }
            if (wrong == REPEATED_IDS_OVERWRITE)
                out.of_anchor_p[ids[n] * RANK + j] = out.of_anchor_q[ids[n] * RANK + j] = 0.0F;
            out.of_anchor_p[ids[n] * RANK + j] += wrong == ANCHORS_SIGN ? -of_p : of_p;
            out.of_anchor_q[ids[n] * RANK + j] += of_q;
        }
    return out;
}
