/* The C interface of truestep: the sharded optimizer, the reference, the verifier, recorders of traces,
 * GASLoC's worker and MAPL's boundary, for any language that can call C. Link libtruestep (`pkg-config
 * truestep-c`, or truestep::c of CMake's package truestep-c).
 *
 * What holds everywhere:
 *
 * A function that can fail returns a truestep_status. On anything but TRUESTEP_OK nothing was made, nothing
 * changed unless the status says otherwise, and truestep_last_error() has one line that says what, where
 * and what to do. No C++ exception comes out of here.
 *
 * What ..._create gives belongs to the caller and goes by ..._destroy, which takes NULL. A handle is used
 * by one thread at a time; different handles by different threads.
 *
 * Pointers that are given are read during the call alone; those that are handed out live as long as is said
 * there.
 *
 * Functions are added, never changed; TRUESTEP_ABI_VERSION counts what could not be avoided, and
 * TRUESTEP_ABI_MINOR_VERSION what was added since. Structs that may grow begin with their own size, which
 * the caller sets. */
#ifndef TRUESTEP_H
#define TRUESTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRUESTEP_ABI_VERSION 1
#define TRUESTEP_ABI_MINOR_VERSION                                                                         \
    9 /* 1: GASLoC, rank files, fingerprints; 2: parts of gradients, of runs; 3: e5m2; 4: its scale;       \
       * 5: MAPL's boundary; 6: level bf16; 7: gradients that are used up, codewords of MAPL;              \
       * 8: parameter groups in recordings; 9: collectives */

typedef int32_t truestep_status;
#define TRUESTEP_OK 0
#define TRUESTEP_ERROR 1 /* bad input or an impossible setting */
/* A gradient is not finite, or above 2^56: refused on all ranks, nothing changed, the next good step works.
 */
#define TRUESTEP_REFUSED 2
#define TRUESTEP_HALTED 3   /* a parameter turned non-finite: no further step until a state is restored */
#define TRUESTEP_ABORTED 4  /* a rank has failed or not answered in time: no rank takes another step */
#define TRUESTEP_INTERNAL 5 /* no memory, or a bug of ours */

/* TRUESTEP_ABI_VERSION and the minor version of the library that is loaded, and the project's, "0.1.0". */
int32_t truestep_abi_version(void);
int32_t truestep_abi_minor_version(void);
const char* truestep_version(void);

/* The line about this thread's last failure; valid until its next one. */
const char* truestep_last_error(void);

/* Values somewhere in memory. Where several are asked for they stand for one flat vector, one piece after
 * the other; fp32 in one piece is taken without a copy. data NULL: zeros. */
typedef struct truestep_values {
    const void* data;
    int64_t count;
    int32_t type;
} truestep_values;
#define TRUESTEP_F32 0
#define TRUESTEP_BF16 1 /* is taken for the fp32 it stands for, exactly */
#define TRUESTEP_BITS 2 /* of masks: bit i is (byte i/8 >> i%8) & 1; count is of bytes */

/* ---- What is being trained, by how many ranks, and with which settings ---- */

typedef struct truestep_problem truestep_problem;

/* A tensor of the model. always_dense: all of it is synchronized at every step (norms, biases). */
typedef struct truestep_tensor {
    const char* name;
    int64_t size;
    int32_t always_dense;
} truestep_tensor;

/* `settings` is text: key=value, with white space between; what is not given has the default.
 *     algorithm        scape (default) or adams; adams for the reference and the recorder alone
 *     beta1 beta2 epsilon weight_decay clip_norm      0.9 0.95 1e-8 0.1 0 (no clipping)
 *     param_groups     the parameter group of each tensor, 0,0,1; by default all are in group 0. Each has
 *                      its own learning rate, and weight_decay may have a number for each: 0.1,0. For the
 *                      reference and the recorder alone
 *     norm             2 (default) or 1: the order of the norm's sums (sections 5 and 9)
 *     payload          fp32 (default), bf16 or e5m2, of c; bf16_both or e5m2_both, of M, too (section 21)
 *     groups           of ranks: 4,4,2 adds on two levels (section 32); none by default
 *     bias_correction  none, adam (default), momentum
 *     density          0.01 (default), or geometric:START:TARGET:STEPS, or linear:START:TARGET:STEPS
 *     partition        by_shard (default) or by_tensor
 *     reduction        ordered (default) or native: of the optimizer, as is
 *     threads          1: that share one rank's passes; they change no bit */
