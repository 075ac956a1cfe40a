// Provides C functions for one rank of SCAPE: steps, gradients in parts or buckets, its state.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/scape/checkpoint.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/problem/error.hpp>

#include "communicator.hpp"
#include "problem.hpp"
#include "values.hpp"

struct truestep_optimizer {
    std::shared_ptr<truestep::distributed::Communicator> communicator;
    std::unique_ptr<truestep::distributed::scape::Scape> optimizer;
    std::vector<float> gathered; ///< a gradient that came in pieces
    truestep::distributed::AlignedFloats
        used_up;                 ///< memory that a step may write into; empty until requested
    std::vector<float> bucketed; ///< one that comes in buckets, complete at the step
    std::vector<float> moment;   ///< in full length, at the last look
};

namespace truestep::abi {

namespace {

using distributed::Mask;
using distributed::scape::RankState;

distributed::scape::Scape& of(truestep_optimizer* handle) {
    return *need(handle, "optimizer").optimizer;
}

std::shared_ptr<distributed::Communicator> communicator_for(const truestep_problem& problem,
                                                            truestep_communicator* given) {
    auto communicator =
        given != nullptr ? given->communicator : distributed::InProcessGroup(1).communicator(0);
    if (communicator->size() != problem.problem.workers)
        throw Error("the problem has " + std::to_string(problem.problem.workers) +
                    " workers and the communicator " + std::to_string(communicator->size()) +
                    " ranks; make the problem with as many workers");
    if (given != nullptr && !given->sums &&
        problem.settings.reduction == distributed::scape::Reduction::native)
        throw Error(
            "settings: reduction is native, and the communicator has no reduce_scatter; use ordered");
    return communicator;
}

std::unique_ptr<truestep_optimizer> make(const truestep_problem& problem,
                                         truestep_communicator* communicator,
                                         std::span<const truestep_values> parameters) {
    if (problem.problem.algorithm != problem::Algorithm::scape)
        throw Error("settings: algorithm is adams, which the reference and the recorder know; the "
                    "optimizer is scape");
    auto handle = std::make_unique<truestep_optimizer>();
    handle->communicator = communicator_for(problem, communicator);
    const auto start = floats(parameters, problem.problem.layout.size(), handle->gathered, "parameters");
    auto ranges =
        problem::ranges(problem.problem.layout, problem.problem.workers, problem.settings.partition);
    auto backend = distributed::scape::make_host_backend(problem.problem, start, problem.settings.threads);
    handle->optimizer = std::make_unique<distributed::scape::Scape>(
        problem.problem, std::move(ranges), problem.settings.density, std::move(backend),
        *handle->communicator, distributed::scape::Scape::Options{problem.settings.reduction});
    handle->gathered = {};
    return handle;
}

void refuse_after_buckets(const truestep_optimizer& handle) {
    if (handle.optimizer->in_buckets())
        throw Error("a step with a gradient, after buckets of one; call truestep_optimizer_step_of_parts");
}

std::span<const float> gradient_of(truestep_optimizer& handle, const truestep_values* gradient,
                                   std::size_t count) {
    return floats(pieces(gradient, count, "gradient"), handle.optimizer->problem().layout.size(),
                  handle.gathered, "gradient");
}

/// Prepares a step, or a bucket of it. If only this rank fails, its error ends the step on all
/// ranks, which would otherwise wait for it.
template <class Prepare, class Refuse>
auto prepared_or(const Prepare& prepare, const Refuse& refuse) {
    try {
        return prepare();
    } catch (const std::exception& error) {
        try {
            refuse(error.what());
        } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): the first one is thrown
        }
        throw;
    }
}

template <class Prepare>
auto prepared(truestep_optimizer& handle, double learning_rate, const Prepare& prepare) {
    return prepared_or(
        [&] {
            check_rate(learning_rate);
            return prepare();
        },
        [&](const char* fault) { handle.optimizer->refuse_step(fault); });
}

/// Memory for a gradient, initially zeros.
distributed::AlignedFloats& gradient_room(truestep_optimizer& handle) {
    handle.used_up.resize(static_cast<std::size_t>(handle.optimizer->problem().layout.size()));
    return handle.used_up;
}

/// Copies the values of these tensors to their places in the gradient.
void place(truestep_optimizer& handle, std::span<const std::size_t> tensors,
           std::span<const truestep_values> given) {
    const problem::Layout& layout = handle.optimizer->problem().layout;
    problem::Index size = 0;
    for (const std::size_t tensor : tensors)
        if (tensor < layout.tensors().size()) // others are told to all ranks
            size += layout.tensors()[tensor].size;
    std::vector<float> room;
    const auto values = floats(given, size, room, "bucket", "values of its tensors");
    std::size_t at = 0;
    for (const std::size_t tensor : tensors)
        if (tensor < layout.tensors().size()) {
            const auto count = static_cast<std::size_t>(layout.tensors()[tensor].size);
            std::ranges::copy(values.subspan(at, count), handle.bucketed.begin() + layout.begin(tensor));
            at += count;
        }
}

