// Section 8.14: what the ranks were given must be the same on all, and so must their buckets.
#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

namespace {

/// FNV-1a.
std::uint64_t number_of(const std::string& bytes) {
    std::uint64_t number = 0xcbf29ce484222325U;
    for (const char byte : bytes)
        number = (number ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    return number;
}

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}

/// The norm's version counts only with clipping.
std::string text_of(const problem::HyperParameters& settings) {
    std::ostringstream text;
    text << std::hexfloat;
    for (const double value :
         {settings.beta1, settings.beta2, settings.epsilon, settings.weight_decay, settings.clip_norm})
        text << value << ' ';
    text << name(settings.bias_correction) << ' ' << name(settings.payload) << ' '
         << name(settings.k_rounding) << ' '
         << (settings.clip_norm > 0.0 ? static_cast<int>(settings.norm) : 0);
    return text.str();
}

/// Everything that must be the same, except for the parameters.
std::string text_of(const properties::scape::Setup& setup) {
    const problem::HyperParameters& settings = setup.problem.settings;
    std::ostringstream text;
    text << text_of(settings);
    if (problem::has_levels(settings.groups))
        for (const int size : settings.groups)
            text << " group " << size;
    for (const problem::Tensor& tensor : setup.problem.layout.tensors())
        text << " tensor " << tensor.size << (tensor.always_dense ? " dense" : "");
    for (const problem::Segment& segment : setup.problem.segments)
        text << " segment " << segment.begin << ' ' << segment.end << ' ' << segment.owner;
    for (const problem::Range& range : setup.ranges)
        text << " range " << range.begin << ' ' << range.end;
    return text.str() + " density " + setup.density.text();
}

} // namespace

std::uint64_t number_of_settings(const problem::HyperParameters& settings) {
    return number_of(text_of(settings));
}

std::uint64_t number_of_state(const properties::scape::InitialState& begun) {
    return number_of(std::to_string(begun.step) + " " + bytes_of(begun.mask) + bytes_of(begun.moment)) | 1U;
}

/// `begins`: at the start of a run, not within a recorded one.
void PlainRank::compare_given(const properties::scape::Setup& setup, bool begins) {
    struct Given {
        std::uint64_t settings;
        std::uint64_t parameters;
    };
    const auto all = distributed::gather_records(
        communicator_, Given{number_of(text_of(setup)), number_of(bytes_of(setup.parameters))});
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (!has(Bug::given_not_compared) &&
            (all[rank].settings != all.front().settings || all[rank].parameters != all.front().parameters))
            throw Error("plain: rank " + std::to_string(rank) + " was given something else than rank 0");
    for (const float value : setup.parameters)
        if (begins && !std::isfinite(value) && !has(Bug::start_not_finite))
            throw Error("plain: a parameter is not finite");
}

/// The fault of the buckets; empty if every non-empty tensor is in exactly one bucket, or there are
/// no buckets.
std::string PlainRank::fault_of_buckets() const {
    const auto& tensors = problem_.layout.tensors();
    std::vector<int> times(tensors.size(), 0);
    for (const auto& bucket : cut_)
        for (const std::size_t tensor : bucket) {
            if (tensor >= times.size())
                return "there is no tensor " + std::to_string(tensor);
            if (++times[tensor] > 1)
                return "tensor " + tensors[tensor].name + " comes a second time";
        }
    for (std::size_t tensor = 0; tensor < times.size(); ++tensor)
        if (!cut_.empty() && times[tensor] == 0 && tensors[tensor].size > 0)
            return "tensor " + tensors[tensor].name + " is in no bucket";
    return {};
}

/// The order of tensors within a bucket is free.
void PlainRank::compare_states_and_buckets() {
    struct Given {
        std::uint64_t state;
        std::uint64_t buckets;
    };
    std::string buckets;
    for (auto bucket : cut_) {
        std::ranges::sort(bucket);
        buckets += bytes_of(bucket) + "|";
    }
    const std::string fault = fault_of_buckets();
    const auto all = distributed::gather_records(
        communicator_, Given{given_state_, fault.empty() ? number_of(buckets) : 0});
    std::string wrong;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (all[rank].state != all.front().state && !has(Bug::states_not_compared))
            wrong = "rank " + std::to_string(rank) + " goes on from another state";
        if ((all[rank].buckets == 0 || all[rank].buckets != all.front().buckets) &&
            !has(Bug::buckets_not_compared))
            wrong = "rank " + std::to_string(rank) + " gives other buckets, or such as are none; " + fault;
    }
    if (!wrong.empty()) {
        parts_.clear();
        cut_.clear();
        throw Error("plain: " + wrong);
    }
    given_state_ = 0;
    for (auto& bucket : cut_) // if a bug has let them pass
        std::erase_if(bucket,
                      [this](std::size_t tensor) { return tensor >= problem_.layout.tensors().size(); });
}

} // namespace truestep::properties::scape::planted