truestep_status truestep_problem_create(const truestep_tensor* tensors, size_t tensor_count,
                                        int32_t workers, const char* settings, truestep_problem** problem);
void truestep_problem_destroy(truestep_problem* problem);
int64_t truestep_problem_size(const truestep_problem* problem); /* parameters */
/* The share of each segment that the mask used at this step selects; steps are counted from 1. */
truestep_status truestep_problem_density(const truestep_problem* problem, int64_t step, double* density);

/* ---- How ranks exchange data ---- */

typedef struct truestep_communicator truestep_communicator;

#define TRUESTEP_TRAFFIC_KINDS 6 /* agreement, payload, moment, mask, gradient, parameters */

/* A communicator of one's own. All ranks start the same exchanges in the same order; several may be under
 * way at once. A function that starts one puts something into *exchange by which it will be waited for. All
 * sizes are in bytes, one a rank, known on all ranks: none has to travel, and some are 0. The buffers
 * belong to the exchange until it has been waited for, which happens once for each that was started, also
 * after a failure; so a wait has to end. Functions return 0, or another number after truestep_set_error():
 * then the step ends with TRUESTEP_ABORTED and that text. They are called by the thread that calls the
 * optimizer. `traffic` is the kind, from 0 on, in the order above. */
typedef struct truestep_exchanges {
    size_t struct_size; /* sizeof(truestep_exchanges) */
    void* self;         /* is given to all of them */
    int32_t rank;
    int32_t size;
    /* Part r of `send` (the parts stand one after the other) goes to rank r, and part r of `receive` comes
     * from it. */
    int32_t (*all_to_all)(void* self, int32_t traffic, const void* send, const size_t* send_sizes,
                          void* receive, const size_t* receive_sizes, void** exchange);
    /* Part r of `receive` comes from rank r on all ranks; `send` is this rank's own part, and may be its
     * very place there. */
    int32_t (*all_gather)(void* self, int32_t traffic, const void* send, void* receive, const size_t* sizes,
                          void** exchange);
    /* The sum over ranks of this rank's part of `send`, fp32, in any order. NULL: reduction=native is
     * refused. */
    int32_t (*reduce_scatter)(void* self, int32_t traffic, const float* send, float* receive,
                              const size_t* sizes, void** exchange);
    int32_t (*wait)(void* self, void* exchange); /* the exchange is gone afterwards, whatever is returned */
    void (*progress)(void* self);                /* NULL where exchanges move on by themselves */
} truestep_exchanges;
void truestep_set_error(const char* text);

/* The struct is copied; what `self` points to outlives the communicator and every optimizer over it. */
truestep_status truestep_communicator_create(const truestep_exchanges* exchanges,
                                             truestep_communicator** communicator);
/* Optimizers over it keep what they need. */
void truestep_communicator_destroy(truestep_communicator* communicator);

/* Ranks that are threads of this process, each with a communicator of its own. A rank that does not come
 * within the timeout, or whose optimizer and communicator have been destroyed while others wait for it,
 * ends all with TRUESTEP_ABORTED. */
typedef struct truestep_group truestep_group;
truestep_status truestep_group_create(int32_t size, int64_t timeout_milliseconds, truestep_group** group);
void truestep_group_destroy(truestep_group* group); /* communicators outlive it */
truestep_status truestep_group_communicator(truestep_group* group, int32_t rank,
                                            truestep_communicator** communicator);

/* ---- One rank of the sharded optimizer ---- */

typedef struct truestep_optimizer truestep_optimizer;

/* On all ranks, with the same problem and parameters (`count` pieces). communicator NULL: one rank. */
truestep_status truestep_optimizer_create(const truestep_problem* problem,
                                          truestep_communicator* communicator,
                                          const truestep_values* parameters, size_t count,
                                          truestep_optimizer** optimizer);
void truestep_optimizer_destroy(truestep_optimizer* optimizer);

/* On all ranks, each with its own gradient. TRUESTEP_ERROR for what one rank alone is given (a wrong count,
 * a rate that is not finite) is TRUESTEP_ERROR on all: nothing has changed, and the others name that rank.
 */
truestep_status truestep_optimizer_step(truestep_optimizer* optimizer, const truestep_values* gradient,
                                        size_t count, double learning_rate);

/* A step that may write into its gradient (section 20), which it then need not read twice: the same bits.
 * The gradient stands in the optimizer's own memory, `*room`: fp32, as many as the model has, zeros at
 * first, to be written to until the step. There a gradient that is made in its place is not copied either.
 */
