#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <scape/distributed/checkpoint.hpp>
#include <scape/distributed/host_backend.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

#include "communicator.hpp"
#include "problem.hpp"
#include "values.hpp"

struct scape_optimizer {
    std::shared_ptr<scape::distributed::Communicator> communicator;
    std::unique_ptr<scape::distributed::Scape> optimizer;
    std::vector<float> gathered; ///< a gradient that came in pieces
    scape::distributed::AlignedFloats
        used_up;                 ///< room for one that a step may write into; empty until asked for
    std::vector<float> bucketed; ///< one that comes in buckets; it stands as it is until the step
    bool in_buckets = false;     ///< since the last step
    std::vector<float> moment;   ///< in full length, for whoever looked last
};

namespace scape::abi {

namespace {

using distributed::Mask;
using distributed::RankState;

distributed::Scape& of(scape_optimizer* handle) {
    need(handle, "optimizer");
    return *handle->optimizer;
}

std::shared_ptr<distributed::Communicator> communicator_for(const scape_problem& problem,
                                                            scape_communicator* given) {
    auto communicator =
        given != nullptr ? given->communicator : distributed::InProcessGroup(1).communicator(0);
    if (communicator->size() != problem.problem.workers)
        throw Error("the problem has " + std::to_string(problem.problem.workers) +
                    " workers and the communicator " + std::to_string(communicator->size()) +
                    " ranks; make the problem with as many workers");
    if (given != nullptr && !given->sums && problem.settings.reduction == distributed::Reduction::native)
        throw Error(
            "settings: reduction is native, and the communicator has no reduce_scatter; use ordered");
    return communicator;
}

std::unique_ptr<scape_optimizer> make(const scape_problem& problem, scape_communicator* communicator,
                                      std::span<const scape_values> parameters) {
    if (problem.problem.algorithm != problem::Algorithm::scape)
        throw Error("settings: algorithm is adams, which the reference and the recorder know; the "
                    "optimizer is scape");
    auto handle = std::make_unique<scape_optimizer>();
    handle->communicator = communicator_for(problem, communicator);
    const auto start = floats(parameters, problem.problem.layout.size(), handle->gathered, "parameters");
    auto ranges =
        problem::ranges(problem.problem.layout, problem.problem.workers, problem.settings.partition);
    auto backend = distributed::make_host_backend(problem.problem, start, problem.settings.threads);
    handle->optimizer = std::make_unique<distributed::Scape>(
        problem.problem, std::move(ranges), problem.settings.density, std::move(backend),
        *handle->communicator, distributed::Scape::Options{problem.settings.reduction});
    handle->gathered = {};
    return handle;
}

void refuse_after_buckets(const scape_optimizer& handle) {
    if (handle.in_buckets)
        throw Error("a step with a gradient, after buckets of one; call scape_optimizer_step_of_parts");
}

std::span<const float> gradient_of(scape_optimizer& handle, const scape_values* gradient,
                                   std::size_t count) {
    return floats(pieces(gradient, count, "gradient"), handle.optimizer->problem().layout.size(),
                  handle.gathered, "gradient");
}

/// Makes ready what a step, or a bucket of it, takes. Where this rank alone cannot, its error ends the step
/// on all ranks: the others would wait for it.
template <class Prepare, class Refuse>
auto prepared_or(scape_optimizer& handle, const Prepare& prepare, const Refuse& refuse) {
    try {
        return prepare();
    } catch (const std::exception& error) {
        handle.in_buckets = false;
        try {
            refuse(error.what());
        } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): the first one is thrown
        }
        throw;
    }
}

template <class Prepare>
auto prepared(scape_optimizer& handle, double learning_rate, const Prepare& prepare) {
    return prepared_or(
        handle,
        [&] {
            if (!std::isfinite(learning_rate))
                throw Error("learning rate is " + shortest(learning_rate) + "; it must be finite");
            return prepare();
        },
        [&](const char* fault) { handle.optimizer->refuse_step(fault); });
}

/// Zeros at first.
distributed::AlignedFloats& gradient_room(scape_optimizer& handle) {
    handle.used_up.resize(static_cast<std::size_t>(handle.optimizer->problem().layout.size()));
    return handle.used_up;
}

