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
 * The caller owns what a ..._create function returns and frees it with ..._destroy, which also accepts
 * NULL. One thread at a time may use a handle; different threads may use different handles.
 *
 * A pointer argument is read only during the call. A returned pointer lives as long as its function says.
 *
 * Functions are added, never changed. TRUESTEP_ABI_VERSION counts unavoidable changes, and
 * TRUESTEP_ABI_MINOR_VERSION what was added since the last one. Structs that may grow begin with their own
 * size, which the caller sets. */
#ifndef TRUESTEP_H
#define TRUESTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRUESTEP_ABI_VERSION 1
#define TRUESTEP_ABI_MINOR_VERSION                                                                         \
    11 /* 1: GASLoC, rank files, fingerprints; 2: parts of gradients, of runs; 3: e5m2; 4: its scale;      \
        * 5: MAPL's boundary; 6: level bf16; 7: gradients that are used up, codewords of MAPL;             \
        * 8: parameter groups in recordings; 9: collectives; 10: timelines;                                \
        * 11: summaries */

typedef int32_t truestep_status;
#define TRUESTEP_OK 0
#define TRUESTEP_ERROR 1 /* bad input or an impossible setting */
/* A gradient is not finite, or above 2^56: refused on all ranks, nothing changed, the next good step works.
 */
#define TRUESTEP_REFUSED 2
#define TRUESTEP_HALTED                                                                                    \
    3 /* a parameter turned non-finite, or a step was interrupted: none until a state is restored */
#define TRUESTEP_ABORTED 4  /* a rank has failed or not answered in time: no rank takes another step */
#define TRUESTEP_INTERNAL 5 /* no memory, or a bug of ours */

/* TRUESTEP_ABI_VERSION and the minor version of the library that is loaded, and the project's, "0.1.0". */
int32_t truestep_abi_version(void);
int32_t truestep_abi_minor_version(void);
const char* truestep_version(void);

/* The line about this thread's last failure; valid until its next one. */
const char* truestep_last_error(void);

/* From now on records what each rank of this process does and waits for, and for whom. The first process of
 * a job empties the file. truestep_timeline_write adds the spans to it, as Chrome trace JSON, and ends the
 * recording, as the end of the process does. */
truestep_status truestep_timeline_start(const char* file);
void truestep_timeline_write(void);

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

/* The caller's own communicator. All ranks start the same exchanges in the same order; several may be
 * under way at once. A function that starts one sets *exchange, with which it will be waited for. All
 * sizes are in bytes, one for each rank, and known on all ranks, so they need not travel; some are 0.
 * The buffers belong to the exchange until it has been waited for. That happens once for each that was
 * started, even after a failure, so a wait has to end. Functions return 0, or another number after
 * truestep_set_error(): then the step ends with TRUESTEP_ABORTED and that text. The thread that calls
 * the optimizer calls them. `traffic` is the kind, from 0 on, in the order above. */
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

/* Ranks that are threads of this process, each with its own communicator. A rank that misses the
 * timeout, or whose optimizer and communicator are destroyed while others wait for it, ends all with
 * TRUESTEP_ABORTED. The longest timeout is 10^12. */
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

/* On all ranks, each with its own gradient. If one rank's arguments are wrong (a wrong count, a rate
 * that is not finite), all ranks get TRUESTEP_ERROR: nothing has changed, and the others name that
 * rank. */
truestep_status truestep_optimizer_step(truestep_optimizer* optimizer, const truestep_values* gradient,
                                        size_t count, double learning_rate);

/* A step that may write into its gradient (section 20) need not read it twice; the bits are the same.
 * The gradient is in the optimizer's own memory, `*room`: fp32, the size of the model, initially zeros.
 * Write to it until the step. A gradient that is computed there is not copied. */
truestep_status truestep_optimizer_gradient(truestep_optimizer* optimizer, truestep_values* room);
/* Pieces that are in their place in that memory are not copied; others are copied there first, and
 * zeros are written. After the step, even a refused one, the memory may have moved, and its values mean
 * nothing: get it again, and write all of it. Earlier memory lasts as long as the optimizer, but must
 * not be written to. All ranks take a step this way, or none. */