truestep_status truestep_optimizer_gradient(truestep_optimizer* optimizer, truestep_values* room);
/* Pieces that stand in their place in that room are taken as they are; others, which stand elsewhere, and
 * zeros are written there first. After the step, also one that was refused, the room is elsewhere or not,
 * and its values mean nothing: ask for it again, and write all of it. What is left behind lasts as long as
 * the optimizer, and is not to be written to. All ranks take a step this way, or none. */
truestep_status truestep_optimizer_step_using_up(truestep_optimizer* optimizer,
                                                 const truestep_values* gradient, size_t count,
                                                 double learning_rate);

/* A step's gradient in parts (section 20): nothing changes before the step, with the bits of their sum at
 * once. A step that is refused or ends with an error has forgotten its parts.
 *
 * Micro-batches: what is given here, in this order, and what the step is given are added, in fp32. Talks to
 * nobody; ranks may have different numbers of parts. */
truestep_status truestep_optimizer_accumulate(truestep_optimizer* optimizer,
                                              const truestep_values* gradient, size_t count);
/* Buckets of the last part: these tensors of the model, counted from 0, and their values, one tensor after
 * the other in this order. They are copied, and their exchange goes on while the next gradients are made.
 * All ranks give the same buckets in the same order, every tensor once, then
 * truestep_optimizer_step_of_parts; else it is TRUESTEP_ERROR on all ranks. */
truestep_status truestep_optimizer_bucket(truestep_optimizer* optimizer, const size_t* tensors,
                                          size_t tensor_count, const truestep_values* values, size_t count);
/* The step whose gradient is what has been accumulated, and the buckets where there are any. */
truestep_status truestep_optimizer_step_of_parts(truestep_optimizer* optimizer, double learning_rate);
/* Gives up what has been given since the last step. On all ranks, where there are buckets. */
truestep_status truestep_optimizer_forget_parts(truestep_optimizer* optimizer);

/* Lets the coming mask move on; for whoever computes for long between two steps. */
truestep_status truestep_optimizer_progress(truestep_optimizer* optimizer);
int64_t truestep_optimizer_steps(const truestep_optimizer* optimizer);

/* What there is to look at. An optimizer's parameters may be written to between steps, by whoever does the
 * same on all ranks, and stay where they are as long as it lives; all else is valid until its next step,
 * restore or load. A view of a reference is valid until the next call with it. */
#define TRUESTEP_PARAMETERS 0
#define TRUESTEP_FIRST_MOMENT 1  /* in full length */
#define TRUESTEP_RESIDUAL 2      /* a rank's own */
#define TRUESTEP_MASK 3          /* of the last step */
#define TRUESTEP_NEXT_MASK 4     /* waits for it: on all ranks */
#define TRUESTEP_LOCAL 5         /* of the reference alone, from here on: c, a rank's own */
#define TRUESTEP_EXCHANGED 6     /* M before clipping */
#define TRUESTEP_RECONSTRUCTED 7 /* ghat */
truestep_status truestep_optimizer_view(truestep_optimizer* optimizer, int32_t what, truestep_values* view);

/* What the last step did on this rank. */
typedef struct truestep_statistics {
    size_t struct_size; /* sizeof(truestep_statistics) */
    int64_t step;
    int64_t selected;                      /* coordinates of its mask */
    int64_t kept;                          /* of those, how many the mask before had too */
    uint64_t sent[TRUESTEP_TRAFFIC_KINDS]; /* bytes to other ranks */
    double gradient_norm;                  /* before clipping; 0 where clipping is off */
    double clip_factor;
    int32_t exponent; /* E of a payload of e5m2 (section 21), which the step was scaled by; else 0 */
} truestep_statistics;
/* A struct without the exponent, as earlier headers have it, is filled as far as it goes. */
truestep_status truestep_optimizer_statistics(const truestep_optimizer* optimizer,
                                              truestep_statistics* statistics);

/* All that a rank's optimizer goes on from. The masks are ignored where step is 0. */
typedef struct truestep_state {
    size_t struct_size; /* sizeof(truestep_state) */
    int64_t step;
    truestep_values parameters;
    truestep_values first_moment; /* in full length */
    truestep_values residual;
    truestep_values mask;
    truestep_values next_mask;
    int32_t exponent; /* of a payload of e5m2, from truestep_optimizer_exponent; else of no matter */
} truestep_state;
/* Of a payload of e5m2 a part of this rank's state, which the next step's scale is made from: the greatest
 * exponent of what it sent in the last step, before that was rounded, -126 to 127; of a step in which all
 * of that was below 2^-126, E of the step less 256. -126 before the first step. */