void bucket(truestep_optimizer& handle, const std::size_t* first, std::size_t tensor_count,
            const truestep_values* values, std::size_t count) {
    const std::span<const std::size_t> tensors{first, tensor_count};
    handle.bucketed.resize(static_cast<std::size_t>(handle.optimizer->problem().layout.size()));
    prepared_or(
        [&] {
            if (tensor_count > 0)
                need(first, "tensors");
            place(handle, tensors, pieces(values, count, "values"));
        },
        // All ranks refuse a bucket without tensors.
        [&](const char*) { handle.optimizer->bucket({}, handle.bucketed); });
    handle.optimizer->bucket(tensors, handle.bucketed);
}

/// A mask's words are its bytes on supported machines (little-endian, like the trace format).
truestep_values bits_of(const Mask& mask) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(mask.words());
    return view(std::span(bytes, static_cast<std::size_t>((mask.size() + 7) / 8)));
}

truestep_values look(truestep_optimizer& handle, std::int32_t what) {
    distributed::scape::Scape& optimizer = *handle.optimizer;
    switch (what) {
    case TRUESTEP_PARAMETERS:
        return view(optimizer.parameters());
    case TRUESTEP_FIRST_MOMENT:
        handle.moment = optimizer.moment();
        return view(handle.moment);
    case TRUESTEP_RESIDUAL:
        return view(optimizer.residual());
    case TRUESTEP_MASK:
        return bits_of(optimizer.mask());
    case TRUESTEP_NEXT_MASK:
        return bits_of(optimizer.coming_mask());
    default:
        throw Error("view: there is no " + std::to_string(what) +
                    " of an optimizer; give TRUESTEP_PARAMETERS (0) to TRUESTEP_NEXT_MASK (4)");
    }
}

Mask mask_of(const truestep_values& values, problem::Index size, const char* what) {
    const auto bytes = bits(values, size, what);
    Mask mask(size);
    std::memcpy(mask.words(), bytes.data(), bytes.size());
    mask.count();
    return mask;
}

std::vector<float> copy(const truestep_values& values, problem::Index size, const char* what) {
    std::vector<float> room;
    const auto given = floats({&values, 1}, size, room, what);
    return {given.begin(), given.end()};
}

/// m is +0 off the mask, so keeping the values on it loses nothing.
std::vector<float> packed(const std::vector<float>& moment, const Mask& mask) {
    std::vector<float> result;
    for (std::size_t i = 0; i < moment.size(); ++i)
        if (mask.test(static_cast<problem::Index>(i)))
            result.push_back(moment[i]);
        else if (moment[i] != 0.0F)
            throw Error("restore: the first moment at coordinate " + std::to_string(i) +
                        " is not 0, and the mask does not select it; give the mask of the same step");
    return result;
}

void restore(distributed::scape::Scape& optimizer, const truestep_state& given) {
    const bool scaled = format_of(optimizer.problem().settings.payload) == problem::Payload::e5m2;
    if (scaled || given.struct_size != offsetof(truestep_state, exponent))
        need_size(given.struct_size, sizeof(truestep_state), "truestep_state");
    if (given.step < 0)
        throw Error("restore: step is " + std::to_string(given.step) + "; it must be at least 0");
    const problem::Index size = optimizer.problem().layout.size();
    RankState state{given.step,
                    copy(given.parameters, size, "restore: parameters"),
                    copy(given.residual, size, "restore: residual"),
                    {},
                    Mask(size),
                    Mask(size),
                    scaled ? given.exponent : RankState::least_exponent};
    if (given.step > 0) {
        state.current = mask_of(given.mask, size, "restore: mask");
        state.coming = mask_of(given.next_mask, size, "restore: next_mask");
    }
    state.packed_moment = packed(copy(given.first_moment, size, "restore: first_moment"), state.current);
    optimizer.check_restorable(state);
    optimizer.restore(state);
}

} // namespace