truestep_status truestep_optimizer_step_using_up(truestep_optimizer* optimizer,
                                                 const truestep_values* gradient, size_t count,
                                                 double learning_rate);

/* A step's gradient in parts (section 20): nothing changes before the step, which has the bits of a
 * single step with their sum. A step that is refused or ends with an error has forgotten its parts.
 *
 * Micro-batches: all accumulated gradients, in this order, and that of the step are added in fp32. This
 * does not talk to other ranks, which may have different numbers of parts. */
truestep_status truestep_optimizer_accumulate(truestep_optimizer* optimizer,
                                              const truestep_values* gradient, size_t count);
/* Buckets of the last part: these tensors of the model, counted from 0, and their values, one tensor
 * after the other in this order. They are copied, and their exchange runs while the next gradients are
 * computed. All ranks give the same buckets in the same order, every tensor once, then call
 * truestep_optimizer_step_of_parts; otherwise all ranks get TRUESTEP_ERROR. */
truestep_status truestep_optimizer_bucket(truestep_optimizer* optimizer, const size_t* tensors,
                                          size_t tensor_count, const truestep_values* values, size_t count);
/* A step with the accumulated gradient, and the buckets if there are any. */
truestep_status truestep_optimizer_step_of_parts(truestep_optimizer* optimizer, double learning_rate);
/* Drops the parts that were given since the last step. With buckets, on all ranks. */
truestep_status truestep_optimizer_forget_parts(truestep_optimizer* optimizer);

/* Advances the exchange of the coming mask; call it during long computations between two steps. */
truestep_status truestep_optimizer_progress(truestep_optimizer* optimizer);
int64_t truestep_optimizer_steps(const truestep_optimizer* optimizer);

/* Vectors that can be viewed. A program may write to an optimizer's parameters between steps, if it
 * does the same on all ranks; their memory lasts as long as the optimizer. Other views are valid until
 * its next step, restore or load. A view of a reference is valid until the next call with it. */
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
/* A struct without the exponent, as in earlier headers, is filled as far as it goes. */
truestep_status truestep_optimizer_statistics(const truestep_optimizer* optimizer,
                                              truestep_statistics* statistics);

/* The state from which a rank's optimizer continues. The masks are ignored if step is 0. */
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
/* With a payload of e5m2, the part of this rank's state that determines the next step's scale: the
 * greatest exponent of what it sent in the last step, before rounding, -126 to 127; if all of it was
 * below 2^-126, the step's E less 256. -126 before the first step. */
truestep_status truestep_optimizer_exponent(const truestep_optimizer* optimizer, int32_t* exponent);
/* On all ranks, each with its own. Nothing changes if this rank's is refused. A state without an
 * exponent, as in earlier headers, suffices unless the payload is e5m2. */
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
/* `rank` matters only for vectors that differ by rank. Before the first step there are only parameters,
 * moment and residuals. */
truestep_status truestep_reference_view(truestep_reference* reference, int32_t what, int32_t rank,
                                        truestep_values* view);

/* ---- The verifier ---- */

typedef struct truestep_verdict truestep_verdict;
/* Compares a trace of any system with its reference. For files that each rank has written by itself,
 * the path has a star for the rank's number. level: "exact" (also NULL), "rel" or "bf16"; from:
 * "recorded", "start", or NULL for what the trace allows. A difference is not a failure of this call:
 * see the verdict. */
truestep_status truestep_verify(const char* path, const char* level, const char* from,
                                truestep_verdict** verdict);
/* The same for the files that each rank of a run has written by itself (docs/specification/traces.md):
 * every rank's file. */
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
/* The text that `truestep verify` prints, and its JSON (docs/using-the-tool.md). They include possible
 * causes of a failed run, except for the gate's known bugs. They last as long as the verdict. */