truestep_status truestep_optimizer_exponent(const truestep_optimizer* optimizer, int32_t* exponent);
/* On all ranks, each with its own. Nothing changes if this rank's is refused. A state without an exponent,
 * as earlier headers have it, is taken where the payload is not e5m2. */
truestep_status truestep_optimizer_restore(truestep_optimizer* optimizer, const truestep_state* state);

/* Checkpoints in a folder that all ranks see, which outlast crashes, for any number of workers afterwards.
 * On all ranks. */
truestep_status truestep_optimizer_save(truestep_optimizer* optimizer, const char* folder);
truestep_status truestep_optimizer_load(truestep_optimizer* optimizer, const char* checkpoint);

/* ---- The reference: all ranks in lockstep, slow and right ---- */

typedef struct truestep_reference truestep_reference;
truestep_status truestep_reference_create(const truestep_problem* problem,
                                          const truestep_values* parameters, size_t count,
                                          truestep_reference** reference);
void truestep_reference_destroy(truestep_reference* reference);
/* One gradient a rank, each of one piece; `workers` of them. The learning rate is that of all parameter
 * groups. */
truestep_status truestep_reference_step(truestep_reference* reference, const truestep_values* gradients,
                                        size_t workers, double learning_rate);
/* `rank` matters for what is a rank's own. Before the first step there are parameters, moment and residuals
 * alone. */
truestep_status truestep_reference_view(truestep_reference* reference, int32_t what, int32_t rank,
                                        truestep_values* view);

/* ---- The verifier ---- */

typedef struct truestep_verdict truestep_verdict;
/* A trace of any system, beside its reference; of what each rank has written by itself the path has a star
 * for the rank's number. level: "exact" (also NULL), "rel" or "bf16"; from: "recorded",
 * "start", or NULL for what the trace allows. A difference is no failure of this call: ask the verdict. */
truestep_status truestep_verify(const char* path, const char* level, const char* from,
                                truestep_verdict** verdict);
/* What each rank of a run has written by itself (docs/specification/traces.md): every rank's file. */
truestep_status truestep_verify_ranks(const char* const* paths, size_t count, const char* level,
                                      const char* from, truestep_verdict** verdict);
/* What truestep.torch.watch wrote of a run's collectives (docs/collectives.md), every rank's file: does
 * each do what it is defined to do? */
truestep_status truestep_check_collectives(const char* const* paths, size_t count,
                                           truestep_verdict** verdict);
/* Makes one trace of them. */
truestep_status truestep_join(const char* const* paths, size_t count, const char* output);
void truestep_verdict_destroy(truestep_verdict* verdict);
int32_t truestep_verdict_passed(const truestep_verdict* verdict);
/* What `truestep verify` prints, and its JSON (docs/using-the-tool.md), with what may be wrong with a run
 * that has failed, but for the mistakes that the gate plants; as long as the verdict. */
const char* truestep_verdict_text(const truestep_verdict* verdict);
const char* truestep_verdict_json(const truestep_verdict* verdict);

/* A vector in 64 bits (docs/specification/traces.md): ranks can tell whether they hold the same one, and
 * runs whether they went the same way, without keeping it. `begin` is the index of the first value in a
 * vector of which these are a part: the parts' fingerprints add up to its own, modulo 2^64. */
truestep_status truestep_fingerprint(const truestep_values* values, uint64_t begin, uint64_t* fingerprint);

/* ---- A recorder of traces, for any optimizer of this problem ---- */

typedef struct truestep_recorder truestep_recorder;
/* `source` says who made the run. Everything is kept in memory until it is written: for a few steps of a
 * small model, or truestep_recorder_keep_in. */
truestep_status truestep_recorder_create(const truestep_problem* problem, const char* source,
                                         const truestep_values* parameters, size_t count,
                                         truestep_recorder** recorder);
void truestep_recorder_destroy(truestep_recorder* recorder);
/* Both before the first step. What is recorded is kept in this file, whose name goes as soon as it is open.
 */
truestep_status truestep_recorder_keep_in(truestep_recorder* recorder, const char* file);
/* Records what one rank alone has, who talks to no other: the file that is written is a part of the run,
 * for truestep_verify_ranks and truestep_join. Its name has to end in rank0.safetensors and so on. */
