/* SCAPE as a program that the gate runs, a process a rank. C11 and POSIX, nothing else.

   The first half is the protocol of docs/program-protocol.md, and stays much as it is when your optimizer
   goes in; the second is SCAPE, in the words of docs/specification/. Its ranks talk over sockets of their
   own.

       cc -std=c11 -O2 -ffp-contract=off -o scape_plain docs/examples/programs/scape_plain.c -lm
       build/release/bin/truestep check --program ./scape_plain */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int rank, ranks;
static const char* known_bug; /* "residual" or "order": something for the gate to find */

static void die(const char* what) {
    perror(what); /* the gate tells the last line of the standard error */
    exit(1);
}

static void* room(size_t count, size_t size) {
    void* memory = calloc(count > 0 ? count : 1, size);
    if (memory == NULL)
        die("no memory");
    return memory;
}

/* --- JSON, as far as the gate writes it: one object a line, without blanks.
 * ----------------------------------------- */

static const char* after_value(const char* at) {
    int depth = 0;
    do {
        if (*at == '"') {
            for (++at; *at != '\0' && *at != '"'; ++at)
                if (*at == '\\' && at[1] != '\0')
                    ++at;
        } else if (*at == '{' || *at == '[') {
            ++depth;
        } else if (*at == '}' || *at == ']') {
            --depth;
        }
        if (*at == '\0')
            return at;
        ++at;
    } while (depth > 0 || strchr(",}]", *at) == NULL);
    return at;
}

/* The value of a member of the object at `at`, or NULL. */
static const char* member(const char* at, const char* key) {
    const size_t length = strlen(key);
    while (at != NULL && (*at == '{' || *at == ',')) {
        const char* name = at + 1;
        const char* value = strchr(name, ':');
        if (*name != '"' || value == NULL)
            return NULL;
        if (strncmp(name + 1, key, length) == 0 && name[1 + length] == '"')
            return value + 1;
        at = after_value(value + 1);
    }
    return NULL;
}

static const char* needed(const char* object, const char* key) {
    const char* value = member(object, key);
    if (value == NULL) {
        fprintf(stderr, "the message has no %s\n", key);
        exit(1);
    }
    return value;
}

static double number(const char* object, const char* key) {
    return strtod(needed(object, key), NULL);
}

static bool is(const char* object, const char* key, const char* text) {
    const char* value = needed(object, key);
    return strncmp(value + 1, text, strlen(text)) == 0 && value[1 + strlen(text)] == '"';
}

/* A path: as the gate makes them, they hold nothing that JSON has to escape. */
static const char* path_in(const char* object, const char* key) {
    static char path[4096];
    const char* value = needed(object, key) + 1;
    const size_t length = strcspn(value, "\"");
    if (length >= sizeof path)
        die("too long a path");
    memcpy(path, value, length);
    path[length] = '\0';
    return path;
}

/* --- Files, and ranks that talk: everybody tells rank 0, which tells everybody.
 * ------------------------------------- */

static void read_file(const char* path, void* to, size_t bytes) {
    FILE* file = fopen(path, "rb");
    if (file == NULL || fread(to, 1, bytes, file) != bytes)
        die(path);
    fclose(file);
}

static void write_file(const char* path, const void* from, size_t bytes) {
    FILE* file = fopen(path, "wb");
    if (file == NULL || fwrite(from, 1, bytes, file) != bytes || fclose(file) != 0)
        die(path);
}

static int* others; /* on rank 0 the socket of each rank, elsewhere that of rank 0 */

static void send_all(int to, const void* data, size_t bytes) {
    for (const char* at = data; bytes > 0;) {
        const ssize_t count = send(to, at, bytes, MSG_NOSIGNAL);
        if (count <= 0)
            die("another rank is gone");
        at += count;
        bytes -= (size_t)count;
    }
}

static void receive_all(int from, void* data, size_t bytes) {
    for (char* at = data; bytes > 0;) {
        const ssize_t count = recv(from, at, bytes, 0);
        if (count <= 0)
            die("another rank is gone");
        at += count;
        bytes -= (size_t)count;
    }
}