/// The values of these tensors, to where they stand in the gradient.
void place(scape_optimizer& handle, std::span<const std::size_t> tensors,
           std::span<const scape_values> given) {
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

void bucket(scape_optimizer& handle, const std::size_t* first, std::size_t tensor_count,
            const scape_values* values, std::size_t count) {
    const std::span<const std::size_t> tensors{first, tensor_count};
    handle.bucketed.resize(static_cast<std::size_t>(handle.optimizer->problem().layout.size()));
    prepared_or(
        handle,
        [&] {
            if (tensor_count > 0)
                need(first, "tensors");
            place(handle, tensors, pieces(values, count, "values"));
        },
        // A bucket without tensors is one that all ranks refuse.
        [&](const char*) { handle.optimizer->bucket({}, handle.bucketed); });
    handle.in_buckets = true;
    try {
        handle.optimizer->bucket(tensors, handle.bucketed);
    } catch (...) {
        handle.in_buckets = false; // they have been forgotten
        throw;
    }
}

/// A mask's words are its bytes on the machines that there are (little-endian, as the trace format is).
scape_values bits_of(const Mask& mask) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(mask.words());
    return view(std::span(bytes, static_cast<std::size_t>((mask.size() + 7) / 8)));
}

scape_values look(scape_optimizer& handle, std::int32_t what) {
    distributed::Scape& optimizer = *handle.optimizer;
    switch (what) {
    case SCAPE_PARAMETERS:
        return view(optimizer.parameters());
    case SCAPE_FIRST_MOMENT:
        handle.moment = optimizer.moment();
        return view(std::span<const float>(handle.moment));
    case SCAPE_RESIDUAL:
        return view(optimizer.residual());
    case SCAPE_MASK:
        return bits_of(optimizer.mask());
    case SCAPE_NEXT_MASK:
        return bits_of(optimizer.coming_mask());
    default:
        throw Error("view: there is no " + std::to_string(what) +
                    " of an optimizer; give SCAPE_PARAMETERS (0) to SCAPE_NEXT_MASK (4)");
    }
}

Mask mask_of(const scape_values& values, problem::Index size, const char* what) {
    const auto bytes = bits(values, size, what);
    Mask mask(size);
    std::memcpy(mask.words(), bytes.data(), bytes.size());
    mask.count();
    return mask;
}

std::vector<float> copy(const scape_values& values, problem::Index size, const char* what) {
    std::vector<float> room;
    const auto given = floats({&values, 1}, size, room, what);
    return {given.begin(), given.end()};
}

/// m is +0 off the mask, so nothing is lost where only what is on it is kept.
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

void restore(distributed::Scape& optimizer, const scape_state& given) {
    const bool scaled = format_of(optimizer.problem().settings.payload) == problem::Payload::e5m2;
    if (scaled || given.struct_size != offsetof(scape_state, exponent))
        need_size(given.struct_size, sizeof(scape_state), "scape_state");
    if (given.step < 0)
        throw Error("restore: step is " + std::to_string(given.step) + "; it is 0 or more");
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
} // namespace scape::abi

using scape::abi::guarded;
using scape::abi::need;
using scape::abi::of;

scape_status scape_optimizer_create(const scape_problem* problem, scape_communicator* communicator,
                                    const scape_values* parameters, size_t count,
                                    scape_optimizer** optimizer) {
    return guarded([&] {
        need(problem, "problem");
        need(optimizer, "optimizer");
        *optimizer =
            scape::abi::make(*problem, communicator, scape::abi::pieces(parameters, count, "parameters"))
                .release();
    });
}

void scape_optimizer_destroy(scape_optimizer* optimizer) {
    delete optimizer;
}

scape_status scape_optimizer_step(scape_optimizer* optimizer, const scape_values* gradient, size_t count,
                                  double learning_rate) {
    return guarded([&] {
        auto& of_rank = of(optimizer);
        const auto whole = scape::abi::prepared(*optimizer, learning_rate, [&] {
            scape::abi::refuse_after_buckets(*optimizer);
            return scape::abi::gradient_of(*optimizer, gradient, count);
        });
        of_rank.step(whole, learning_rate);
    });
}