truestep_status truestep_recorder_of_rank(truestep_recorder* recorder, int32_t rank);
/* Also before the first step. Of the model some segments alone, in full, which the verifier checks bit for
 * bit; what goes wrong elsewhere does not show. `sample`: a share of the coordinates, "0.001" or
 * "0.001:SEED", or tensors, "wq,norm" or "wq@5000" (the segment that holds its index 5000). Every rank
 * gives the same. */
truestep_status truestep_recorder_sample(truestep_recorder* recorder, const char* sample);
/* What is held: begin and end of `*count` stretches of the model, the first `room` of them in `ranges`.
 * truestep_recorder_add takes a vector of the whole model, or these stretches alone, one after the other.
 */
truestep_status truestep_recorder_held(const truestep_recorder* recorder, int64_t* ranges, size_t room,
                                       size_t* count);
/* Also before the first step: so many had been taken by then. The parameters are those at that point, and
 * truestep_recorder_add takes the rest of the state before the first step: "first_moment", and of SCAPE
 * "residual" of every rank and "mask", the one in flight. */
truestep_status truestep_recorder_begin_at(truestep_recorder* recorder, int64_t steps_taken);
truestep_status truestep_recorder_begin_step(truestep_recorder* recorder, double learning_rate);
/* Of the step that has begun: "gradient", of every rank, and any of the results "parameters",
 * "first_moment", "residual", "mask", "next_mask", "local", "exchanged", "reconstructed". What is the same
 * on all ranks is given for rank 0, or for every rank: then the verifier checks that it is the same. */
truestep_status truestep_recorder_add(truestep_recorder* recorder, const char* name, int32_t rank,
                                      const truestep_values* values, size_t count);
/* Of the step that has begun: the learning rate of a parameter group behind the first, whose own is that of
 * truestep_recorder_begin_step. Each group's is given in every step. */
truestep_status truestep_recorder_learning_rate(truestep_recorder* recorder, int64_t param_group,
                                                double learning_rate);
/* Of the step that has begun: the norm of the whole mean gradient before clipping, in double. A sample of a
 * run that is clipped needs it, and nothing else. */
truestep_status truestep_recorder_norm(truestep_recorder* recorder, double norm);
/* Of the step that has begun, of a payload of e5m2: E that it was scaled by (section 21), the same on all
 * ranks; truestep_statistics has it. A sample, and a run recorded from its middle on, need it; in another
 * the verifier holds it against the steps. */
truestep_status truestep_recorder_exponent(truestep_recorder* recorder, int32_t exponent);
/* Writes the trace, or says what is missing: a gradient, or a result that another step or rank has. */
truestep_status truestep_recorder_write(truestep_recorder* recorder, const char* path);

/* ---- GASLoC: one worker (docs/specification/gasloc.md) ---- */

typedef struct truestep_gasloc_problem truestep_gasloc_problem;

/* As truestep_problem_create; always_dense means nothing here. `settings`:
 *     inner            adamw (default), adams or sgd
 *     beta1 beta2 epsilon weight_decay                0.9 0.95 1e-8 0.1, of the inner optimizer
 *     bias_correction  of adams: none, adam (default), momentum
 *     eta alpha gamma  1 1 0.5: outer rate, gossip, momentum; what diverges is refused
 *     momentum         local (default) or gossiped
 *     law              pairs (default), two_peers, ring, exponential, hypercube, complete, none, explicit
 *     seed             1: of the graphs, up to 2^53
 *     edges            of explicit: ROUND:A:B:WEIGHT, with commas between; after the last round the first
 *     allow_unstable   no (default) or yes
 *     threads          1: that share one worker's passes; they change no bit */
truestep_status truestep_gasloc_problem_create(const truestep_tensor* tensors, size_t tensor_count,
                                               int32_t workers, const char* settings,
                                               truestep_gasloc_problem** problem);
void truestep_gasloc_problem_destroy(truestep_gasloc_problem* problem);
int64_t truestep_gasloc_problem_size(const truestep_gasloc_problem* problem);

/* Messages between two ranks, of one's own. Those from one rank to another come in the order in which they
 * were sent; `traffic` and `number` are the same on both sides (0 agreement, 5 parameters; the round), and
 * so is the size. What starts one puts something into *message by which it will be waited for, once, also
 * after a failure; its memory belongs to it until then, so a wait has to end. Each rank asks for a message
 * before it sends to the same peer. Functions return 0, or another number after truestep_set_error(): then
 * the worker ends with TRUESTEP_ABORTED and that text. */