static void meet(void) {
    others = room((size_t)ranks, sizeof *others);
    if (ranks == 1)
        return;
    if (chdir(getenv("TRUESTEP_RENDEZVOUS")) != 0) /* a socket's path must not be long */
        die("TRUESTEP_RENDEZVOUS");
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "hub.new"};
    const int hub = socket(AF_UNIX, SOCK_STREAM, 0);
    if (rank == 0) {
        if (bind(hub, (struct sockaddr*)&address, sizeof address) != 0 || listen(hub, ranks) != 0 ||
            rename("hub.new", "hub") != 0)
            die("hub");
        for (int i = 1; i < ranks; ++i) {
            int who = 0;
            const int other = accept(hub, NULL, NULL);
            receive_all(other, &who, sizeof who);
            others[who] = other;
        }
        close(hub);
    } else {
        const struct timespec pause = {0, 1000000};
        while (access("hub", F_OK) != 0)
            nanosleep(&pause, NULL);
        strcpy(address.sun_path, "hub");
        if (connect(hub, (struct sockaddr*)&address, sizeof address) != 0)
            die("hub");
        others[0] = hub;
        send_all(hub, &rank, sizeof rank);
    }
}

/* Every rank's bytes, as many of each, in the order of the ranks, on every rank. */
static void all_gather(const void* mine, size_t bytes, void* all) {
    char* const at = all;
    if (rank == 0) {
        memcpy(at, mine, bytes);
        for (int other = 1; other < ranks; ++other)
            receive_all(others[other], at + (size_t)other * bytes, bytes);
        for (int other = 1; other < ranks; ++other)
            send_all(others[other], at, (size_t)ranks * bytes);
    } else {
        send_all(others[0], mine, bytes);
        receive_all(others[0], at, (size_t)ranks * bytes);
    }
}

/* --- SCAPE: sections 4, 5 and 7.
 * ------------------------------------------------------------------------------------ */

struct Segment {
    size_t begin, end;
    int owner;
    bool always_dense;
};

static struct {
    size_t d, segment_count;
    double beta1, beta2, epsilon, weight_decay, clip_norm, density;
    int norm_version;
    bool corrects, momentum; /* the bias correction is not none; it is momentum */
    struct Segment* segments;
    long long t;        /* steps taken */
    bool halted, has_S; /* has_S: next holds S_{t+1}; not before the first step */
    float *w, *m, *e, *c, *g, *ghat, *all;
    unsigned char *mask, *next, *bytes; /* one a coordinate; `bytes` for all ranks */
} s;

static void begin_case(const char* message) {
    float** const vectors[] = {&s.w, &s.m, &s.e, &s.c, &s.g, &s.ghat};
    s.d = (size_t)number(message, "size");
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i) {
        free(*vectors[i]);
        *vectors[i] = room(s.d, sizeof(float));
    }
    free(s.all), free(s.mask), free(s.next), free(s.bytes), free(s.segments);
    s.all = room(s.d * (size_t)ranks, sizeof(float));
    s.mask = room(s.d, 1);
    s.next = room(s.d, 1);
    s.bytes = room(s.d * (size_t)ranks, 1);
    s.beta1 = number(message, "beta1");
    s.beta2 = number(message, "beta2");
    s.epsilon = number(message, "epsilon");
    s.weight_decay = number(message, "weight_decay");
    s.clip_norm = number(message, "clip_norm");
    s.norm_version = (int)number(message, "norm");
    s.density = number(message, "density");
    s.corrects = !is(message, "bias_correction", "none");
    s.momentum = is(message, "bias_correction", "momentum");
    s.t = 0;
    s.halted = s.has_S = false;
    s.segment_count = 0;
    s.segments = room(s.d, sizeof *s.segments); /* none is empty */
    for (const char* at = needed(message, "segments") + 1; *at == '{' || *at == ',';) {
        at += *at == ',';
        s.segments[s.segment_count++] =
            (struct Segment){(size_t)number(at, "begin"), (size_t)number(at, "end"),
                             (int)number(at, "owner"), *needed(at, "always_dense") == 't'};
        at = after_value(at);
    }
    read_file(path_in(message, "parameters"), s.w, s.d * sizeof(float));
}