const char* truestep_verdict_text(const truestep_verdict* verdict);
const char* truestep_verdict_json(const truestep_verdict* verdict);
/* What pages and summaries show of a run, as JSON; of collectives "". It lasts as long as the verdict. */
const char* truestep_verdict_page(const truestep_verdict* verdict);
/* Appends the table of `truestep verify --summary` to a file. `runs`: {"traces": [...]} with the page of
 * each verdict, to which "path" and "command" are added, or {"path", "error"} of bad input. */
truestep_status truestep_add_summary(const char* file, const char* runs);

/* A vector in 64 bits (docs/specification/traces.md): with it ranks can tell whether they hold the same
 * vector, and runs whether they went the same way, without storing it. `begin` is the index of the
 * first value if these are a part of a vector: the parts' fingerprints add up to that of the vector,
 * modulo 2^64. */
truestep_status truestep_fingerprint(const truestep_values* values, uint64_t begin, uint64_t* fingerprint);

/* ---- A recorder of traces, for any optimizer of this problem ---- */

typedef struct truestep_recorder truestep_recorder;
/* `source` names what made the run. Everything stays in memory until it is written: record a few steps
 * of a small model, or call truestep_recorder_keep_in. */
truestep_status truestep_recorder_create(const truestep_problem* problem, const char* source,
                                         const truestep_values* parameters, size_t count,
                                         truestep_recorder** recorder);
void truestep_recorder_destroy(truestep_recorder* recorder);
/* Call both before the first step. The recording is stored in this file, whose name is removed as soon
 * as it is open. */
truestep_status truestep_recorder_keep_in(truestep_recorder* recorder, const char* file);
/* Records only this rank, without talking to others: the file is a part of the run, for
 * truestep_verify_ranks and truestep_join. Its name has to end in rank0.safetensors and so on. */
truestep_status truestep_recorder_of_rank(truestep_recorder* recorder, int32_t rank);
/* Also before the first step. Records only some segments of the model, in full, which the verifier
 * checks bit for bit; errors elsewhere do not show. `sample`: a share of the coordinates, "0.001" or
 * "0.001:SEED", or tensors, "wq,norm" or "wq@5000" (the segment that holds its index 5000). Every rank
 * gives the same. */
truestep_status truestep_recorder_sample(truestep_recorder* recorder, const char* sample);
/* The recorded parts: begin and end of `*count` stretches of the model, the first `room` of them in
 * `ranges`. truestep_recorder_add takes a vector of the whole model, or only these stretches, one after
 * the other. A mask whose bytes are as many as theirs is taken for theirs. */
truestep_status truestep_recorder_held(const truestep_recorder* recorder, int64_t* ranges, size_t room,
                                       size_t* count);
/* Also before the first step: the number of steps taken before. The parameters are those at that point,
 * and before the first step truestep_recorder_add takes the rest of the state: "first_moment", and for
 * SCAPE "residual" of every rank and "mask", the one in flight. */
truestep_status truestep_recorder_begin_at(truestep_recorder* recorder, int64_t steps_taken);
truestep_status truestep_recorder_begin_step(truestep_recorder* recorder, double learning_rate);
/* Adds to the current step: "gradient", of every rank, and any of the results "parameters",
 * "first_moment", "residual", "mask", "next_mask", "local", "exchanged", "reconstructed". Vectors that
 * are equal on all ranks are given for rank 0, or for every rank: then the verifier checks that they
 * are equal. */
truestep_status truestep_recorder_add(truestep_recorder* recorder, const char* name, int32_t rank,
                                      const truestep_values* values, size_t count);
/* Sets the current step's learning rate of a parameter group after the first, whose rate is that of
 * truestep_recorder_begin_step. Call it for each group in every step. */
truestep_status truestep_recorder_learning_rate(truestep_recorder* recorder, int64_t param_group,
                                                double learning_rate);
/* Sets the current step's norm of the whole mean gradient before clipping, in double. Only a sample of
 * a clipped run needs it. */
truestep_status truestep_recorder_norm(truestep_recorder* recorder, double norm);
/* Sets the current step's E, the scale of a payload of e5m2 (section 21), the same on all ranks;
 * truestep_statistics has it. A sample, and a run recorded from its middle, need it; otherwise the
 * verifier compares it with the steps. */
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