typedef struct truestep_messages {
    size_t struct_size; /* sizeof(truestep_messages) */
    void* self;         /* is given to all of them */
    int32_t rank;
    int32_t size;
    int32_t (*send)(void* self, int32_t traffic, int32_t peer, uint64_t number, const void* data,
                    size_t bytes, void** message);
    int32_t (*receive)(void* self, int32_t traffic, int32_t peer, uint64_t number, void* data, size_t bytes,
                       void** message);
    int32_t (*wait)(void* self, void* message); /* the message is gone afterwards, whatever is returned */
    void (*progress)(void* self);               /* NULL where messages move on by themselves */
} truestep_messages;

/* The struct is copied; what `self` points to outlives the peers and every worker over them. */
typedef struct truestep_peers truestep_peers;
truestep_status truestep_peers_create(const truestep_messages* messages, truestep_peers** peers);
/* Those of a thread in a group, as truestep_group_communicator: who fails or goes ends those that need it.
 */
truestep_status truestep_group_peers(truestep_group* group, int32_t rank, truestep_peers** peers);
void truestep_peers_destroy(truestep_peers* peers); /* workers over them keep what they need */

typedef struct truestep_gasloc_worker truestep_gasloc_worker;

/* On all ranks, with the same problem and parameters: the only time, beside restore and load, that a worker
 * talks to all others. peers NULL: one worker. */
truestep_status truestep_gasloc_worker_create(const truestep_gasloc_problem* problem, truestep_peers* peers,
                                              const truestep_values* parameters, size_t count,
                                              truestep_gasloc_worker** worker);
void truestep_gasloc_worker_destroy(truestep_gasloc_worker* worker);

/* An inner step, of this worker alone, as often as it likes. *counted (or NULL) is 0 where the gradient is
 * not finite: then this round is a skipped one, and theta and inner state are what they were. */
truestep_status truestep_gasloc_worker_step(truestep_gasloc_worker* worker, const truestep_values* gradient,
                                            size_t count, double learning_rate, int32_t* counted);
/* What came of a round. */
typedef struct truestep_gasloc_round {
    size_t struct_size;  /* sizeof(truestep_gasloc_round) */
    int64_t number;      /* from 1 on */
    int64_t inner_steps; /* 0 if it was skipped */
    int32_t skipped;
    int32_t neighbours; /* that it met */
    uint64_t sent;      /* bytes */
} truestep_gasloc_round;
/* Drift, gossip with the neighbours of the round, momentum; waits for them and for nobody else. *round may
 * be NULL. After TRUESTEP_ABORTED or TRUESTEP_HALTED there is no further round. */
truestep_status truestep_gasloc_worker_round(truestep_gasloc_worker* worker, truestep_gasloc_round* round);
int64_t truestep_gasloc_worker_rounds(const truestep_gasloc_worker* worker); /* that were made */
/* Where the next gradient is taken: x, and theta between rounds. Valid until the next call with it;
 * the memory is there as long as the worker. */
truestep_status truestep_gasloc_worker_parameters(truestep_gasloc_worker* worker,
                                                  truestep_values* parameters);

/* All that a worker goes on from, between two rounds. */
typedef struct truestep_gasloc_state {
    size_t struct_size; /* sizeof(truestep_gasloc_state) */
    int64_t rounds;
    int64_t inner_steps; /* of its life */
    truestep_values parameters;
    truestep_values before;        /* what the momentum is made of: the last y, or z of momentum=gossiped */
    truestep_values first_moment;  /* of adams and adamw; else of count 0 */
    truestep_values second_moment; /* of adamw */
} truestep_gasloc_state;
/* Fills it with views that are valid until the next call with the worker. */
truestep_status truestep_gasloc_worker_state(truestep_gasloc_worker* worker, truestep_gasloc_state* state);
/* On all ranks, each with its own, of the same round. Nothing changes if it is refused. */
truestep_status truestep_gasloc_worker_restore(truestep_gasloc_worker* worker,
                                               const truestep_gasloc_state* state);
/* This worker's file in `folder`/round-..., without waiting for others. */
truestep_status truestep_gasloc_worker_save(truestep_gasloc_worker* worker, const char* folder);
/* On all ranks: the folder of a round, of any number of workers. */
truestep_status truestep_gasloc_worker_load(truestep_gasloc_worker* worker, const char* checkpoint);

/* As truestep_recorder, of GASLoC: a step is a round. */
typedef struct truestep_gasloc_recorder truestep_gasloc_recorder;
truestep_status truestep_gasloc_recorder_create(const truestep_gasloc_problem* problem, const char* source,
                                                const truestep_values* parameters, size_t count,
                                                truestep_gasloc_recorder** recorder);