static int by_score(const void* one, const void* two) {
    const uint32_t a = *(const uint32_t*)one, b = *(const uint32_t*)two;
    const float x = fabsf(s.c[a]), y = fabsf(s.c[b]);
    return x > y ? -1 : x < y ? 1 : a < b ? -1 : 1;
}

/* Owners select in their segments; all get all of it. */
static void make_mask(double density, unsigned char* mask) {
    unsigned char* mine = room(s.d, 1);
    uint32_t* order = room(s.d, sizeof *order);
    for (const struct Segment* segment = s.segments; segment < s.segments + s.segment_count; ++segment) {
        const size_t n = segment->end - segment->begin;
        size_t k = (size_t)(density * (double)n);
        k = segment->always_dense || k > n ? n : k < 1 ? 1 : k;
        if (segment->owner != rank)
            continue;
        for (size_t i = 0; i < n; ++i)
            order[i] = (uint32_t)(segment->begin + i);
        qsort(order, n, sizeof *order, by_score);
        for (size_t i = 0; i < k; ++i)
            mine[order[i]] = 1;
    }
    all_gather(mine, s.d, s.bytes);
    memset(mask, 0, s.d);
    for (size_t i = 0; i < s.d * (size_t)ranks; ++i)
        mask[i % s.d] |= s.bytes[i];
    free(mine);
    free(order);
}

static double power(double base, long long exponent) {
    double result = 1.0;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 != 0)
            result *= base;
    return result;
}

/* Blocks of 4096 values, in each 256 lanes, which are added pairwise; the blocks' sums as a tree, or, in
 * version 1, one after another. */
static double norm(const float* values, size_t count) {
    const size_t blocks = (count + 4095) / 4096;
    double* const sums = room(blocks + 1, sizeof *sums);
    for (size_t begin = 0; begin < count; begin += 4096) {
        double lanes[256] = {0.0};
        for (size_t i = begin; i < count && i < begin + 4096; ++i)
            lanes[(i - begin) % 256] += (double)values[i] * (double)values[i];
        for (size_t width = 128; width > 0; width /= 2)
            for (size_t lane = 0; lane < width; ++lane)
                lanes[lane] += lanes[lane + width];
        sums[begin / 4096] = lanes[0];
    }
    double total = 0.0;
    for (size_t block = 0; s.norm_version == 1 && block < blocks; ++block)
        total += sums[block];
    /* Each pair's sum stands where its first one stood, so that an odd last one moves up as it is. */
    for (size_t apart = 1; apart < blocks; apart *= 2)
        for (size_t at = 0; at + apart < blocks; at += 2 * apart)
            sums[at] += sums[at + apart];
    if (s.norm_version == 2 && blocks > 0)
        total = sums[0];
    free(sums);
    return sqrt(total);
}

/* Section 4.1: the lowest rank's lowest index is named, by all. */
static bool refused(char* answer, size_t room_for_it) {
    int64_t bad = -1;
    for (size_t i = 0; i < s.d && bad < 0; ++i)
        if (!(fabsf(s.g[i]) <= 0x1p56F))
            bad = (int64_t)i;
    int64_t* of_all = room((size_t)ranks, sizeof *of_all);
    all_gather(&bad, sizeof bad, of_all);
    int who = 0;
    while (who < ranks && of_all[who] < 0)
        ++who;
    if (who < ranks)
        snprintf(answer, room_for_it, "\"did\":\"refused\",\"rank\":%d,\"index\":%lld", who,
                 (long long)of_all[who]);
    free(of_all);
    return who < ranks;
}