scape_status scape_optimizer_gradient(scape_optimizer* optimizer, scape_values* room) {
    return guarded([&] {
        need(optimizer, "optimizer");
        need(room, "room");
        *room = scape::abi::view(std::span<const float>(scape::abi::gradient_room(*optimizer)));
    });
}

scape_status scape_optimizer_step_using_up(scape_optimizer* optimizer, const scape_values* gradient,
                                           size_t count, double learning_rate) {
    return guarded([&] {
        auto& of_rank = of(optimizer);
        auto& room = scape::abi::gradient_room(*optimizer);
        scape::abi::prepared(*optimizer, learning_rate, [&] {
            scape::abi::refuse_after_buckets(*optimizer);
            scape::abi::gather(scape::abi::pieces(gradient, count, "gradient"), room, "gradient");
        });
        of_rank.step_using_up(room, learning_rate);
    });
}

scape_status scape_optimizer_accumulate(scape_optimizer* optimizer, const scape_values* gradient,
                                        size_t count) {
    return guarded([&] { of(optimizer).accumulate(scape::abi::gradient_of(*optimizer, gradient, count)); });
}

scape_status scape_optimizer_bucket(scape_optimizer* optimizer, const size_t* tensors, size_t tensor_count,
                                    const scape_values* values, size_t count) {
    return guarded([&] {
        need(optimizer, "optimizer");
        scape::abi::bucket(*optimizer, tensors, tensor_count, values, count);
    });
}

scape_status scape_optimizer_step_of_parts(scape_optimizer* optimizer, double learning_rate) {
    return guarded([&] {
        auto& of_rank = of(optimizer);
        scape::abi::prepared(*optimizer, learning_rate, [] {});
        if (!optimizer->in_buckets)
            return of_rank.step(learning_rate);
        optimizer->in_buckets = false;
        of_rank.step(std::span<const float>(optimizer->bucketed), learning_rate);
    });
}

scape_status scape_optimizer_forget_parts(scape_optimizer* optimizer) {
    return guarded([&] {
        of(optimizer).forget_parts();
        optimizer->in_buckets = false;
    });
}

scape_status scape_optimizer_progress(scape_optimizer* optimizer) {
    return guarded([&] { of(optimizer).progress(); });
}

int64_t scape_optimizer_steps(const scape_optimizer* optimizer) {
    return optimizer == nullptr ? 0 : optimizer->optimizer->steps();
}

scape_status scape_optimizer_view(scape_optimizer* optimizer, int32_t what, scape_values* view) {
    return guarded([&] {
        need(optimizer, "optimizer");
        need(view, "view");
        *view = scape::abi::look(*optimizer, what);
    });
}

scape_status scape_optimizer_statistics(const scape_optimizer* optimizer, scape_statistics* statistics) {
    return guarded([&] {
        need(optimizer, "optimizer");
        need(statistics, "statistics");
        const size_t size = statistics->struct_size;
        if (size != offsetof(scape_statistics, exponent))
            scape::abi::need_size(size, sizeof(scape_statistics), "scape_statistics");
        const auto& last = optimizer->optimizer->statistics();
        static_assert(SCAPE_TRAFFIC_KINDS == scape::distributed::traffic_kinds);
        scape_statistics all = {size,
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

scape_status scape_optimizer_exponent(const scape_optimizer* optimizer, int32_t* exponent) {
    return guarded([&] {
        need(optimizer, "optimizer");
        need(exponent, "exponent");
        *exponent = optimizer->optimizer->exponent();
    });
}

scape_status scape_optimizer_restore(scape_optimizer* optimizer, const scape_state* state) {
    return guarded([&] {
        need(state, "state");
        scape::abi::restore(of(optimizer), *state);
    });
}

scape_status scape_optimizer_save(scape_optimizer* optimizer, const char* folder) {
    return guarded([&] {
        need(folder, "folder");
        scape::distributed::save_checkpoint(of(optimizer), *optimizer->communicator, folder);
    });
}

scape_status scape_optimizer_load(scape_optimizer* optimizer, const char* checkpoint) {
    return guarded([&] {
        need(checkpoint, "checkpoint");
        scape::distributed::restore_checkpoint(of(optimizer), *optimizer->communicator, checkpoint);
    });
}