void truestep_gasloc_recorder_destroy(truestep_gasloc_recorder* recorder);
/* One learning rate for each inner step of the worker that takes most. */
truestep_status truestep_gasloc_recorder_begin_round(truestep_gasloc_recorder* recorder,
                                                     const double* learning_rates, size_t count);
/* "gradient.1", "gradient.2", ... in this order, as many as the rank has inner steps (those of a skipped
 * round, too), and any of the results "inner" (x), "first_moment", "second_moment", "drifted" (y),
 * "gossiped" (z), "parameters", of every rank. */
truestep_status truestep_gasloc_recorder_add(truestep_gasloc_recorder* recorder, const char* name,
                                             int32_t rank, const truestep_values* values, size_t count);
truestep_status truestep_gasloc_recorder_write(truestep_gasloc_recorder* recorder, const char* path);

/* ---- MAPL: a boundary between two stages of a pipeline (docs/specification/mapl.md) ---- */

/* Its messages are the caller's to carry. One handle serves both sides where one process has both; else
 * each side has its own, made from the same settings and state. `settings`:
 *     width rank       D and r, which have to be given
 *     vocabulary       1: V, up to 2^32
 *     anchors          none (default), fixed, shared or two
 *     order            project_first (default) or momentum_first
 *     beta             0.9
 *     direction_iterations retraction_iterations      8 2
 *     seed             1: of P, and of the A that nobody gives
 *     payload          fp32 (default), or bf16: z and dz are floats that bf16 holds, and may travel so
 *     codewords        0: z travels as it is; else K of each codebook: as indices of them (section 23.1)
 *     groups rounds subsets decay      1 1 1 0.9: of the codebooks
 *     arithmetic       optimized (default), or reference: the order of sections 22 and 24, slow */
typedef struct truestep_mapl_boundary truestep_mapl_boundary;

/* All that a boundary goes on from, between two steps; matrices stand row after row. What is of count 0
 * when it is given is made: A and P from the seed, m as zeros. */
typedef struct truestep_mapl_state {
    size_t struct_size; /* sizeof(truestep_mapl_state) */
    int64_t steps;
    truestep_values subspace;      /* A, D x r: on the manifold, or it is refused with distance and bound */
    truestep_values moment;        /* m, D x r; the sender's alone moves */
    truestep_values sender_rows;   /* P, r x D; without anchors of count 0 */
    truestep_values receiver_rows; /* another one with anchors=two; else of count 0, or the sender's */
    /* Of codewords. Where there are none a struct that ends before this (of minor version 6) is whole, and
     * these are 0 and of count 0. */
    int64_t micro_batches;     /* that have been encoded or decoded, over all steps */
    truestep_values codebooks; /* C, book after book K codewords of r / groups: what both sides have */
    truestep_values learned;   /* L, the sender's alone; of count 0 when it is given: as codebooks */
} truestep_mapl_state;
/* state NULL: all of it is made. */
truestep_status truestep_mapl_boundary_create(const char* settings, const truestep_mapl_state* state,
                                              truestep_mapl_boundary** boundary);
void truestep_mapl_boundary_destroy(truestep_mapl_boundary* boundary);

/* One micro-batch of `tokens` tokens, each with an id below V, through one side. Every vector that is given
 * is of one piece. `anchor` is this side's E, V x r, the caller's to train; NULL without anchors. What a
 * call that fails has written to its results is of no use; nothing else has changed.
 *
 * Sender: q := X - E[ids] P, which is wanted again for the gradient (NULL without anchors: it is X), and z
 * := q A, N x r. */
truestep_status truestep_mapl_boundary_compress(truestep_mapl_boundary* boundary,
                                                const truestep_values* activations,
                                                const truestep_values* anchor, const int64_t* ids,
                                                int64_t tokens, float* q, float* z);
/* Receiver: xhat := z A^T + E[ids] P, N x D. */
truestep_status truestep_mapl_boundary_decompress(truestep_mapl_boundary* boundary,
                                                  const truestep_values* z, const truestep_values* anchor,
                                                  const int64_t* ids, int64_t tokens, float* xhat);
/* With codewords z travels as a message: indices, packed, then those codewords whose turn it is. Every
 * micro-batch is encoded once, behind compress, and decoded once, before decompress, in the same order:
 * both change the side's codebooks, which no step and no forget takes back. Ids are the caller's to carry.
 *
 * The bytes of a message of so many tokens; 0 without codewords. */