/* 4 to 8, on the coordinates of the mask. */
static void update(double learning_rate, const float* sums) {
    const float b1 = (float)s.beta1, a1 = (float)(1.0 - s.beta1);
    const float b2 = (float)s.beta2, a2 = (float)(1.0 - s.beta2);
    const float lr = (float)learning_rate, eps = (float)s.epsilon;
    const float decay = (float)(1.0 - learning_rate * s.weight_decay);
    const float inv1 = s.corrects ? (float)(1.0 / (1.0 - power(s.beta1, s.t))) : 1.0F;
    const float invs2 = s.corrects && !s.momentum ? (float)(1.0 / sqrt(1.0 - power(s.beta2, s.t))) : 1.0F;
    size_t k = 0;
    for (size_t i = 0; i < s.d; ++i)
        if (s.mask[i])
            s.ghat[k] = (sums[k] / (float)ranks - b1 * s.m[i]) / a1, ++k;
    float factor = 1.0F;
    if (s.clip_norm > 0.0)
        factor = (float)fmin(1.0, s.clip_norm / (norm(s.ghat, k) + 1e-6));
    k = 0;
    for (size_t i = 0; i < s.d; ++i) {
        s.w[i] = s.w[i] * decay;
        float M = 0.0F;
        if (s.mask[i]) {
            M = sums[k] / (float)ranks;
            float ghat = s.ghat[k++];
            if (s.clip_norm > 0.0) {
                ghat = ghat * factor;
                M = b1 * s.m[i] + a1 * ghat;
            }
            const float q = s.momentum ? s.m[i] * inv1 : s.m[i];
            const float v = b2 * (q * q) + a2 * (ghat * ghat);
            s.w[i] = s.w[i] - lr * ((M * inv1) / (sqrtf(v) * invs2 + eps));
        }
        s.m[i] = M;
        s.halted = s.halted || !isfinite(s.w[i]) || !isfinite(M);
    }
}

static void step(const char* message, char* answer, size_t room_for_it) {
    if (s.halted) {
        snprintf(answer, room_for_it,
                 "\"did\":\"halted\",\"text\":\"w or m is no number; restore a checkpoint\"");
        return;
    }
    read_file(path_in(message, "gradient"), s.g, s.d * sizeof(float));
    if (refused(answer, room_for_it))
        return;
    const float b1 = (float)s.beta1, a1 = (float)(1.0 - s.beta1);
    for (size_t i = 0; i < s.d; ++i)
        s.c[i] = (b1 * s.m[i] + a1 * s.g[i]) + s.e[i];
    if (s.has_S)
        memcpy(s.mask, s.next, s.d);
    else
        make_mask(s.density, s.mask); /* the first, at once; all of it at density 1 */
    make_mask(number(message, "next_density"), s.next);
    s.has_S = true;
    ++s.t;
    /* The exchange: c on the mask, added in the order of the ranks. */
    float* packed = room(s.d, sizeof(float));
    size_t k = 0;
    for (size_t i = 0; i < s.d; ++i)
        if (s.mask[i])
            packed[k++] = s.c[i];
    all_gather(packed, k * sizeof(float), s.all);
    const bool backwards = strcmp(known_bug, "order") == 0;
    for (size_t i = 0; i < k; ++i) {
        packed[i] = s.all[(backwards ? (size_t)ranks - 1 : 0) * k + i];
        for (size_t other = 1; other < (size_t)ranks; ++other)
            packed[i] = packed[i] + s.all[(backwards ? (size_t)ranks - 1 - other : other) * k + i];
    }
    for (size_t i = 0; i < s.d; ++i)
        s.e[i] = s.mask[i] && strcmp(known_bug, "residual") != 0 ? 0.0F : s.c[i];
    update(number(message, "learning_rate"), packed);
    free(packed);
    snprintf(answer, room_for_it,
             s.halted ? "\"did\":\"halted\",\"text\":\"w or m is not finite in step %lld\""
                      : "\"did\":\"taken\",\"step\":%lld",
             s.t);
}

/* Section 7: a file a rank, and one of what is the same on all. */

struct Common {
    long long t;
    int ranks;
    bool halted, has_S;
};

static const char* in_folder(const char* folder, const char* name, int of) {
    static char path[8192];
    snprintf(path, sizeof path, "%s/%s%d", folder, name, of);
    return path;
}

static void save(const char* folder) {
    const struct Common common = {s.t, ranks, s.halted, s.has_S};
    write_file(in_folder(folder, "e", rank), s.e, s.d * sizeof(float));
    if (rank != 0)
        return;
    write_file(in_folder(folder, "common", 0), &common, sizeof common);
    write_file(in_folder(folder, "w", 0), s.w, s.d * sizeof(float));
    write_file(in_folder(folder, "m", 0), s.m, s.d * sizeof(float));
    write_file(in_folder(folder, "next", 0), s.next, s.d);
}