/* The caller's own messages between two ranks. Those from one rank to another arrive in the order in
 * which they were sent; `traffic` and `number` are the same on both sides (0 agreement, 5 parameters;
 * the round), and so is the size. A function that starts one sets *message, with which it will be
 * waited for once, even after a failure; the memory belongs to the message until then, so a wait has to
 * end. Each rank asks for a message before it sends to the same peer. Functions return 0, or another
 * number after truestep_set_error(): then the worker ends with TRUESTEP_ABORTED and that text. */
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
/* Peers of a thread in a group, like truestep_group_communicator: a rank that fails or leaves ends
 * those that need it. */
truestep_status truestep_group_peers(truestep_group* group, int32_t rank, truestep_peers** peers);
void truestep_peers_destroy(truestep_peers* peers); /* workers over them keep what they need */

typedef struct truestep_gasloc_worker truestep_gasloc_worker;

/* On all ranks, with the same problem and parameters. Only here, and in restore and load, a worker
 * talks to all others. peers NULL: one worker. */
truestep_status truestep_gasloc_worker_create(const truestep_gasloc_problem* problem, truestep_peers* peers,
                                              const truestep_values* parameters, size_t count,
                                              truestep_gasloc_worker** worker);
void truestep_gasloc_worker_destroy(truestep_gasloc_worker* worker);

/* An inner step of this worker alone, any number of times. *counted (or NULL) is 0 if the gradient is
 * not finite: then this round is skipped, and theta and inner state are unchanged. */
truestep_status truestep_gasloc_worker_step(truestep_gasloc_worker* worker, const truestep_values* gradient,
                                            size_t count, double learning_rate, int32_t* counted);
/* The outcome of a round. */
typedef struct truestep_gasloc_round {
    size_t struct_size;  /* sizeof(truestep_gasloc_round) */
    int64_t number;      /* from 1 on */
    int64_t inner_steps; /* 0 if it was skipped */
    int32_t skipped;
    int32_t neighbours; /* that it met */
    uint64_t sent;      /* bytes */
} truestep_gasloc_round;
/* Drift, gossip with the neighbours of the round, momentum; waits only for these neighbours. *round may
 * be NULL. After TRUESTEP_ABORTED or TRUESTEP_HALTED there is no further round. */
truestep_status truestep_gasloc_worker_round(truestep_gasloc_worker* worker, truestep_gasloc_round* round);
int64_t truestep_gasloc_worker_rounds(const truestep_gasloc_worker* worker); /* that were made */
/* The parameters at which the next gradient is taken: x, and theta between rounds. Valid until the next
 * call with the worker, whose lifetime the memory has. */
truestep_status truestep_gasloc_worker_parameters(truestep_gasloc_worker* worker,
                                                  truestep_values* parameters);

/* The state from which a worker continues, between two rounds. */
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
/* On all ranks, each with its own, of the same round. Nothing changes if it is refused. A rank that has
 * none gives NULL, which is an error on all ranks. */
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
 *     seed             1: of P, and of an A that is not given
 *     payload          fp32 (default), or bf16: z and dz are floats that bf16 holds, and may travel so
 *     codewords        0: z travels as it is; else K of each codebook: as indices of them (section 23.1)
 *     groups rounds subsets decay      1 1 1 0.9: of the codebooks
 *     arithmetic       optimized (default), or reference: the order of sections 22 and 24, slow */
typedef struct truestep_mapl_boundary truestep_mapl_boundary;

/* The state from which a boundary continues, between two steps; matrices are stored row after row.
 * Parts of count 0 in a given state are made: A and P from the seed, m as zeros. */