int64_t truestep_mapl_boundary_message_bytes(const truestep_mapl_boundary* boundary, int64_t tokens);
/* Sender: the message of z, and what z will be decoded to, N x r (NULL: it is not wanted). */
truestep_status truestep_mapl_boundary_encode(truestep_mapl_boundary* boundary, const truestep_values* z,
                                              int64_t tokens, void* message, float* decoded);
/* Receiver: z, N x r, for decompress and decompress_backward. `version` is what that of the sender was
 * before it encoded: where this side's is another, the message is refused. NULL: it is not compared. */
truestep_status truestep_mapl_boundary_decode(truestep_mapl_boundary* boundary, const void* message,
                                              int64_t bytes, const uint64_t* version, int64_t tokens,
                                              float* z);
/* The same number where the micro-batches so far and all codebooks are the same: of a side, as below. */
truestep_status truestep_mapl_boundary_version(const truestep_mapl_boundary* boundary, int32_t side,
                                               uint64_t* version);

/* Backward. `step` is what truestep_mapl_boundary_steps said when the micro-batch went forward: what went
 * through another A is refused. Each adds this side's part of the gradient of A to the step's, and the
 * gradient of E to anchor_gradient, V x r, token after token; NULL: it is not wanted, or there is none.
 *
 * Receiver: dz := g A of g = dL/dxhat. */
truestep_status truestep_mapl_boundary_decompress_backward(truestep_mapl_boundary* boundary, int64_t step,
                                                           const truestep_values* z,
                                                           const truestep_values* gradient,
                                                           const int64_t* ids, int64_t tokens, float* dz,
                                                           float* anchor_gradient);
/* Sender: dx := dz A^T. */
truestep_status truestep_mapl_boundary_compress_backward(truestep_mapl_boundary* boundary, int64_t step,
                                                         const truestep_values* q,
                                                         const truestep_values* dz, const int64_t* ids,
                                                         int64_t tokens, float* dx, float* anchor_gradient);

/* A step of the subspace, once all micro-batches are back: the receiver's part goes to the sender, which
 * steps; its new A goes to the receiver, which follows. */
#define TRUESTEP_MAPL_SENDER 0
#define TRUESTEP_MAPL_RECEIVER 1
/* D x r, valid until the next call. */
truestep_status truestep_mapl_boundary_part(const truestep_mapl_boundary* boundary, int32_t side,
                                            truestep_values* part);
/* Sender: a step of SPEL, 0 <= rate < 0.52, with its own part and the receiver's: NULL where this handle
 * has been both sides. *stepped (or NULL) is 0 where the gradient, or what it makes, is not finite: then A
 * and m are what they were, and the step counts all the same. */
truestep_status truestep_mapl_boundary_step(truestep_mapl_boundary* boundary, double rate,
                                            const truestep_values* receivers_part, int32_t* stepped);
/* Sender of a pipeline that stands several times beside itself: the same by a gradient of A that has been
 * made of all replicas', D x r. Theirs are the sender's part + the receiver's; the mean is
 * (((g_0 + g_1) + g_2) + ...) / P, in fp32. All replicas step by the same bits. */
truestep_status truestep_mapl_boundary_step_by(truestep_mapl_boundary* boundary, double rate,
                                               const truestep_values* gradient, int32_t* stepped);
/* Receiver: the step ends with the sender's A. */
truestep_status truestep_mapl_boundary_follow(truestep_mapl_boundary* boundary,
                                              const truestep_values* subspace);
/* Gives up what has come back since the last step. */
truestep_status truestep_mapl_boundary_forget(truestep_mapl_boundary* boundary);

int64_t truestep_mapl_boundary_steps(const truestep_mapl_boundary* boundary); /* that have ended */
/* A, D x r, valid until the next call. */
truestep_status truestep_mapl_boundary_subspace(const truestep_mapl_boundary* boundary,
                                                truestep_values* subspace);
/* |A^T A - I|, the greatest column sum of magnitudes, and what rounding and retraction explain. */
truestep_status truestep_mapl_boundary_distance(const truestep_mapl_boundary* boundary, double* distance,
                                                double* bound);
/* Fills it with views that are valid until the next call. Not in the middle of a step. */
truestep_status truestep_mapl_boundary_state(const truestep_mapl_boundary* boundary,
                                             truestep_mapl_state* state);
/* What has come back since the last step is forgotten. Nothing changes if it is refused. */
truestep_status truestep_mapl_boundary_restore(truestep_mapl_boundary* boundary,
                                               const truestep_mapl_state* state);

#ifdef __cplusplus
}
#endif

#endif