extern "C" {

truestep_status truestep_optimizer_create(const truestep_problem* problem,
                                          truestep_communicator* communicator,
                                          const truestep_values* parameters, size_t count,
                                          truestep_optimizer** optimizer) {
    return guarded([&] {
        need(problem, "problem");
        need(optimizer, "optimizer");
        *optimizer = make(*problem, communicator, pieces(parameters, count, "parameters")).release();
    });
}

void truestep_optimizer_destroy(truestep_optimizer* optimizer) {
    delete optimizer;
}

truestep_status truestep_optimizer_step(truestep_optimizer* optimizer, const truestep_values* gradient,
                                        size_t count, double learning_rate) {
    return guarded([&] {
        auto& of_rank = of(optimizer);
        const auto whole = prepared(*optimizer, learning_rate, [&] {
            refuse_after_buckets(*optimizer);
            return gradient_of(*optimizer, gradient, count);
        });
        of_rank.step(whole, learning_rate);
    });
}

truestep_status truestep_optimizer_gradient(truestep_optimizer* optimizer, truestep_values* room) {
    return guarded([&] { need(room, "room") = view(gradient_room(need(optimizer, "optimizer"))); });
}

truestep_status truestep_optimizer_step_using_up(truestep_optimizer* optimizer,
                                                 const truestep_values* gradient, size_t count,
                                                 double learning_rate) {
    return guarded([&] {
        auto& of_rank = of(optimizer);
        auto& room = gradient_room(*optimizer);
        prepared(*optimizer, learning_rate, [&] {
            refuse_after_buckets(*optimizer);
            gather(pieces(gradient, count, "gradient"), room, "gradient");
        });
        of_rank.step_using_up(room, learning_rate);
    });
}

truestep_status truestep_optimizer_accumulate(truestep_optimizer* optimizer,
                                              const truestep_values* gradient, size_t count) {
    return guarded([&] { of(optimizer).accumulate(gradient_of(*optimizer, gradient, count)); });
}

truestep_status truestep_optimizer_bucket(truestep_optimizer* optimizer, const size_t* tensors,
                                          size_t tensor_count, const truestep_values* values,
                                          size_t count) {
    return guarded([&] { bucket(need(optimizer, "optimizer"), tensors, tensor_count, values, count); });
}

truestep_status truestep_optimizer_step_of_parts(truestep_optimizer* optimizer, double learning_rate) {
    return guarded([&] {
        auto& of_rank = of(optimizer);
        prepared(*optimizer, learning_rate, [] {});
        if (!of_rank.in_buckets())
            return of_rank.step(learning_rate);
        of_rank.step(std::span<const float>(optimizer->bucketed), learning_rate);
    });
}

truestep_status truestep_optimizer_forget_parts(truestep_optimizer* optimizer) {
    return guarded([&] { of(optimizer).forget_parts(); });
}

truestep_status truestep_optimizer_progress(truestep_optimizer* optimizer) {
    return guarded([&] { of(optimizer).progress(); });
}

int64_t truestep_optimizer_steps(const truestep_optimizer* optimizer) {
    return optimizer == nullptr ? 0 : optimizer->optimizer->steps();
}

truestep_status truestep_optimizer_view(truestep_optimizer* optimizer, int32_t what,
                                        truestep_values* view) {
    return guarded([&] { need(view, "view") = look(need(optimizer, "optimizer"), what); });
}

truestep_status truestep_optimizer_statistics(const truestep_optimizer* optimizer,
                                              truestep_statistics* statistics) {
    return guarded([&] {
        const auto& last = need(optimizer, "optimizer").optimizer->statistics();
        const size_t size = need(statistics, "statistics").struct_size;
        if (size != offsetof(truestep_statistics, exponent))
            need_size(size, sizeof(truestep_statistics), "truestep_statistics");
        static_assert(TRUESTEP_TRAFFIC_KINDS == distributed::traffic_kinds);
        truestep_statistics all = {size,
                                   last.step,
                                   last.selected,
                                   last.kept,
                                   {},
                                   last.gradient_norm,
                                   static_cast<double>(last.clip_factor),
                                   last.exponent};
        std::copy(last.sent.begin(), last.sent.end(), all.sent);
        std::memcpy(statistics, &all, size);
    });
}

truestep_status truestep_optimizer_exponent(const truestep_optimizer* optimizer, int32_t* exponent) {
    return guarded(
        [&] { need(exponent, "exponent") = need(optimizer, "optimizer").optimizer->exponent(); });
}

truestep_status truestep_optimizer_restore(truestep_optimizer* optimizer, const truestep_state* state) {
    return guarded([&] { restore(of(optimizer), need(state, "state")); });
}

truestep_status truestep_optimizer_save(truestep_optimizer* optimizer, const char* folder) {
    return guarded([&] {
        need(folder, "folder");
        const truestep_optimizer& handle = need(optimizer, "optimizer");
        distributed::scape::save_checkpoint(*handle.optimizer, *handle.communicator, folder);
    });
}

truestep_status truestep_optimizer_load(truestep_optimizer* optimizer, const char* checkpoint) {
    return guarded([&] {
        need(checkpoint, "checkpoint");
        const truestep_optimizer& handle = need(optimizer, "optimizer");
        distributed::scape::restore_checkpoint(*handle.optimizer, *handle.communicator, checkpoint);
    });
}

} // extern "C"

} // namespace truestep::abi
