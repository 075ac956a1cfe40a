// Provides C functions for a MAPL boundary whose data the caller carries, and its steps of A.
#include "mapl_boundary.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <truestep/problem/error.hpp>

#include "values.hpp"

namespace truestep::abi {

std::size_t mapl_side(int32_t side) {
    if (side != TRUESTEP_MAPL_SENDER && side != TRUESTEP_MAPL_RECEIVER)
        throw Error("side is " + std::to_string(side) +
                    "; give TRUESTEP_MAPL_SENDER (0) or TRUESTEP_MAPL_RECEIVER (1)");
    return static_cast<std::size_t>(side);
}

namespace {

/// A matrix of D r values.
distributed::mapl::Floats mapl_values(const problem::mapl::Settings& settings,
                                      const truestep_values& values, const std::string& what) {
    distributed::mapl::Floats room;
    const std::string whole =
        "values of width " + std::to_string(settings.width) + " and rank " + std::to_string(settings.rank);
    const auto all = floats({&values, 1}, settings.width * settings.rank, room, what, whole.c_str());
    must_be_finite(all, what);
    return {all.begin(), all.end()};
}

distributed::mapl::Floats mapl_rows(const problem::mapl::Settings& settings, problem::mapl::Side side,
                                    const truestep_values& given, const std::string& what) {
    if (given.count == 0)
        return problem::mapl::anchor_rows(settings, side);
    distributed::mapl::Floats rows = mapl_values(settings, given, what);
    problem::mapl::check_rows(settings, rows);
    return rows;
}

void set_mapl_rows(truestep_mapl_boundary& boundary, const truestep_mapl_state& state) {
    const problem::mapl::Settings& settings = boundary.settings;
    if (settings.anchors == problem::mapl::Anchors::none) {
        if (state.sender_rows.count != 0 || state.receiver_rows.count != 0)
            throw Error("state: there are rows, and the boundary has anchors=none; leave their count 0");
        return;
    }
    boundary.rows[0] =
        mapl_rows(settings, problem::mapl::Side::sender, state.sender_rows, "state: sender_rows");
    if (settings.anchors == problem::mapl::Anchors::two || state.receiver_rows.count != 0)
        boundary.rows[1] =
            mapl_rows(settings, problem::mapl::Side::receiver, state.receiver_rows, "state: receiver_rows");
    else
        boundary.rows[1] = boundary.rows[0];
    if (settings.anchors != problem::mapl::Anchors::two && boundary.rows[0] != boundary.rows[1])
        throw Error("state: the receiver has other rows than the sender, and anchors=" +
                    std::string(problem::mapl::name(settings.anchors)) + " has one P; give the same");
}

void begin_mapl_step(truestep_mapl_boundary& boundary) {
    for (distributed::mapl::Floats& part : boundary.parts)
        part.assign(boundary.a.size(), 0.0F);
    boundary.batches = {};
}

/// A caller that knows no codewords passes a shorter struct, which suffices if there are none.
void need_mapl_state(const problem::mapl::Settings& settings, const truestep_mapl_state& state) {
    if (problem::mapl::quantizes(settings) ||
        state.struct_size != offsetof(truestep_mapl_state, micro_batches))
        need_size(state.struct_size, sizeof(truestep_mapl_state), "truestep_mapl_state");
}

/// Makes a new boundary. If that fails, an old one is unchanged.
truestep_mapl_boundary made_mapl(const problem::mapl::Settings& settings, const MaplForm* form,
                                 const truestep_mapl_state& state) {
    need_mapl_state(settings, state);
    if (state.steps < 0)
        throw Error("state: steps is " + std::to_string(state.steps) + "; it must be at least 0");
    truestep_mapl_boundary made{.settings = settings, .form = form, .steps = state.steps};
    made.a = state.subspace.count == 0
                 ? problem::mapl::first_subspace(settings.width, settings.rank, settings.seed)
                 : mapl_values(settings, state.subspace, "state: subspace");
    problem::mapl::check_on_manifold(settings, made.a, made.steps);
    made.m = state.moment.count == 0 ? distributed::mapl::Floats(made.a.size(), 0.0F)
                                     : mapl_values(settings, state.moment, "state: moment");
    set_mapl_rows(made, state);
    if (state.struct_size == sizeof state)
        made.codewords = made_mapl_codewords(settings, state);
    begin_mapl_step(made);
    return made;
}

bool step_mapl(truestep_mapl_boundary& boundary, double rate, const distributed::mapl::Floats& gradient) {
    const bool stepped = boundary.form->step(boundary.settings, gradient, rate, boundary.a, boundary.m);
    ++boundary.steps;
    begin_mapl_step(boundary);
    return stepped;
}

bool end_mapl_step(truestep_mapl_boundary& boundary, double rate, const truestep_values* receivers_part) {
    problem::mapl::check_rate(rate);
    if (receivers_part != nullptr && boundary.batches[TRUESTEP_MAPL_RECEIVER] > 0)
        throw Error("step: the receiver's part is given, and this handle has been the receiver too; give "
                    "NULL to take its own");
    if (receivers_part == nullptr && boundary.batches[0] != boundary.batches[1])
        throw Error("step: " + std::to_string(boundary.batches[0]) +
                    " micro-batches have come back through the sender and " +
                    std::to_string(boundary.batches[1]) +
                    " through the receiver; let all come back, or give the part of another receiver");
    const distributed::mapl::Floats& own = boundary.parts[TRUESTEP_MAPL_SENDER];
    distributed::mapl::Floats room;
    const std::span<const float> theirs =
        receivers_part == nullptr ? std::span<const float>(boundary.parts[TRUESTEP_MAPL_RECEIVER])
                                  : floats({receivers_part, 1}, static_cast<int64_t>(own.size()), room,
                                           "receivers_part", "values of the subspace");
    return step_mapl(boundary, rate, distributed::mapl::whole_gradient(own, theirs));
}

bool end_mapl_step_by(truestep_mapl_boundary& boundary, double rate, const truestep_values& gradient) {
    problem::mapl::check_rate(rate);
    distributed::mapl::Floats room;
    const std::span<const float> mean = floats({&gradient, 1}, static_cast<int64_t>(boundary.a.size()),
                                               room, "gradient", "values of the subspace");
    return step_mapl(boundary, rate, {mean.begin(), mean.end()});
}

void follow_mapl(truestep_mapl_boundary& boundary, const truestep_values& subspace) {
    if (boundary.batches[TRUESTEP_MAPL_SENDER] > 0)
        throw Error("follow: this handle has been the sender, whose step it is; call "
                    "truestep_mapl_boundary_step");
    distributed::mapl::Floats a = mapl_values(boundary.settings, subspace, "subspace");
    problem::mapl::check_on_manifold(boundary.settings, a, boundary.steps + 1);
    boundary.a = std::move(a);
    ++boundary.steps;
    begin_mapl_step(boundary);
}

void look_at_mapl(const truestep_mapl_boundary& boundary, truestep_mapl_state& state) {
    need_mapl_state(boundary.settings, state);
    if (boundary.batches[0] + boundary.batches[1] > 0)
        throw Error("state: a step is in progress; end it by step or follow, or forget it");
    if (state.struct_size == sizeof state)
        look_at_mapl_codewords(boundary.codewords, state);
    state.steps = boundary.steps;
    state.subspace = view(boundary.a);
    state.moment = view(boundary.m);
    state.sender_rows = view(boundary.rows[0]);
    state.receiver_rows = view(boundary.rows[1]);
}

} // namespace

extern "C" {

truestep_status truestep_mapl_boundary_create(const char* settings, const truestep_mapl_state* state,
                                              truestep_mapl_boundary** boundary) {
    return guarded([&] {
        need(settings, "settings");
        need(boundary, "boundary");
        const MaplSettings parsed = parse_mapl_settings(settings);
        const auto& form = parsed.reference ? reference_mapl() : optimized_mapl();
        truestep_mapl_state none{};
        none.struct_size = sizeof none;
        *boundary =
            new truestep_mapl_boundary(made_mapl(parsed.boundary, &form, state == nullptr ? none : *state));
    });
}

void truestep_mapl_boundary_destroy(truestep_mapl_boundary* boundary) {
    delete boundary;
}

truestep_status truestep_mapl_boundary_compress(truestep_mapl_boundary* boundary,
                                                const truestep_values* activations,
                                                const truestep_values* anchor, const int64_t* ids,
                                                int64_t tokens, float* q, float* z) {
    return guarded(
        [&] { MaplPass(boundary, TRUESTEP_MAPL_SENDER, ids, tokens).compress(activations, anchor, q, z); });
}

truestep_status truestep_mapl_boundary_decompress(truestep_mapl_boundary* boundary,
                                                  const truestep_values* z, const truestep_values* anchor,
                                                  const int64_t* ids, int64_t tokens, float* xhat) {
    return guarded(
        [&] { MaplPass(boundary, TRUESTEP_MAPL_RECEIVER, ids, tokens).decompress(z, anchor, xhat); });
}

truestep_status truestep_mapl_boundary_decompress_backward(truestep_mapl_boundary* boundary, int64_t step,
                                                           const truestep_values* z,
                                                           const truestep_values* gradient,
                                                           const int64_t* ids, int64_t tokens, float* dz,
                                                           float* anchor_gradient) {
    return guarded([&] {
        MaplPass(boundary, TRUESTEP_MAPL_RECEIVER, ids, tokens)
            .decompress_backward(step, z, gradient, dz, anchor_gradient);
    });
}

truestep_status truestep_mapl_boundary_compress_backward(truestep_mapl_boundary* boundary, int64_t step,
                                                         const truestep_values* q,
                                                         const truestep_values* dz, const int64_t* ids,
                                                         int64_t tokens, float* dx,
                                                         float* anchor_gradient) {
    return guarded([&] {
        MaplPass(boundary, TRUESTEP_MAPL_SENDER, ids, tokens)
            .compress_backward(step, q, dz, dx, anchor_gradient);
    });
}

truestep_status truestep_mapl_boundary_part(const truestep_mapl_boundary* boundary, int32_t side,
                                            truestep_values* part) {
    return guarded([&] { need(part, "part") = view(need(boundary, "boundary").parts[mapl_side(side)]); });
}

truestep_status truestep_mapl_boundary_step(truestep_mapl_boundary* boundary, double rate,
                                            const truestep_values* receivers_part, int32_t* stepped) {
    return guarded([&] {
        const bool went = end_mapl_step(need(boundary, "boundary"), rate, receivers_part);
        if (stepped != nullptr)
            *stepped = went ? 1 : 0;
    });
}

truestep_status truestep_mapl_boundary_step_by(truestep_mapl_boundary* boundary, double rate,
                                               const truestep_values* gradient, int32_t* stepped) {
    return guarded([&] {
        const bool went = end_mapl_step_by(need(boundary, "boundary"), rate, need(gradient, "gradient"));
        if (stepped != nullptr)
            *stepped = went ? 1 : 0;
    });
}

truestep_status truestep_mapl_boundary_follow(truestep_mapl_boundary* boundary,
                                              const truestep_values* subspace) {
    return guarded([&] { follow_mapl(need(boundary, "boundary"), need(subspace, "subspace")); });
}

truestep_status truestep_mapl_boundary_forget(truestep_mapl_boundary* boundary) {
    return guarded([&] { begin_mapl_step(need(boundary, "boundary")); });
}

int64_t truestep_mapl_boundary_steps(const truestep_mapl_boundary* boundary) {
    return boundary == nullptr ? 0 : boundary->steps;
}

truestep_status truestep_mapl_boundary_subspace(const truestep_mapl_boundary* boundary,
                                                truestep_values* subspace) {
    return guarded([&] { need(subspace, "subspace") = view(need(boundary, "boundary").a); });
}

truestep_status truestep_mapl_boundary_distance(const truestep_mapl_boundary* boundary, double* distance,
                                                double* bound) {
    return guarded([&] {
        const auto& mine = need(boundary, "boundary");
        double& to = need(distance, "distance");
        need(bound, "bound") = problem::mapl::manifold_bound(mine.settings, mine.steps);
        to = problem::mapl::distance_to_manifold(mine.a, mine.settings.rank);
    });
}

truestep_status truestep_mapl_boundary_state(const truestep_mapl_boundary* boundary,
                                             truestep_mapl_state* state) {
    return guarded([&] { look_at_mapl(need(boundary, "boundary"), need(state, "state")); });
}

truestep_status truestep_mapl_boundary_restore(truestep_mapl_boundary* boundary,
                                               const truestep_mapl_state* state) {
    return guarded([&] {
        auto& mine = need(boundary, "boundary");
        mine = made_mapl(mine.settings, mine.form, need(state, "state"));
    });
}

} // extern "C"

} // namespace truestep::abi
