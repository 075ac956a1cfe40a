#include "codewords_plain.h"

static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31U);
}

/* The codewords that travel with the micro-batch of that number, with seed=1. */
static void turn(int64_t number, int* words) {
    const uint64_t start = mixed(1U ^ mixed((uint64_t)(number / SUBSETS)));
    int order[WORDS];
    for (int word = 0; word < WORDS; ++word) {
        int place = word;
        for (; place > 0; --place) {
            const uint64_t before = mixed(start + (uint64_t)order[place - 1] * 0x9e3779b97f4a7c15U);
            if (before < mixed(start + (uint64_t)word * 0x9e3779b97f4a7c15U))
                break;
            order[place] = order[place - 1];
        }
        order[place] = word;
    }
    for (int i = 0; i < TRAVEL; ++i)
        words[i] = order[number % SUBSETS * TRAVEL + i];
}

void make_books(books* of) {
    memset(of, 0, sizeof *of);
    for (int book = 0; book < BOOKS; ++book)
        for (int word = 1; word < WORDS; ++word)
            for (int i = 0; i < EACH; ++i)
                of->here[book][word][i] =
                    (float)((book * 3 + word * 5 + i * 7 + word * word) % 9 - 4) / 2.0F;
    memcpy(of->learned, of->here, sizeof of->learned);
}

void make_z(float* z, int batch) {
    for (int i = 0; i < ROWS * RANK_Z; ++i)
        z[i] = (float)((i * 11 + batch * 7 + i * i) % 17 - 8) / 4.0F;
}

static int nearest(float (*book)[EACH], const float* v, wrong_word wrong) {
    int best = 0;
    float least = 0.0F;
    for (int word = 0; word < WORDS; ++word) {
        float sum = 0.0F;
        for (int i = 0; i < EACH; ++i)
            sum += (v[i] - book[word][i]) * (v[i] - book[word][i]);
        if (word == 0 || sum < least || (wrong == TIES_TO_HIGHER && sum == least)) {
            best = word;
            least = sum;
        }
    }
    return best;
}

static void learn(float (*book)[EACH], float (*left)[EACH], const int* chosen, wrong_word wrong) {
    for (int word = wrong == FIRST_WORD_LEARNED ? 0 : 1; word < WORDS; ++word)
        for (int i = 0; i < EACH; ++i) {
            float sum = 0.0F;
            float count = 0.0F;
            for (int row = 0; row < ROWS; ++row)
                if (chosen[row] == word) {
                    sum += left[row][i];
                    count += 1.0F;
                }
            if (count > 0.0F)
                book[word][i] = 0.5F * book[word][i] + 0.5F * (sum / count);
            else if (wrong == UNUSED_WORDS_SHRINK)
                book[word][i] *= 0.5F;
        }
}

static void pack(unsigned char* message, int place, int word, wrong_word wrong) {
    for (int bit = 0; bit < BITS; ++bit) {
        const int at = place * BITS + bit;
        if ((word >> bit & 1) != 0 && !(wrong == BITS_LOST_OVER_THE_EDGE && at / 8 != place * BITS / 8))
            message[at / 8] = (unsigned char)(message[at / 8] | 1U << at % 8);
    }
}

/* One round: its indices, what is learned from it, and what is left for the next one. */
static void take_round(books* of, int book, float (*left)[EACH], float* z, unsigned char* message,
                       wrong_word wrong) {
    float by[WORDS][EACH];
    memcpy(by, wrong == LEARNING_COPY_ENCODES ? of->learned[book] : of->here[book], sizeof by);
    int chosen[ROWS];
    for (int row = 0; row < ROWS; ++row) {
        chosen[row] = nearest(by, left[row], wrong);
        pack(message, row * BOOKS + book, chosen[row], wrong);
    }
    learn(of->learned[book], left, chosen, wrong);
    for (int row = 0; row < ROWS; ++row)
        for (int i = 0; i < EACH; ++i) {
            const float* words =
                wrong == NEWER_WORDS_DECODE ? of->learned[book][chosen[row]] : of->here[book][chosen[row]];
            z[row * RANK_Z + book / ROUNDS * EACH + i] += words[i];
            if (wrong != SAME_VECTOR_EACH_ROUND)
                left[row][i] -= by[chosen[row]][i];
        }
}

coded encoded(books* of, const float* z, wrong_word wrong) {
    coded made;
    memset(&made, 0, sizeof made);
    float left[ROWS][EACH];
    for (int book = 0; book < BOOKS; ++book) {
        for (int row = 0; row < ROWS && book % ROUNDS == 0; ++row)
            memcpy(left[row], z + row * RANK_Z + book / ROUNDS * EACH, sizeof left[row]);
        take_round(of, book, left, made.z, made.message, wrong);
    }
    int words[TRAVEL];
    turn(wrong == ONE_ORDER_FOR_ALL_TURNS ? of->through % SUBSETS : of->through, words);
    ++of->through;
    unsigned char* to = made.message + INDEX_BYTES;
    for (int book = 0; book < BOOKS; ++book)
        for (int i = 0; i < TRAVEL; ++i) {
            memcpy(of->here[book][words[i]], of->learned[book][words[i]], sizeof(float[EACH]));
            memcpy(to, of->here[book][words[i]], sizeof(float[EACH]));
            to += sizeof(float[EACH]);
        }
    return made;
}
