// Checks the arguments of one MAPL pass of a caller, runs it, and checks what it made.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include <truestep/problem/error.hpp>

#include "mapl_boundary.hpp"
#include "values.hpp"

namespace truestep::abi {

MaplPass::MaplPass(truestep_mapl_boundary* boundary, int side, const int64_t* ids, int64_t tokens)
    : boundary_(need(boundary, "boundary")), side_(static_cast<std::size_t>(side)) {
    if (tokens < 0 || tokens > std::numeric_limits<int64_t>::max() / boundary_.settings.width)
        throw Error("tokens is " + std::to_string(tokens) + "; give as many as there are ids, 0 or more");
    if (tokens > 0)
        need(ids, "ids");
    ids_.reserve(static_cast<std::size_t>(tokens));
    for (int64_t token = 0; token < tokens; ++token) {
        if (ids[token] < 0 || ids[token] >= boundary_.settings.vocabulary)
            throw Error("the id of token " + std::to_string(token) + " is " + std::to_string(ids[token]) +
                        "; the vocabulary is " + std::to_string(boundary_.settings.vocabulary));
        ids_.push_back(static_cast<distributed::mapl::Id>(ids[token]));
    }
}

distributed::mapl::SideMatrices MaplPass::matrices(const float* anchor) const {
    const truestep_mapl_boundary& mine = boundary_;
    return {mine.width(),  mine.rank(), static_cast<std::size_t>(mine.settings.vocabulary),
            mine.a.data(), anchor,      mine.anchored() ? mine.rows[side_].data() : nullptr};
}

std::span<const float> MaplPass::given(const truestep_values* values, std::size_t columns, Floats& room,
                                       const char* what) const {
    need(values, what);
    const std::string whole =
        "values of " + std::to_string(ids_.size()) + " tokens of " + std::to_string(columns);
    return floats({values, 1}, static_cast<int64_t>(ids_.size() * columns), room, what, whole.c_str());
}

std::span<const float> MaplPass::finite(const truestep_values* values, std::size_t columns, Floats& room,
                                        const char* what) const {
    const auto all = given(values, columns, room, what);
    must_be_finite(all, what);
    return all;
}

std::span<const float> MaplPass::anchor_of(const truestep_values* anchor, Floats& room) const {
    if (!boundary_.anchored()) {
        if (anchor != nullptr)
            throw Error("anchor: the boundary has anchors=none; give NULL");
        return {};
    }
    need(anchor, "anchor");
    const std::string whole = "values of " + std::to_string(boundary_.settings.vocabulary) +
                              " ids and rank " + std::to_string(boundary_.settings.rank);
    return floats({anchor, 1}, boundary_.settings.vocabulary * boundary_.settings.rank, room, "anchor",
                  whole.c_str());
}

void MaplPass::check_result(const float* result, std::size_t columns, const char* what,
                            std::span<const float> anchor) const {
    if (!distributed::mapl::all_finite({result, ids_.size() * columns}))
        throw Error(std::string(what) + " overflows" +
                    (anchor.empty() ? "" : ", or a row of the anchor is not finite") +
                    "; nothing has changed");
}

void MaplPass::check_made(const float* made, const char* what, std::span<const float> given,
                          const char* given_as, std::span<const float> anchor) const {
    // Non-finite inputs make non-finite results (passes.hpp), so checking these suffices.
    if (!distributed::mapl::all_finite({made, ids_.size() * boundary_.rank()}))
        must_be_finite(given, given_as);
    check_result(made, boundary_.rank(), what, anchor);
}

void MaplPass::round_payload(float* made, const char* what) const {
    if (boundary_.settings.payload == problem::mapl::Payload::fp32)
        return;
    boundary_.form->round_to_bf16({made, ids_.size() * boundary_.rank()});
    check_result(made, boundary_.rank(), what);
}

void MaplPass::check_backward(int64_t step, const float* anchor_gradient) const {
    if (step != boundary_.steps)
        throw Error("the micro-batch went forward at step " + std::to_string(step) +
                    ", and A is that of step " + std::to_string(boundary_.steps) +
                    "; let all come back before the step ends");
    const bool trained = boundary_.settings.anchors == problem::mapl::Anchors::shared ||
                         boundary_.settings.anchors == problem::mapl::Anchors::two;
    if (anchor_gradient != nullptr && !trained)
        throw Error("anchor_gradient: nothing is trained with anchors=" +
                    std::string(problem::mapl::name(boundary_.settings.anchors)) + "; give NULL");
}

void MaplPass::compress(const truestep_values* x, const truestep_values* anchor, float* q, float* z) const {
    Floats room;
    Floats table_room;
    const auto values = given(x, boundary_.width(), room, "activations");
    const auto table = anchor_of(anchor, table_room);
    if (ids_.empty())
        return;
    need(z, "z");
    if (boundary_.anchored())
        need(q, "q");
    boundary_.form->compress(matrices(table.data()), ids_, values.data(), q, z);
    check_made(z, "z", values, "activations", table);
    if (!problem::mapl::quantizes(boundary_.settings)) // then it travels as indices
        round_payload(z, "z");
}

void MaplPass::decompress(const truestep_values* z, const truestep_values* anchor, float* xhat) const {
    Floats room;
    Floats table_room;
    const auto values = finite(z, boundary_.rank(), room, "z");
    const auto table = anchor_of(anchor, table_room);
    if (ids_.empty())
        return;
    need(xhat, "xhat");
    boundary_.form->decompress(matrices(table.data()), ids_, values.data(), xhat);
    check_result(xhat, boundary_.width(), "xhat", table);
}

void MaplPass::compress_backward(int64_t step, const truestep_values* q, const truestep_values* dz,
                                 float* dx, float* anchor_gradient) const {
    check_backward(step, anchor_gradient);
    Floats room;
    Floats gradient_room;
    const auto values = finite(q, boundary_.width(), room, "q");
    const auto gradient = finite(dz, boundary_.rank(), gradient_room, "dz");
    if (!ids_.empty()) {
        need(dx, "dx");
        const distributed::mapl::SideMatrices side = matrices(nullptr);
        boundary_.form->decompress_gradient(side, ids_.size(), gradient.data(), dx);
        check_result(dx, boundary_.width(), "dx");
        boundary_.form->add_senders(side, ids_, values.data(), gradient.data(), dx,
                                    boundary_.parts[side_].data(), anchor_gradient);
    }
    has_come_back();
}

void MaplPass::decompress_backward(int64_t step, const truestep_values* z, const truestep_values* gradient,
                                   float* dz, float* anchor_gradient) const {
    check_backward(step, anchor_gradient);
    Floats room;
    Floats gradient_room;
    const auto values = finite(z, boundary_.rank(), room, "z");
    const auto g = given(gradient, boundary_.width(), gradient_room, "gradient");
    if (!ids_.empty()) {
        need(dz, "dz");
        const distributed::mapl::SideMatrices side = matrices(nullptr);
        boundary_.form->compress_gradient(side, ids_.size(), g.data(), dz);
        check_made(dz, "dz", g, "gradient");
        round_payload(dz, "dz");
        boundary_.form->add_receivers(side, ids_, values.data(), g.data(), boundary_.parts[side_].data(),
                                      anchor_gradient);
    }
    has_come_back();
}

} // namespace truestep::abi