typedef struct truestep_mapl_state {
    size_t struct_size; /* sizeof(truestep_mapl_state) */
    int64_t steps;
    truestep_values subspace;      /* A, D x r: on the manifold, or it is refused with distance and bound */
    truestep_values moment;        /* m, D x r; the sender's alone moves */
    truestep_values sender_rows;   /* P, r x D; without anchors of count 0 */
    truestep_values receiver_rows; /* another one with anchors=two; else of count 0, or the sender's */
    /* With codewords. Without them, a struct that ends before this (of minor version 6) is complete,
     * and these are 0 and of count 0. */
    int64_t micro_batches;     /* that have been encoded or decoded, over all steps */
    truestep_values codebooks; /* C, book after book K codewords of r / groups: what both sides have */
    truestep_values learned;   /* L, the sender's alone; of count 0 when it is given: as codebooks */
} truestep_mapl_state;
/* state NULL: all parts are made. */
truestep_status truestep_mapl_boundary_create(const char* settings, const truestep_mapl_state* state,
                                              truestep_mapl_boundary** boundary);
void truestep_mapl_boundary_destroy(truestep_mapl_boundary* boundary);

/* Passes one micro-batch of `tokens` tokens, each with an id below V, through one side. Every given
 * vector is of one piece. `anchor` is this side's E, V x r, which the caller trains; NULL without
 * anchors. After a failed call its results are useless; nothing else has changed.
 *
 * Sender: q := X - E[ids] P, which the gradient needs again (NULL without anchors: it is X), and z := q
 * A, N x r. */
truestep_status truestep_mapl_boundary_compress(truestep_mapl_boundary* boundary,
                                                const truestep_values* activations,
                                                const truestep_values* anchor, const int64_t* ids,
                                                int64_t tokens, float* q, float* z);
/* Receiver: xhat := z A^T + E[ids] P, N x D. */
truestep_status truestep_mapl_boundary_decompress(truestep_mapl_boundary* boundary,
                                                  const truestep_values* z, const truestep_values* anchor,
                                                  const int64_t* ids, int64_t tokens, float* xhat);
/* With codewords z travels as a message: indices, packed, then the codewords whose turn it is. Every
 * micro-batch is encoded once, after compress, and decoded once, before decompress, in the same order:
 * both change the side's codebooks, which no step and no forget undoes. The caller carries the ids.
 *
 * The bytes of a message of so many tokens; 0 without codewords. */
int64_t truestep_mapl_boundary_message_bytes(const truestep_mapl_boundary* boundary, int64_t tokens);
/* Sender: the message of z, and what z will be decoded to, N x r (NULL if not needed). */
truestep_status truestep_mapl_boundary_encode(truestep_mapl_boundary* boundary, const truestep_values* z,
                                              int64_t tokens, void* message, float* decoded);
/* Receiver: z, N x r, for decompress and decompress_backward. `version` is that of the sender before it
 * encoded: if this side's differs, the message is refused. NULL: it is not compared. */
truestep_status truestep_mapl_boundary_decode(truestep_mapl_boundary* boundary, const void* message,
                                              int64_t bytes, const uint64_t* version, int64_t tokens,
                                              float* z);
/* A side's version: the same number if the micro-batches so far and all codebooks are the same; `side`
 * as below. */
truestep_status truestep_mapl_boundary_version(const truestep_mapl_boundary* boundary, int32_t side,
                                               uint64_t* version);

/* Backward. `step` is the value of truestep_mapl_boundary_steps at the forward pass; micro-batches that
 * went through another A are refused. Each call adds this side's part of the gradient of A to the
 * step's, and the gradient of E to anchor_gradient, V x r, token after token; NULL if it is not needed,
 * or without anchors.
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
/* Sender: a step of SPEL, 0 <= rate < 0.52, with its own part and the receiver's: NULL if this handle
 * has been both sides. *stepped (or NULL) is 0 if the gradient, or its result, is not finite: then A
 * and m are unchanged, and the step still counts. */
truestep_status truestep_mapl_boundary_step(truestep_mapl_boundary* boundary, double rate,
                                            const truestep_values* receivers_part, int32_t* stepped);
/* Sender in one of several replicas of a pipeline: the same with a gradient of A from all replicas, D x
 * r. A replica's gradient is the sender's part + the receiver's; the mean is (((g_0 + g_1) + g_2) +
 * ...) / P, in fp32. All replicas step by the same bits. */
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