static void restore(const char* folder) {
    struct Common common;
    read_file(in_folder(folder, "common", 0), &common, sizeof common);
    read_file(in_folder(folder, "w", 0), s.w, s.d * sizeof(float));
    read_file(in_folder(folder, "m", 0), s.m, s.d * sizeof(float));
    read_file(in_folder(folder, "next", 0), s.next, s.d);
    s.t = common.t;
    s.halted = common.halted;
    s.has_S = common.has_S;
    read_file(in_folder(folder, "e", common.ranks == ranks ? rank : 0), s.e, s.d * sizeof(float));
    if (common.ranks == ranks)
        return;
    for (int old = 1; old < common.ranks; ++old) {
        read_file(in_folder(folder, "e", old), s.g, s.d * sizeof(float));
        for (size_t i = 0; i < s.d; ++i)
            s.e[i] = s.e[i] + s.g[i];
    }
    for (size_t i = 0; i < s.d; ++i)
        s.e[i] = s.e[i] / (float)common.ranks;
}

/* --- The protocol.
 * -------------------------------------------------------------------------------------------------- */

static void show_mask(const char* path, const unsigned char* mask) {
    const size_t bytes = (s.d + 7) / 8;
    unsigned char* bits = room(bytes, 1);
    for (size_t i = 0; i < s.d; ++i)
        bits[i / 8] |= (unsigned char)(mask[i] << i % 8);
    write_file(path, bits, bytes);
    free(bits);
}

static void view(const char* into) {
    const struct {
        const char* name;
        const float* values;
    } vectors[] = {{"parameters", s.w}, {"moment", s.m}, {"residual", s.e}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i)
        if (member(into, vectors[i].name) != NULL)
            write_file(path_in(into, vectors[i].name), vectors[i].values, s.d * sizeof(float));
    if (member(into, "mask") != NULL)
        show_mask(path_in(into, "mask"), s.mask);
    if (member(into, "next_mask") != NULL)
        show_mask(path_in(into, "next_mask"), s.next);
}

/* False at the end. */
static bool do_it(const char* message, char* answer, size_t room_for_it) {
    if (is(message, "do", "hello")) {
        snprintf(answer, room_for_it,
                 "\"did\":\"hello\",\"protocol\":1,\"name\":\"plain-c\",\"level\":\"exact\","
                 "\"shows\":[\"parameters\",\"moment\",\"residual\",\"mask\",\"next_mask\"],"
                 "\"knows\":[\"norm\"],\"left_out\":{}");
    } else if (is(message, "do", "case")) {
        begin_case(message);
        snprintf(answer, room_for_it, "\"did\":\"case\"");
    } else if (is(message, "do", "step")) {
        step(message, answer, room_for_it);
    } else if (is(message, "do", "view")) {
        view(needed(message, "into"));
        snprintf(answer, room_for_it, "\"did\":\"view\",\"step\":%lld", s.t);
    } else if (is(message, "do", "save")) {
        save(path_in(message, "folder"));
        snprintf(answer, room_for_it, "\"did\":\"save\"");
    } else if (is(message, "do", "restore")) {
        restore(path_in(message, "folder"));
        snprintf(answer, room_for_it, "\"did\":\"restore\"");
    } else if (is(message, "do", "end")) {
        return false;
    } else {
        snprintf(answer, room_for_it, "\"did\":\"error\",\"text\":\"there is no such message\"");
    }
    return true;
}

int main(void) {
    const char* of_rank = getenv("RANK");
    const char* of_ranks = getenv("WORLD_SIZE");
    if (of_rank == NULL || of_ranks == NULL) {
        fputs("RANK and WORLD_SIZE are not set; 'truestep check --program' sets them\n", stderr);
        return 2;
    }
    rank = atoi(of_rank);
    ranks = atoi(of_ranks);
    known_bug = getenv("MISTAKE") != NULL ? getenv("MISTAKE") : "";
    meet();
    char* line = NULL;
    size_t capacity = 0;
    char answer[512];
    while (getline(&line, &capacity, stdin) > 0 && do_it(line, answer, sizeof answer)) {
        printf("{\"id\":%.0f,%s}\n", number(line, "id"), answer);
        fflush(stdout);
    }
    return 0;
}
